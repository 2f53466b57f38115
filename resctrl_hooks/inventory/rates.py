"""Rates between two snapshots: the counted amount divided by the seconds of counting.

A pod may be counted for only a part of an interval: after a handover of its RMID, a change of its class, or a
reassignment of its counter. If that part is unknown or less than half of the interval, there is no rate.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from resctrl_hooks.node.resctrl.counters import AVAILABLE, CUMULATIVE, PERF, UNAVAILABLE, Reading

from .snapshot import Snapshot, Values, is_known

OCCUPANCY = "llc_occupancy"
TOTAL = "mbm_total_bytes"
LOCAL = "mbm_local_bytes"
ENERGY = "core_energy"
RATES = (TOTAL, LOCAL, ENERGY)
_FIELDS = {OCCUPANCY: "occupancy", TOTAL: "total", LOCAL: "local", ENERGY: "watts"}
LEAST_SHARE = 0.5
"""The minimum part of an interval that a counter must cover for a rate."""
WHOLE = 0.98
"""The part of an interval that counts as all of it: clocks are read a moment before counters."""
_ALIKE = 0.02  # tolerance, as a part of the interval, between the times of classes that counted together
_NEW = 0.5  # seconds that a new group in an interval may seem older than the interval

Amounts = dict[str, float | None]
"""By counter, over all domains; None if unknown, no entry if the counter does not exist."""


@dataclass(slots=True)
class Rates:
    """Hardware use: bytes of cache; bytes of memory traffic and joules per second. None: unknown.

    ``counted`` is the part of the interval that was counted, None without a rate; ``moved`` is the counted amount, for
    any part of the interval.
    """

    occupancy: float | None = None
    total: float | None = None
    local: float | None = None
    watts: float | None = None
    counted: float | None = None
    moved: Amounts = field(default_factory=dict)

    @property
    def estimated(self) -> bool:
        """Whether the rates cover only a part of the interval."""
        return self.counted is not None and self.counted < 1


class Growth(NamedTuple):
    """A domain counter's increase in an interval, and the seconds that it covers; None and 0 if unknown."""

    moved: float | None
    seconds: float


def growths(before: Snapshot, now: Snapshot, key: str, rdt_class: str | None = None) -> dict[tuple[str, str], Growth]:
    """Return the increase of each cumulative counter of a pod between two snapshots, by counter and domain.

    With ``rdt_class``, only that of the class.
    """
    interval = now.when - before.when
    old = before.pods.get(key)
    known = {_place(reading): reading for reading in old or ()}
    held_before, held = before.held.get(key, set()), now.held.get(key, set())
    # The kernel does not report when a task changed its class, so its counting time is unknown.
    changed = bool(held_before and held and held_before != held)
    parts: dict[tuple[str, str], list[Growth]] = {}
    for reading in of_class(now.pods[key], rdt_class):
        if reading.kind == CUMULATIVE and reading.domain.node is None and not _never_ran(reading):
            part = _growth(known.get(_place(reading)), reading, interval, is_new=old is None)
            parts.setdefault((reading.counter.name, reading.domain.folder), []).append(part)
    return {
        place: Growth(total_of(part.moved for part in of), 0.0 if changed else together(of, interval))
        for place, of in parts.items()
    }


def of_class(readings: list[Reading], rdt_class: str | None) -> list[Reading]:
    """Return the readings of one class, or with None all of them."""
    return [one for one in readings if rdt_class is None or one.rdt_class == rdt_class]


def of_pod(before: Snapshot, now: Snapshot, key: str, rdt_class: str | None = None) -> Rates:
    """Return the rates of a pod between two snapshots; with ``rdt_class``, of its tasks in that class."""
    interval = now.when - before.when
    found = Rates(_occupancy(of_class(now.pods[key], rdt_class)))
    grown = growths(before, now, key, rdt_class)
    shares: list[float] = []
    for counter in RATES:
        domains = [growth for (name, _), growth in grown.items() if name == counter]
        if not domains:
            continue
        found.moved[counter] = total_of(growth.moved for growth in domains)
        rates = [rate_of(growth, interval) for growth in domains]
        setattr(found, _FIELDS[counter], total_of(rates))
        shares += [growth.seconds / interval for growth, rate in zip(domains, rates, strict=True) if rate is not None]
    if shares and (found.total, found.local, found.watts) != (None, None, None):
        found.counted = 1.0 if min(shares) >= WHOLE else min(shares)
    return found


def rate_of(growth: Growth, interval: float) -> float | None:
    """Return amount by seconds; None if they cover less than half of the interval."""
    if growth.moved is None or interval <= 0 or growth.seconds < LEAST_SHARE * interval:
        return None
    return growth.moved / growth.seconds


def of_values(before: Values | None, now: Values, snapshot: Snapshot, seconds: float, *, is_new: bool) -> Rates:
    """Return the rates of a foreign group, or of a class's ungrouped tasks, from their counter values.

    Args:
        before: at the earlier snapshot; None if it did not exist.
        now: at the later one.
        snapshot: the later one.
        seconds: between the two.
        is_new: it was created between them, so its memory traffic began at 0.
    """
    found = Rates()
    for counter in (OCCUPANCY, *RATES):
        parts: list[float | None] = []
        for path, value in now.items():
            slot = snapshot.slots[path]
            if slot.counter.name != counter or slot.domain.node is not None or value is None:
                continue
            if slot.counter.kind != CUMULATIVE:
                parts.append(value if isinstance(value, (int, float)) else None)
                continue
            begin = 0 if before is None and is_new and slot.domain.resource != PERF else (before or {}).get(path)
            parts.append(_difference(begin, value) if is_known(slot, value) and is_known(slot, begin) else None)
        if not parts:
            continue
        amount = total_of(parts)
        if counter == OCCUPANCY:
            found.occupancy = amount
        else:
            found.moved[counter] = amount
            rate = None if amount is None or before is None or seconds <= 0 else amount / seconds
            setattr(found, _FIELDS[counter], rate)
    found.counted = 1.0 if found.total is not None or found.watts is not None else None
    return found


def added(parts: Sequence[Rates]) -> Rates:
    """Return the sum; None if a part is unknown."""
    found = Rates()
    for name in _FIELDS.values():
        setattr(found, name, _sum_of([getattr(part, name) for part in parts]))
    shares = [part.counted for part in parts if part.counted is not None]
    found.counted = min(shares, default=None) if (found.total, found.watts) != (None, None) else None
    for counter in RATES:
        if any(counter in part.moved for part in parts):
            found.moved[counter] = _sum_of([part.moved.get(counter) for part in parts])
    return found


def total_of(parts: Iterable[float | None]) -> float | None:
    """Return the sum; None if a part is unknown."""
    found = 0.0
    for part in parts:
        if part is None:
            return None
        found += part
    return found


def _sum_of(values: list[float | None]) -> float | None:
    return total_of(values) if values else None


def _place(reading: Reading) -> tuple[str | None, str, str]:
    return reading.rdt_class, reading.domain.folder, reading.counter.name


def _never_ran(reading: Reading) -> bool:
    """Return whether no task of the group has run in that package yet, so that it has no energy value."""
    return reading.domain.resource == PERF and reading.state == UNAVAILABLE and reading.value is None


def _occupancy(readings: list[Reading]) -> float | None:
    parts = [
        reading.value if reading.state == AVAILABLE else None
        for reading in readings
        if reading.counter.name == OCCUPANCY and reading.domain.node is None
    ]
    return total_of(parts) if parts else None


def _growth(before: Reading | None, now: Reading, interval: float, *, is_new: bool) -> Growth:
    """Return the increase of a counter in one class."""
    if before is None and is_new and (now.seconds is None or now.seconds > interval + _NEW):
        return Growth(None, 0.0)  # counted before, by an unknown amount
    value = (now.value or 0) - ((before.value or 0) if before else 0)
    counted = (now.seconds or 0.0) - ((before.seconds or 0.0) if before else 0.0)
    return Growth(max(value, 0.0), max(counted, 0.0))


def together(parts: Sequence[Growth], interval: float) -> float:
    """Return for how long classes counted together; 0 if their times differ."""
    times = [part.seconds for part in parts if part.seconds > _ALIKE * interval]
    if not times or max(times) - min(times) > _ALIKE * interval:
        return 0.0
    return min(max(times), interval)


def _difference(before: float | str | None, now: float | str | None) -> float:
    begin = before if isinstance(before, (int, float)) else 0
    return max((now if isinstance(now, (int, float)) else 0) - begin, 0)
