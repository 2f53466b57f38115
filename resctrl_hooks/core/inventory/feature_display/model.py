"""One row of the table: the presentation of a feature beyond its steps' parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from resctrl_hooks.core.node.container.workload import Workload
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.feature import Step

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import MemberRecord, SchedulingNeeds, StepRecord

Details = Mapping[str, Any]
"""Details of a container, by feature (`details_of`)."""
Describe = Callable[["MemberRecord", list["StepRecord"]], dict[str, Any]]
"""Function from a container's record and its steps of this feature to named details for `show`."""


class Found(NamedTuple):
    """The target of a step, its current state, and whether the step is possible."""

    where: str = ""
    finds: str = ""
    possible: bool = True


Probe = Callable[[Step, Workload, Context], Found]
"""Function that reads the target of a pending step, for `explain`. Read-only."""


class Columns(NamedTuple):
    """Columns of `list -o wide`, with the cells for a container, or for all containers of a pod.

    They are shown if a container has details of a feature with these columns. ``numbers`` are the headings of numeric
    columns.
    """

    heads: tuple[str, ...]
    cells: Callable[[Sequence[Details]], Sequence[str]]
    numbers: frozenset[str] = frozenset()


def as_recorded(record: "MemberRecord", steps: "list[StepRecord]") -> dict[str, Any]:
    """Return the steps' parameters, by action."""
    return {str(step.get("action", "")): dict(step.get("needs") or {}) for step in steps}


def of_class(record: "MemberRecord", steps: "list[StepRecord]") -> dict[str, Any]:
    """Return the class and the values that it set."""
    needs: SchedulingNeeds = steps[0]["needs"]  # the feature with classes that has the longest records
    values = {str(name): str(value) for name, value in needs.get("values") or []}
    return {"class": needs["class"], **needs.get("process", {}), **values}


def nowhere(step: Step, workload: Workload, context: Context) -> Found:
    """Return an empty result, for features without a readable target, such as scheduling policies."""
    return Found()


class Display(NamedTuple):
    """The presentation of a feature."""

    describe: Describe = as_recorded
    probe: Probe = nowhere
    columns: Columns | None = None
