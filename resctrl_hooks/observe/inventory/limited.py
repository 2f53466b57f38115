"""The active limits of pods as `list`, `show` and `top` have them; `limits` has all about them."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from resctrl_hooks.core.inventory.amounts import clock
from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.core.inventory.pod_fields import PodField
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.observe.node.temporary.limits import active_limits

if TYPE_CHECKING:
    from resctrl_hooks.core.inventory.models import Pod

HEADING = "LIMITED"
MARK = "↓"
"""Begins the name of a limited pod where the column has no room."""
DESCRIPTION = "Active limits (`resctrl-hook limit`); null without one."
_MOST = 2


class PodLimit(Record):
    """One limit of a pod."""

    values: list[str] = Field(description="Its values before and after, such as `cpu.weight 100 -> 10`.")
    owner: str
    reason: str
    ends: float | None = Field(description="Its end, in seconds since 1970; null: the pod's end.")

    def __str__(self) -> str:
        end = "the pod's end" if self.ends is None else clock(self.ends)
        why = f" ({self.reason})" if self.reason else ""
        return f"{', '.join(self.values)} until {end} by {self.owner}{why}"


def limits_by_pod(context: Context) -> dict[str, list[PodLimit]]:
    """Return the active limits of each limited pod, by key."""
    found: dict[str, list[PodLimit]] = {}
    for one in active_limits(context).values():
        limit = PodLimit(values=[value.text for value in one.values], owner=one.owner, reason=one.reason, ends=one.ends)
        found.setdefault(one.key, []).append(limit)
    return found


def as_cell(limits: Sequence[PodLimit] | None) -> str:
    """Return which values are limited and the time of the first end: ``cpu.weight to 14:03``; empty without one."""
    names = list(dict.fromkeys(value.split()[0] for one in limits or () for value in one.values))
    return values_cell(names, min((one.ends for one in limits or () if one.ends is not None), default=None))


def values_cell(names: Sequence[str], ends: float | None) -> str:
    """Return names of limited values with the time of the first end; None: no end but the pod's."""
    more = f"+{len(names) - _MOST}" if len(names) > _MOST else ""
    end = "" if ends is None else f" to {time.strftime('%H:%M', time.localtime(ends))}"
    return f"{','.join(names[:_MOST])}{more}{end}"


def _of_pods(context: Context, given: Mapping[str, Any]) -> Callable[["Pod"], list[PodLimit] | None]:
    known = limits_by_pod(context)
    return lambda pod: known.get(pod.key)


LIMITED: Final = PodField(
    "limited",
    list[PodLimit],
    DESCRIPTION,
    _of_pods,
    heading=HEADING,
    cell=as_cell,
    line=lambda limits: "; ".join(map(str, limits)),
    is_mark=True,
)
"""The field of pods in `list` and `show`."""
