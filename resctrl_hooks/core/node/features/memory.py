"""Swap and memory limits of a container by class or annotation, written to its cgroup before its process runs."""

from ..cgroup_settings.foreign import without_foreign
from ..cgroup_settings.own import living_cgroup, own_cgroup
from ..cgroup_settings.values import CgroupFeature, part_of_max, resolved
from ..classes.memory import HIGH, MAX, MemoryLimitError, choice_of, memory_properties
from ..feature import SKIP, Step
from ..host.cgroup import read_value, same_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..container.workload import Workload
    from ..context import Context
    from ..feature import Container, Resources
    from ..host.cgroup import Leaf
    from ..records import LimitNeeds

NAME = "memory"
SMALLEST_HIGH = 4 << 20  # bytes; a runtime's own init needs that much, and is extremely slow with less


class Memory(CgroupFeature):
    """Swap and memory limits of a container's cgroup."""

    name = NAME

    def plan(self, workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
        """Set the limits that the container's class and annotations choose, except those that another program has set.

        Raises:
            MemoryClassError, MemoryLimitError: the choice is missing, not allowed or not sensible.
            CgroupError: the host or the container has no cgroup v2 for it.
        """
        choice = choice_of(workload, context.settings)
        if not choice.limits:
            why = f"{choice.why}: swap and limits left unchanged" if choice.name else choice.why
            return [Step(NAME, SKIP, {}, why)]
        high = choice.limits.get(HIGH, MAX)
        if high != MAX and int(high) < SMALLEST_HIGH:
            raise MemoryLimitError(
                f"{HIGH} {high} would stall the container's start",
                hint=f"the minimum to start a container is {SMALLEST_HIGH} bytes",
            )
        own_cgroup(workload, context)  # raises here, so that `explain` reports it too
        left, foreign = without_foreign(_values(choice.limits), workload, context)
        if not left:
            return [Step(NAME, SKIP, {}, choice.why, foreign)]
        limits = ", ".join(f"{name} {value}" for name, value in left)
        needs: "LimitNeeds" = {"class": choice.name, "limits": {one[0]: one[1] for one in left}}
        if choice.part and HIGH in needs["limits"]:
            needs["part"] = choice.part
        return [Step(NAME, "limit", needs, f"{limits}: {choice.why}", foreign)]

    def values(self, step: "Step") -> "list[list[str]]":
        """Return the limits by the cgroup's file."""
        needs: "LimitNeeds" = step.parameters
        return _values({**needs["limits"], **({HIGH: part_of_max(needs["part"])} if "part" in needs else {})})

    def resources(self, step: "Step") -> "Resources":
        """Return the limits by the cgroup's file."""
        return {"unified": step.parameters["limits"]}

    def properties(self, step: "Step", container: "Container", context: "Context") -> "dict[str, str]":
        """Return the systemd properties that keep the limits.

        Raises:
            MemoryLimitError: the container already uses more, and systemd would wait for the kernel to reclaim.
        """
        needs: "LimitNeeds" = step.parameters
        leaf = living_cgroup(container, context)
        limits = needs["limits"]
        if "part" in needs:
            limits = {**limits, HIGH: resolved(part_of_max(needs["part"]), leaf)}
        _check_room(leaf, limits.get(HIGH, MAX))
        return memory_properties(limits)


def _values(limits: "dict[str, str]") -> "list[list[str]]":
    return [[name, value] for name, value in limits.items()]


def _check_room(leaf: "Leaf", high: str) -> None:
    """Check that a memory.high exceeds the memory in use: a lower one would block the writer, including systemd.

    A limit that the container already has may well be exceeded; that is its purpose.
    """
    if high == MAX or same_value(HIGH, read_value(leaf.folder, HIGH), high):
        return
    used = read_value(leaf.folder, "memory.current")
    if used.isdigit() and int(high) < int(used):
        raise MemoryLimitError(
            f"{HIGH} {high} is below the container's current {used} bytes and would stall it",
            hint="set a higher value",
        )


FEATURE = Memory()
