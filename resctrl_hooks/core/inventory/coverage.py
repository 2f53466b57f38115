"""The part of a pod's life that its counters cover, and its bandwidth counters where the kernel assigns them."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.resctrl.assignment import Assignments
from resctrl_hooks.core.node.resctrl.counter_totals import summed
from resctrl_hooks.core.node.resctrl.counters import CUMULATIVE, Reading
from resctrl_hooks.core.node.sharing.bandwidth_counters import events_of

from .counters import Counter
from .models import FreeCounters, State

MARK = "~"
"""Prefix of a value that does not cover the pod's whole life."""
BandwidthCounters = dict[str, dict[int, bool]]
_SLACK = 2.0
"""Seconds between a container's start and its counting that are ignored: the hook's run time on a slow node."""


def is_partial(reading: Reading, record: Mapping[str, Any]) -> bool:
    """Return whether a cumulative counter covers less than the pod's recorded life.

    A group that was created later, in another class, counts from its own creation.
    """
    born = record.get("born")
    if reading.kind != CUMULATIVE or reading.seconds is None or born is None:
        return False
    since: dict[str, float] = record.get("since", {})
    made = since.get(reading.rdt_class) if reading.rdt_class is not None else None
    if reading.rdt_class is not None and made is None:
        return False  # a removed or foreign group: unknown
    begins = born if made is None or made == min(since.values()) else made
    return reading.seconds + _SLACK < time.clock_gettime(time.CLOCK_BOOTTIME) - begins


def counters_of(readings: Sequence[Reading], record: Mapping[str, Any]) -> tuple[list[Counter], list[Counter]]:
    """Return a pod's readings by class, and their sums over all classes, as reports have them."""
    partial = [is_partial(one, record) for one in readings]
    totals = []
    for total in summed([*readings]):
        place = total.domain, total.counter.name
        parts = [
            (one, is_) for one, is_ in zip(readings, partial, strict=True) if place == (one.domain, one.counter.name)
        ]
        total.seconds = _counted_together([one for one, _ in parts], record)
        incomplete = any(is_ for _, is_ in parts) or is_partial(total, record)
        totals.append(counter_of(total, partial=incomplete))
    return [counter_of(one, partial=is_) for one, is_ in zip(readings, partial, strict=True)], totals


def _counted_together(parts: Sequence[Reading], record: Mapping[str, Any]) -> float | None:
    """Return the time in which a pod was counted in any class; None where the classes' times may or may not overlap."""
    counted = [part.seconds for part in parts if part.seconds]
    if any(part.seconds is None for part in parts):
        return None
    if not counted:
        return 0.0
    now, longest = time.clock_gettime(time.CLOCK_BOOTTIME), max(counted)
    born, since = record.get("born"), record.get("since", {})
    whole_life = born is not None and longest + _SLACK >= now - born
    begins = [since.get(part.rdt_class) for part in parts if part.seconds]
    until_now = all(
        begin is not None and abs(now - begin - one) <= _SLACK for begin, one in zip(begins, counted, strict=True)
    )
    return longest if len(counted) == 1 or whole_life or until_now else None


def counter_of(reading: Reading, *, partial: bool = False) -> Counter:
    """Return a reading as reports have it."""
    return Counter(
        domain=reading.domain.folder,
        resource=reading.domain.resource,
        id=reading.domain.id,
        node=reading.domain.node,
        counter=reading.counter.name,
        rdt_class=reading.rdt_class,
        value=reading.value,
        kind=reading.kind,
        unit=reading.unit,
        state=reading.state,
        seconds=reading.seconds,
        partial=partial,
    )


def bandwidth_counters(context: Context, folders: Sequence[str]) -> BandwidthCounters:
    """Return, by event and domain, whether all groups of a pod have a counter; empty if the kernel assigns none."""
    assignments = Assignments(context.monitor.resctrl)
    found: BandwidthCounters = {}
    for states in (assignments.of(folder) for folder in folders):
        for event, domains in states.items():
            known = found.setdefault(event, dict(domains))
            for domain, has in domains.items():
                known[domain] = known.get(domain, True) and has
    return found


def counted_state(context: Context, counters: BandwidthCounters) -> State:
    """Return the state of a pod with all threads in its group, by the counters of the most important event."""
    first = counters.get(events_of(context, counters)[0], {}).values()
    if all(first):
        return "assigned"
    return "part-counted" if any(first) else "uncounted"


def free_counters(context: Context) -> list[FreeCounters]:
    """Return the number of free bandwidth counters in each domain; empty if the kernel assigns none."""
    assignments = Assignments(context.monitor.resctrl)
    if not assignments.enabled():
        return []
    free = assignments.available()
    return [
        FreeCounters(domain=domain, resource=assignments.resource, total=total, free=free.get(domain, 0))
        for domain, total in assignments.capacity().items()
    ]
