"""Values of a container's cgroup that its specification sets already: an earlier NRI plugin's, or the client's.

They stay, as a runtime's RDT class and cpuset do. Some runtimes do not pass them to plugins (containerd 2.1 leaves
``unified`` out of StartContainer), so the cgroup is read too, before the container's process runs.
"""

from ..classes.memory import HIGH, MAX, SWAP
from ..host.cgroup import folders_for, read_value, same_value
from .own import own_cgroup
from .values import is_in_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.workload import Workload
    from ..context import Context

    Pairs = list[list[str]]

# The kernel's values of a new cgroup, of files that no other part of a specification writes (kernel,
# Documentation/admin-guide/cgroup-v2.rst).
_NEW = {
    HIGH: MAX,
    SWAP: MAX,
    "memory.min": "0",
    "memory.low": "0",
    "memory.oom.group": "0",
    "cpu.uclamp.min": "0.00",
    "cpu.uclamp.max": MAX,
}
# No decision for one container: the kubelet sets them everywhere (kubernetes, pkg/kubelet/kuberuntime,
# kuberuntime_container_linux.go), and a runtime without a swap limit sets the first one.
_USUAL = {(SWAP, "0"), ("memory.oom.group", "1")}
_IO_MAX, _UNLIMITED = "io.max", "=max"


def without_foreign(desired: "Pairs", workload: "Workload", context: "Context") -> "tuple[Pairs, list[str]]":
    """Return the values, pairs of a file and its content, without those that are set to others; and these in words.

    Raises:
        CgroupError: as `own_cgroup`.
    """
    foreign: "list[str]" = []
    left: "Pairs" = []
    starts = _starts(workload, context)
    for name, value in desired:
        theirs = _specified(name, workload) or (_found(name, value, workload, context) if starts else "")
        if theirs and not is_in_place(theirs, name, value) and (name, theirs) not in _USUAL:
            foreign.append(f"{name} is {theirs[:80]} instead of {value}")
        else:
            left.append([name, value])
    return left, foreign


def _starts(workload: "Workload", context: "Context") -> "bool":
    """Return whether a process is there of which the ledger has no steps, so that no value is this program's."""
    key = context.ledger.key_of(workload.id) if workload.pid else ""
    record = context.ledger.read_member(key, workload.id) if key else None
    return bool(workload.pid) and (record is None or record.get("pid") != workload.pid)


def _specified(name: str, workload: "Workload") -> str:
    unified = workload.bundle.resources.get("unified")
    return str(unified.get(name) or "").strip() if isinstance(unified, dict) else ""


def _found(name: str, value: str, workload: "Workload", context: "Context") -> str:
    """Return a value in the cgroup that is not a new cgroup's; of ``io.max`` the device's line."""
    if name not in _NEW and name != _IO_MAX:
        return ""
    leaf = own_cgroup(workload, context)
    text = read_value(folders_for(name, leaf.folder, leaf.scope)[0], name) if leaf is not None else ""
    if name != _IO_MAX:
        swap = workload.bundle.resources.get("memory") if name == SWAP else None
        if isinstance(swap, dict) and swap.get("swap"):
            return ""  # of the specification's memory limits, where the kubelet sets it
        return "" if same_value(name, text, _NEW[name]) else text
    device = value.partition(" ")[0]
    line = next((line for line in text.splitlines() if line.split()[:1] == [device]), "")
    return line if any(not word.endswith(_UNLIMITED) for word in line.split()[1:]) else ""
