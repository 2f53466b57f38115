"""The CPUs that other programs have given to containers for themselves: nobody else gets them, as exclusive CPUs.

There are two kinds. A claim that dra-driver-cpu has prepared has a CDI file with its CPUs until the claim ends, also
between two runs of its container (dra-driver-cpu, pkg/driver/cdi.go and dra_hooks.go). Any other program's allocation
is a container's cpuset that placement has not written and that the container's own CPU request fills. Wider cpusets are
pools: dra-driver-cpu gives every container without a claim one, and so does the kubelet's static policy, beside which
placement is inactive.
"""

from ...core.node.container.oci import read_bundle
from ...core.node.container.resources import cpu_request
from ...core.node.container.runtimes import bundle_of
from ...core.node.errors import HookError
from ...core.node.host.cgroup import read_value
from ...core.node.host.cpulist import count, parse_list, union
from ...core.node.host.files import list_folder, parse_json, read_file
from .policy import MILLI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...core.node.context import Context
    from ...core.node.records import MemberRecord

_SPEC = "dra.k8s.io-cpu_"
"""The beginning of the names of dra-driver-cpu's CDI files: vendor and class."""
_VARIABLE = "DRA_CPUSET_"
_CPUS = "cpuset.cpus"
_LIMIT = 1 << 20


def taken_by_others(
    context: "Context",
    unplaced: "Mapping[str, MemberRecord]",
    before: "Mapping[str, int]",
    online: int,
    problems: "list[str]",
) -> "dict[str, int]":
    """Return the CPUs by claim or container.

    Args:
        context: the node.
        unplaced: the records of living containers without a place, by id.
        before: the last result, which counts where a file cannot be read: what cannot be read may still be in use.
        online: all CPUs.
        problems: gets a sentence for each claim whose CPUs are unknown, so that they may be given away.
    """
    found = {}
    folder: str = context.settings.sections["placement"]["cdiPath"]
    for name in list_folder(folder):
        if name.startswith(_SPEC):
            try:
                found[name] = _claimed(f"{folder}/{name}")
            except FileNotFoundError:
                continue
            except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
                found[name] = before.get(name, 0)
                if not found[name]:
                    what = error.strerror if isinstance(error, OSError) else f"not a CDI file: {error}"
                    problems.append(f"{folder}/{name}: {what}; the CPUs of this claim are unknown, and may be assigned")
    for id_, record in unplaced.items():
        try:
            cpus = parse_list(read_value(record.get("cgroup", ""), _CPUS))
            if cpus & online != online and _is_filled(id_, record, cpus, context):
                found[id_] = cpus
        except (HookError, OSError, ValueError):
            if id_ in before:
                found[id_] = before[id_]
    return {name: cpus for name, cpus in found.items() if cpus}


def _claimed(path: str) -> int:
    """Return the CPUs in a CDI file."""
    devices = parse_json(read_file(path, _LIMIT))["devices"]
    variables = [variable.partition("=") for device in devices for variable in device["containerEdits"]["env"]]
    return union(parse_list(cpus) for name, _, cpus in variables if name.startswith(_VARIABLE))


def _is_filled(id_: str, record: "MemberRecord", cpus: int, context: "Context") -> bool:
    """Return whether a container requests at least the CPUs of its cpuset."""
    if not cpus:
        return False
    path = record.get("bundle") or bundle_of(id_, context.settings)  # NRI does not pass it
    return bool(path) and cpu_request(read_bundle(path).resources)[0] >= count(cpus) * MILLI
