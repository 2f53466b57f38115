"""Swap and memory limits of a container, written to its cgroup before its process runs: by class or by annotation."""

from ..host.cgroup import CgroupError, leaf_of, read_value, same_value, write_value
from .memory_class import HIGH, MAX, SWAP, MemoryLimitError, choice_of
from .step import SKIP, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.workload import Workload
    from ..context import Context
    from ..host.cgroup import Leaf
    from ..records import LimitNeeds, MemberRecord
    from ..resctrl.locked_key import LockedKey
    from .step import Container

NAME = "memory"
_PROPERTIES = {SWAP: "MemorySwapMax", HIGH: "MemoryHigh"}  # systemd.resource-control(5)
_INFINITY = "infinity"
SMALLEST_HIGH = 4 << 20  # bytes; a runtime's own init needs as much, and crawls below it


def plan(workload: "Workload", context: "Context") -> "list[Step]":
    """Sets the limits that the container's class and annotations choose.

    Raises:
        MemoryClassError, MemoryLimitError: they choose what is not there, not allowed or not sensible.
        CgroupError: the host or the container has no cgroup v2 for it.
    """
    if workload.sandbox:
        return [Step(NAME, SKIP, {}, "a pod's sandbox has no memory class")]
    choice = choice_of(workload, context.settings)
    if not choice.limits:
        return [Step(NAME, SKIP, {}, f"{choice.why}: swap and limits stay as they are" if choice.name else choice.why)]
    high = choice.limits.get(HIGH, MAX)
    if high != MAX and int(high) < SMALLEST_HIGH:
        raise MemoryLimitError(
            f"{HIGH} {high} would stall the container's start",
            hint=f"the least that a container can start with is {SMALLEST_HIGH} bytes",
        )
    leaf_of(
        context.proc, context.settings.cgroup_path, workload.pid, workload.id, workload.cgroup
    )  # the host's part can fail already now, which explain shows
    limits = ", ".join(f"{name} {value}" for name, value in choice.limits.items())
    needs: "LimitNeeds" = {"class": choice.name, "limits": choice.limits}
    return [Step(NAME, "limit", needs, f"{limits}: {choice.why}")]


def apply(step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
    """Writes the limits where they hold at once and, on a scope of systemd's, where a daemon-reload leaves them."""
    leaf = leaf_of(context.proc, context.settings.cgroup_path, container.pid, container.id, container.cgroup)
    if leaf is None:
        raise CgroupError(f"process {container.pid} has ended, so it has no cgroup")
    needs: "LimitNeeds" = step.parameters
    limits = needs["limits"]
    # One in force may well be below what is in use, which is what it is for.
    _check_room(leaf, _undone(leaf, limits).get(HIGH, MAX))
    _limit(leaf, limits, container.key, container.id, context)


def holds(step: "Step", container: "Container", context: "Context") -> bool:
    """Whether all limits are in force."""
    leaf = leaf_of(context.proc, context.settings.cgroup_path, container.pid, container.id, container.cgroup)
    needs: "LimitNeeds" = step.parameters
    return leaf is None or not _undone(leaf, needs["limits"])


def _undone(leaf: "Leaf", limits: "dict[str, str]") -> "dict[str, str]":
    return {name: limits[name] for name in limits if not same_value(name, read_value(leaf.folder, name), limits[name])}


def _limit(leaf: "Leaf", limits: "dict[str, str]", key: str, container: str, context: "Context") -> None:
    scoped = _set_properties(leaf, limits, key, container, context)
    for name, value in limits.items():
        if scoped and leaf.unit_folder != leaf.folder:
            # crun's processes are a level below the scope, which has limits of its own.
            write_value(leaf.unit_folder, name, value)
        write_value(leaf.folder, name, value)


def _check_room(leaf: "Leaf", high: str) -> None:
    """A memory.high below what is in use would hold up whoever writes it, systemd itself among them."""
    used = read_value(leaf.folder, "memory.current")
    if high != MAX and used.isdigit() and int(high) < int(used):
        raise MemoryLimitError(
            f"{HIGH} {high} is below the {used} bytes that the container uses already, and would stall it",
            hint="set a higher one",
        )


def _set_properties(leaf: "Leaf", limits: "dict[str, str]", key: str, container: str, context: "Context") -> bool:
    """Tells systemd of the limits where the container has a scope of its own there, and says whether it has."""
    if not leaf.own_scope:
        return False  # below a service it would hit the whole service, and the container's part is delegated
    from .scope_properties import tell  # only where systemd manages the container

    values = {_PROPERTIES[name]: _INFINITY if value == MAX else value for name, value in limits.items()}
    return tell(leaf.unit, values, context, key=key, container=container)


def revert(step: "Step", member: "MemberRecord", locked: "LockedKey", context: "Context") -> None:
    """Nothing: the limits are the container's cgroup's and its scope's, and end with them."""
