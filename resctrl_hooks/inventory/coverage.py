"""How much of a pod's life its counters cover, and which bandwidth counters it has where the kernel assigns them."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.resctrl.assignment import Assignments
from resctrl_hooks.node.resctrl.counters import CUMULATIVE, Reading
from resctrl_hooks.node.sharing.bandwidth_counters import events_of

from .models import FreeCounters, State

MARK = "~"
"""Stands before a value that doesn't cover the pod's whole life."""
BandwidthCounters = dict[str, dict[int, bool]]
_SLACK = 2.0
"""Seconds between a container's beginning and its counting that are nothing: what a slow node takes for the hook."""


def is_partial(reading: Reading, record: Mapping[str, Any]) -> bool:
    """Whether a cumulative counter has counted less than it should have: than the pod's life, by the pod's record.

    A group that came later, in another class, should have counted since then.
    """
    born = record.get("born")
    if reading.kind != CUMULATIVE or reading.seconds is None or born is None:
        return False
    since: dict[str, float] = record.get("since", {})
    made = since.get(reading.rdt_class) if reading.rdt_class is not None else None
    if reading.rdt_class is not None and made is None:
        return False  # a group that is gone, or somebody else's: nobody knows
    begins = born if made is None or made == min(since.values()) else made
    return reading.seconds + _SLACK < time.clock_gettime(time.CLOCK_BOOTTIME) - begins


def bandwidth_counters(context: Context, folders: Sequence[str]) -> BandwidthCounters:
    """By event and L3 domain, whether all of a pod's groups have a counter; empty where the kernel assigns none."""
    assignments = Assignments(context.monitor.resctrl)
    found: BandwidthCounters = {}
    for states in (assignments.of(folder) for folder in folders):
        for event, domains in states.items():
            known = found.setdefault(event, dict(domains))
            for domain, has in domains.items():
                known[domain] = known.get(domain, True) and has
    return found


def counted_state(context: Context, counters: BandwidthCounters) -> State:
    """The state of a pod that is in its group with all its threads, by the counters of its most important event."""
    first = counters.get(events_of(context)[0], {}).values()
    if all(first):
        return "assigned"
    return "part-counted" if any(first) else "uncounted"


def free_counters(context: Context) -> list[FreeCounters]:
    """Return how many bandwidth counters each L3 domain has left; empty where the kernel assigns none."""
    assignments = Assignments(context.monitor.resctrl)
    if not assignments.enabled():
        return []
    free = assignments.available()
    return [
        FreeCounters(domain=domain, total=total, free=free.get(domain, 0))
        for domain, total in assignments.capacity().items()
    ]
