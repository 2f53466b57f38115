"""Supply of RMIDs and bandwidth counters, demand by priority, and the result of time-sharing for each pod."""

import collections
from collections.abc import Iterable, Sequence

from pydantic import Field

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.resctrl.assignment import Assignments
from resctrl_hooks.core.node.resctrl.counter_share import FOREIGN, OURS, Holder, holders_of
from resctrl_hooks.core.node.sharing import runtimes
from resctrl_hooks.core.node.sharing.bandwidth_counters import events_of

from .base import Record
from .models import Inventory

RMIDS = "RMIDs"


class Level(Record):
    """The pods of one priority: how many want to be counted, how many are, and the results of both ways of sharing."""

    priority: int
    wanted: int = Field(description="Pods of this priority.")
    counted: int = Field(description="Pods that are counted now.")
    kept: int = Field(description="The number of pods that stay counted without time-sharing.")
    turn_percent: float = Field(description="With time-sharing, each pod is counted for this part of the time.")


class Demand(Record):
    """One kind of hardware resource, and the pods that want it."""

    resource: str = Field(description="RMIDs, or an event's counters in a domain.")
    total: int
    others: int = Field(description="Used by the root group, classes and foreign groups, or kept for runtimes.")
    reserved: int = Field(description="Reserved for priorities above `reserve.above`.")
    levels: list[Level]

    @property
    def wanted(self) -> int:
        """Number of pods that want one."""
        return sum(level.wanted for level in self.levels)


def filled(available: int, wanted: dict[int, int], *, reserved: int, above: int) -> dict[int, int]:
    """Return how many pods of each priority can be counted at a time.

    The highest priority comes first; ``reserved`` ones are for priorities above ``above``.
    """
    left, given = available, {}
    for priority in sorted(wanted, reverse=True):
        spare = 0 if priority > above else reserved
        given[priority] = min(wanted[priority], max(left - spare, 0))
        left -= given[priority]
    return given


def demand_of(context: Context, inventory: Inventory) -> list[Demand]:
    """Return the demand for RMIDs and, where the kernel assigns them, for the first event's counters in each domain."""
    found = []
    alive = [pod for pod in inventory.pods if pod.state not in ("unmonitored", "no-rdt", "foreign")]
    # One number has no meaning where each class has its own RMIDs.
    if inventory.rmids is not None and not inventory.rmids.free_by_class:
        ours = sum(group.origin != "missing" for pod in inventory.pods for group in pod.groups)
        reserve = context.settings.monitoring.get("reserve") or {}
        reserved, above = int(reserve.get("rmids", 0)), int(reserve.get("above", 0))
        others = inventory.rmids.used - ours + runtimes.reserved(context)
        pods = [(pod.priority or 0, pod.state != "waiting") for pod in alive]
        levels = _levels(inventory.rmids.total - others, pods, reserved, above)
        demand = Demand(resource=RMIDS, total=inventory.rmids.total, others=others, reserved=reserved, levels=levels)
        found.append(demand)
    assignments = Assignments(context.monitor.resctrl)
    if assignments.enabled():
        try:
            holders = holders_of(context.monitor)
        except HookError:
            return found
        event = events_of(context, (event for holder in holders for event in holder.states))[0]
        for domain, number in sorted(assignments.capacity().items()):
            found.append(_of_counters(event, f"{assignments.resource} domain", domain, number, holders))
    return found


def _of_counters(event: str, kind: str, domain: int, number: int, holders: Sequence[Holder]) -> Demand:
    others = sum(
        states.get(domain, False) for holder in holders if holder.kind == FOREIGN for states in holder.states.values()
    )
    pods = [(holder.priority, holder.has(event, domain)) for holder in holders if holder.kind == OURS]
    levels = _levels(number - others, pods)
    return Demand(
        resource=f"counters of {event} in {kind} {domain}", total=number, others=others, reserved=0, levels=levels
    )


def _levels(available: int, pods: Iterable[tuple[int, bool]], reserved: int = 0, above: int = 0) -> list[Level]:
    known = list(pods)
    wanted = collections.Counter(priority for priority, _ in known)
    counted = collections.Counter(priority for priority, is_counted in known if is_counted)
    given = filled(available, dict(wanted), reserved=reserved, above=above)
    return [
        Level(
            priority=priority,
            wanted=number,
            counted=counted[priority],
            kept=given[priority],
            turn_percent=round(100 * given[priority] / number, 1),
        )
        for priority, number in sorted(wanted.items(), reverse=True)
    ]
