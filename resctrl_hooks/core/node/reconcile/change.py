"""The change that one running container needs: decided from what was observed of it, carried out by `bring_in`."""

from ..feature_table import FEATURES, RDT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..container.running import Running
    from ..feature import Feature, Step

    Steps = list[tuple[Feature, Step]]


class Change:
    """What a container needs.

    ``late``: it is to be recorded and has no record. ``classes``: the steps to apply before it joins its group, which
    give it its RDT class; ``others``: those to apply afterwards. ``joins``: it joins its group. ``stray``: its threads
    outside.
    """

    __slots__ = ("classes", "container", "joins", "late", "others", "stray")

    def __init__(self, container: "Running", *, joins: bool = True) -> None:
        self.container = container
        self.late = bool(container.record["steps"] or container.noted) and not container.recorded
        self.classes: "Steps" = []
        self.others: "Steps" = []
        self.joins = joins
        self.stray = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done, recorded or logged."""
        rewritten = self.container.recorded and self.container.changed
        return not (self.classes or self.others or self.joins or self.late or rewritten or self.container.unlogged)

    @property
    def placed(self) -> "list[str]":
        """The container's id if its new record has a step of a feature that else would adopt it."""
        steps = self.container.record["steps"] if self.late else []
        return [self.container.id] if any(FEATURES[step["feature"]].adopts for step in steps) else []


def planned_change(
    container: "Running", missing: "Sequence[tuple[Feature, Step]]", stray: int, *, can_join: bool, waits: bool
) -> Change:
    """Return what a container needs. Pure.

    Args:
        container: the container with its record or plan.
        missing: its steps that do not hold.
        stray: how many of its threads are outside its group.
        can_join: whether the node has groups.
        waits: whether its key is marked as waiting for an RMID.
    """
    change = Change(container, joins=False)
    for one in missing:
        (change.classes if one[0].name == RDT else change.others).append(one)
    change.stray = stray
    change.joins = can_join and container.monitored and bool(stray or change.late or change.classes or waits)
    return change
