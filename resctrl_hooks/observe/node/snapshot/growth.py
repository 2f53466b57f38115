"""The increase of counters between two snapshots, and the seconds for which they counted.

A pod may be counted for only a part of an interval: after a handover of its RMID, a change of its class, or a
reassignment of its counter.
"""

from ....core.node.resctrl.counters import CUMULATIVE, ERROR, UNAVAILABLE
from ....core.node.resctrl.layouts import PERF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ....core.node.resctrl.counters import Reading
    from .snapshot import Snapshot

    Growth = tuple[float | None, float]
else:
    Growth = object
# Growth: a domain counter's increase in an interval, and the seconds that it covers; None and 0 if unknown.

ENERGY = "core_energy"
_ALIKE = 0.02  # tolerance, as a part of the interval, between the times of classes that counted together
_NEW = 0.5  # seconds that a new group in an interval may seem older than the interval


def growths(
    before: "Snapshot", now: "Snapshot", key: str, rdt_class: "str | None" = None
) -> "dict[tuple[str, str], Growth]":
    """Return the increase of each cumulative counter of a pod between two snapshots, by counter and domain.

    With ``rdt_class``, only that of the class.
    """
    interval = now.when - before.when
    old = before.pods.get(key)
    known = {(one.rdt_class, one.domain.folder, one.counter.name): one for one in old or ()}
    held_before, held = before.held.get(key, set()), now.held.get(key, set())
    # The kernel does not report when a task changed its class, so its counting time is unknown.
    changed = bool(held_before and held and held_before != held)
    parts: "dict[tuple[str, str], list[Growth]]" = {}
    for one in of_class(now.pods[key], rdt_class):
        if one.counter.kind == CUMULATIVE and one.domain.node is None and not _never_ran(one):
            folder, name = one.domain.folder, one.counter.name
            part = _growth(known.get((one.rdt_class, folder, name)), one, interval, is_new=old is None)
            parts.setdefault((name, folder), []).append(part)
    return {
        place: (total_of([moved for moved, _ in of]), 0.0 if changed else together(of, interval))
        for place, of in parts.items()
    }


def of_class(readings: "list[Reading]", rdt_class: "str | None") -> "list[Reading]":
    """Return the readings of one class, or with None all of them."""
    return [one for one in readings if rdt_class is None or one.rdt_class == rdt_class]


def total_of(parts: "Iterable[float | None]") -> "float | None":
    """Return the sum; None if a part is unknown."""
    found = 0.0
    for part in parts:
        if part is None:
            return None
        found += part
    return found


def together(parts: "Sequence[Growth]", interval: float) -> float:
    """Return for how long classes counted together; 0 if their times differ."""
    times = [seconds for _, seconds in parts if seconds > _ALIKE * interval]
    if not times or max(times) - min(times) > _ALIKE * interval:
        return 0.0
    return min(max(times), interval)


def _never_ran(reading: "Reading") -> bool:
    """Return whether no task of the group has run in that package yet, so that it has no energy value."""
    return reading.domain.resource == PERF and reading.state == UNAVAILABLE and reading.value is None


def _growth(before: "Reading | None", now: "Reading", interval: float, *, is_new: bool) -> Growth:
    """Return the increase of a counter in one class; its seconds are unknown if the kernel had no value before.

    The increase then is that of several intervals, of which the hardware may have counted a part.
    """
    if before is None and is_new and (now.seconds is None or now.seconds > interval + _NEW):
        return None, 0.0  # counted before, by an unknown amount
    value = (now.value or 0) - ((before.value or 0) if before else 0)
    counted = (now.seconds or 0.0) - ((before.seconds or 0.0) if before else 0.0)
    unclear = before is not None and before.state in (UNAVAILABLE, ERROR) and before.domain.resource != PERF
    return max(value, 0.0), 0.0 if unclear else max(counted, 0.0)
