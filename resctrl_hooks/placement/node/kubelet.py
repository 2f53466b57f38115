"""Detection of the kubelet's static CPU and memory managers, with which placement would conflict."""

from ...core.node.host.files import parse_json, read_file
from .policy import PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.settings import Settings

STATES = (("cpu_manager_state", "CPU", ("static",)), ("memory_manager_state", "memory", ("Static", "BestEffort")))
"""The files in which the managers keep their state, with the policies that pin (kubernetes, pkg/kubelet/cm)."""
_LIMIT = 16 << 20


def static_managers(settings: "Settings") -> "list[str]":
    """Return a sentence for each of the kubelet's managers that pins containers here.

    Raises:
        PlacementError: none is known to pin, and the state of one cannot be read.
    """
    folder: str = settings.sections["placement"]["kubeletPath"]
    found = []
    unknown = ""
    for name, what, pinning in STATES:
        path = f"{folder}/{name}"
        try:
            policy = parse_json(read_file(path, _LIMIT, follow=True))["policyName"]
        except (FileNotFoundError, NotADirectoryError):
            continue  # no kubelet here, or none with that manager
        except OSError as error:
            unknown = f"cannot read {path} ({error.strerror})"
        except (ValueError, KeyError, TypeError):
            unknown = f"{path} has no policyName"
        else:
            if policy in pinning:
                found.append(f"the kubelet's {what} manager has the policy {policy} ({path})")
    if unknown and not found:
        raise PlacementError(
            f"{unknown}: whether the kubelet pins containers is unknown; placement is inactive",
            hint="see the kubelet's log; a kubelet that starts writes the file again",
        )
    return found


def check_kubelet(settings: "Settings") -> None:
    """Refuse placement if the kubelet places containers.

    Raises:
        PlacementError: it does, or its state cannot be read.
    """
    found = static_managers(settings)
    if found:
        raise PlacementError(
            f"{' and '.join(found)}; placement is inactive",
            hint="set placement.enabled to false, or the kubelet's cpuManagerPolicy and memoryManagerPolicy to None",
        )
