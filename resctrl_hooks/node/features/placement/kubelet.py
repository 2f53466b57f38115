"""Detection of the kubelet's static CPU and memory managers, with which placement would conflict."""

from ...host.files import parse_json, read_file
from .policy import PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...settings import Settings

STATES = (("cpu_manager_state", "CPU", ("static",)), ("memory_manager_state", "memory", ("Static", "BestEffort")))
"""The files in which the managers keep their state, with the policies that pin (kubernetes, pkg/kubelet/cm)."""
_LIMIT = 16 << 20


def static_managers(settings: "Settings") -> "list[str]":
    """Return a sentence for each of the kubelet's managers that pins containers here."""
    folder: str = settings.placement["kubeletPath"]
    found = []
    for name, what, pinning in STATES:
        try:
            state = parse_json(read_file(f"{folder}/{name}", _LIMIT, follow=True))
            policy = state.get("policyName", "")
        except (OSError, ValueError, AttributeError):
            continue  # no kubelet here, or none with that manager
        if policy in pinning:
            found.append(f"the kubelet's {what} manager has the policy {policy} ({folder}/{name})")
    return found


def check_kubelet(settings: "Settings") -> None:
    """Refuse placement if the kubelet places containers.

    Raises:
        PlacementError: it does.
    """
    found = static_managers(settings)
    if found:
        raise PlacementError(
            f"{' and '.join(found)}; placement is inactive",
            hint="set placement.enabled to false, or the kubelet's cpuManagerPolicy and memoryManagerPolicy to None",
        )
