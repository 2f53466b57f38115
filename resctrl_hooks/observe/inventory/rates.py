"""Rates between two snapshots: the counted amount divided by the seconds of counting.

A pod may be counted for only a part of an interval: after a handover of its RMID, a change of its class, or a
reassignment of its counter. If that part is unknown or less than half of the interval, there is no rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from resctrl_hooks.core.node.resctrl.bandwidth import EVENTS
from resctrl_hooks.core.node.resctrl.counters import AVAILABLE, CUMULATIVE
from resctrl_hooks.core.node.resctrl.layouts import PERF, is_of
from resctrl_hooks.observe.node.snapshot.growth import Growth, growths, of_class, total_of
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot, Values, is_known

from .columns import COLUMNS, GAUGES, RATES, Column, values_of
from .limited import PodLimit
from .pod_rates import PodMemory, PodRates

LEAST_SHARE = 0.5
"""The minimum part of an interval that a counter must cover for a rate."""
WHOLE = 0.98
"""The part of an interval that counts as all of it: clocks are read a moment before counters."""

Amounts = dict[str, float | None]
"""By counter, over all domains; None if unknown, no entry if the counter does not exist."""

POD, FOREIGN, UNGROUPED, TOTAL = "pod", "foreign", "ungrouped", "total"


@dataclass(slots=True)
class Line:
    """One user of cache, memory and energy, and its use in an interval.

    Attributes:
        kind: pod, foreign, ungrouped, or total: the sum of all lines above.
        values: the use by `Column.key`; None or no entry: unknown.
        rdt_class: empty for the root class, None if there are several.
        members: the number of lines in the sum; ``uncounted``: how many pods of them have no bandwidth counter now.
        partial: whether a pod's counters do not cover its whole life.
        slowdown: None while unknown; of several pods the largest.
        limited: the pod's active limits.
        shares: a line for each class of a pod that is in several.
        counted: the part of the interval that was counted; None without a rate.
        moved: the counted amounts, for any part of the interval; ``by_domain``: that of each counter in each domain.
    """

    kind: str = POD
    name: str = ""
    key: str = ""
    values: dict[str, float | None] = field(default_factory=dict)
    namespace: str = ""
    pod: str = ""
    rdt_class: str | None = None
    members: int = 1
    partial: bool = False
    uncounted: int = 0
    slowdown: float | None = None
    limited: list[PodLimit] | None = None
    shares: list["Line"] = field(default_factory=list)
    counted: float | None = None
    moved: Amounts = field(default_factory=dict)
    by_domain: dict[tuple[str, str], float | None] = field(default_factory=dict)

    def __getitem__(self, column: Column) -> float | None:
        """Return the value of a column."""
        return self.values.get(column.key)

    @property
    def estimated(self) -> bool:
        """Whether the rates cover only a part of the interval."""
        return self.counted is not None and self.counted < 1

    @property
    def counted_percent(self) -> float | None:
        """The counted part of the interval in per cent."""
        return None if self.counted is None else round(self.counted * 100, 1)


def of_pod(before: Snapshot, now: Snapshot, key: str, rdt_class: str | None = None, domain: str = "") -> Line:
    """Return the use of a pod between two snapshots; only of its tasks in a class, only in a domain, if given."""
    gauges = [
        (reading.counter.name, reading.value if reading.state == AVAILABLE else None)
        for reading in of_class(now.pods[key], rdt_class)
        if reading.kind != CUMULATIVE and reading.domain.node is None and domain in ("", reading.domain.folder)
    ]
    grown = growths(before, now, key, rdt_class)
    grown = {place: growth for place, growth in grown.items() if _belongs(*place, domain, now)}
    return _line(gauges, grown, now.when - before.when)


def of_values(
    before: Values | None, now: Values, snapshot: Snapshot, seconds: float, *, is_new: bool, domain: str = ""
) -> Line:
    """Return the use of a foreign group, or of a class's ungrouped tasks, from their counter values.

    Args:
        before: at the earlier snapshot; None if it did not exist.
        now: at the later one.
        snapshot: the later one.
        seconds: between the two.
        is_new: it was created between them, so its memory traffic began at 0.
        domain: the only domain to look at; empty for all.
    """
    gauges: list[tuple[str, float | None]] = []
    grown: dict[tuple[str, str], Growth] = {}
    for path, value in now.items():
        slot = snapshot.slots[path]
        if slot.domain.node is not None or value is None:
            continue
        if not _belongs(slot.counter.name, slot.domain.folder, domain, snapshot):
            continue
        if slot.counter.kind != CUMULATIVE:
            gauges.append((slot.counter.name, value if isinstance(value, (int, float)) else None))
            continue
        begin = 0 if before is None and is_new and slot.domain.resource != PERF else (before or {}).get(path)
        known = is_known(slot, value) and is_known(slot, begin)
        moved = max(_number(value) - _number(begin), 0) if known else None
        grown[slot.counter.name, slot.domain.folder] = (moved, 0.0 if before is None else seconds)
    return _line(gauges, grown, seconds)


def _belongs(counter: str, folder: str, domain: str, snapshot: Snapshot) -> bool:
    """Return whether a domain's counter is in the sum over the node, or over a ``domain``: no byte counts twice."""
    if domain:
        return folder == domain
    return counter not in EVENTS or is_of(snapshot.bandwidth, folder)


def _line(gauges: list[tuple[str, float | None]], grown: dict[tuple[str, str], Growth], interval: float) -> Line:
    """Return the use from the values of gauges, and from the increases of counters by domain."""
    found = Line(by_domain={place: moved for place, (moved, _) in grown.items()})
    for column in GAUGES:
        parts = [value for name, value in gauges if name == column.counter]
        if parts or not column.of_cgroup:
            found.values[column.key] = total_of(parts) if parts else None
    shares: list[float] = []
    for column in RATES:
        domains = [growth for (name, _), growth in grown.items() if name == column.counter]
        if not domains:
            continue
        found.moved[column.counter] = total_of(moved for moved, _ in domains)
        rates = [rate_of(growth, interval) for growth in domains]
        rate = total_of(rates)
        found.values[column.key] = None if rate is None else rate * column.factor
        if column.of_cgroup:
            continue  # it is counted in each second
        shares += [seconds / interval for (_, seconds), rate in zip(domains, rates, strict=True) if rate is not None]
    if shares and _has_rate(found):
        found.counted = 1.0 if min(shares) >= WHOLE else min(shares)
    return found


def of_foreign(before: Snapshot, now: Snapshot, rdt_class: str, name: str, domain: str = "") -> Line:
    """Return the use of a foreign group by its name as text; nothing if it does not exist."""
    counts, earlier = now.foreign.get((rdt_class, name)), before.foreign.get((rdt_class, name))
    if counts is None:
        return Line()
    values = earlier.values if earlier is not None and earlier.identity == counts.identity else None
    return of_values(values, counts.values, now, now.when - before.when, is_new=True, domain=domain)


def pod_rates(before: Snapshot, now: Snapshot, key: str, memory: Sequence[PodMemory] = ()) -> PodRates:
    """Return the rates of a pod as reports have them."""
    return reported(of_pod(before, now, key) if key in now.pods else Line(), before, now, memory)


def reported(found: Line, before: Snapshot, now: Snapshot, memory: Sequence[PodMemory] = ()) -> PodRates:
    """Return the rates between two snapshots as reports have them."""
    return PodRates(
        seconds=round(now.when - before.when, 3),
        **values_of(found.values, RATES),
        counted_percent=found.counted_percent,
        memory_domains=[*memory],
    )


def rate_of(growth: Growth, interval: float) -> float | None:
    """Return amount by seconds; None if they cover less than half of the interval."""
    moved, seconds = growth
    return None if moved is None or interval <= 0 or seconds < LEAST_SHARE * interval else moved / seconds


def added(parts: Sequence[Line], kind: str = POD, name: str = "", **more: Any) -> Line:
    """Return the sum; None if a part is unknown. ``more`` are other fields of it."""
    found = Line(kind, name, members=len(parts), uncounted=sum(part.uncounted for part in parts), **more)
    for column in COLUMNS:
        found.values[column.key] = column.joined(part[column] for part in parts) if parts else None
        if any(column.counter in part.moved for part in parts):
            found.moved[column.counter] = total_of(part.moved.get(column.counter) for part in parts)
    for place in dict.fromkeys(place for part in parts for place in part.by_domain):
        found.by_domain[place] = total_of(part.by_domain.get(place) for part in parts)
    shares = [part.counted for part in parts if part.counted is not None]
    found.counted = min(shares, default=None) if _has_rate(found) else None
    return found


def _has_rate(line: Line) -> bool:
    return any(line[column] is not None for column in RATES if not column.of_cgroup)


def _number(value: float | str | None) -> float:
    """Return a known value (`is_known`), which is a number or counts as 0."""
    return value if isinstance(value, (int, float)) else 0
