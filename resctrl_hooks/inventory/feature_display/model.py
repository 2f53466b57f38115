"""One row of the table: how a feature is shown where it has more to say than its steps' parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from resctrl_hooks.node.container.workload import Workload
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.feature import Step

if TYPE_CHECKING:
    from resctrl_hooks.node.records import MemberRecord, SchedulingNeeds, StepRecord

Details = Mapping[str, Any]
"""What is shown of a container, by feature (`details_of`)."""
Describe = Callable[["MemberRecord", list["StepRecord"]], dict[str, Any]]
"""From a container's record and its steps of this feature, what `show` says of it, by name."""


class Found(NamedTuple):
    """Where a step is done, what is there now, and whether it can be done."""

    where: str = ""
    finds: str = ""
    possible: bool = True


Probe = Callable[[Step, Workload, Context], Found]
"""Looks at the place of a step that isn't done yet, for `explain`; changes nothing."""


class Columns(NamedTuple):
    """Columns of `list -o wide`: what stands in them for a container, or for all those of a pod together.

    They are there where a container has details of a feature that has them. ``numbers`` are the heads of those that
    hold numbers.
    """

    heads: tuple[str, ...]
    cells: Callable[[Sequence[Details]], Sequence[str]]
    numbers: frozenset[str] = frozenset()


def as_recorded(record: "MemberRecord", steps: "list[StepRecord]") -> dict[str, Any]:
    """Return the steps' parameters, by action."""
    return {str(step.get("action", "")): dict(step.get("needs") or {}) for step in steps}


def of_class(record: "MemberRecord", steps: "list[StepRecord]") -> dict[str, Any]:
    """Return a class, and what it set."""
    needs: SchedulingNeeds = steps[0]["needs"]  # of the features with classes the one that keeps most
    values = {str(name): str(value) for name, value in needs.get("values") or []}
    return {"class": needs["class"], **needs.get("process", {}), **values}


def nowhere(step: Step, workload: Workload, context: Context) -> Found:
    """For what has no place of its own to look at, as a scheduling policy."""
    return Found()


class Display(NamedTuple):
    """How a feature is shown."""

    describe: Describe = as_recorded
    probe: Probe = nowhere
    columns: Columns | None = None
