"""Stored samples as snapshots, so that the past is shown by the same code as the present."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Final

from resctrl_hooks.core.inventory.pod_names import PodName, PodNames
from resctrl_hooks.core.node.container.names import short_id
from resctrl_hooks.core.node.resctrl.counters import (
    AVAILABLE,
    COUNTERS,
    CUMULATIVE,
    INCOMPLETE,
    Domain,
    Raw,
    Reading,
    Slot,
    counter_named,
    domain_named,
)
from resctrl_hooks.observe.inventory.rates import Line
from resctrl_hooks.observe.inventory.usage import Users, is_uncounted
from resctrl_hooks.observe.node.history.rows import (
    CAPACITY,
    COUNTED,
    GROUP,
    L3_SIZE,
    LABELS,
    PACKAGE,
    PACKAGE_ENERGY,
    POD,
    RATIO,
    REST,
    SLOWED,
    TRAFFIC,
    UNKNOWN,
    Row,
    column_of,
    counted_column,
    earlier_column,
)
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.thinning import LARGEST
from resctrl_hooks.observe.node.snapshot.snapshot import ClassCounts, Counts, Snapshot, Values

_COUNTERS: Final = {column_of(counter): counter for counter in COUNTERS.values()}
_OTHERS: Final = frozenset((*LABELS, UNKNOWN, PACKAGE_ENERGY, TRAFFIC, CAPACITY, RATIO, L3_SIZE))


def snapshot_of(sample: Sample) -> Snapshot:
    """Return a stored sample as a snapshot.

    A pod of several RDT classes has the sums of its counters, without a class. The whole of a class is unknown, but
    for the gauges, whose sum over all classes is right.
    """
    found = Snapshot(sample.uptime, {})
    gauges: dict[str, list[Raw]] = {}
    for row in sample.rows:
        kind, key, rdt_class = str(row["kind"]), str(row.get("key") or ""), str(row.get("rdt_class") or "")
        if kind not in (POD, GROUP, REST):
            continue
        values: Values = {}
        for slot, value in _values(row):
            found.slots[slot.path] = slot
            values[slot.path] = value
            if slot.counter.kind != CUMULATIVE:
                gauges.setdefault(slot.path, []).append(value)
            if kind == POD:
                found.pods.setdefault(key, []).append(_reading(row, slot, value))
        if kind == POD:
            found.pods.setdefault(key, [])
            if "rdt_class" in row:
                found.held[key] = {rdt_class}
        elif kind == GROUP:
            found.foreign.setdefault((rdt_class, key), Counts(key, {})).values.update(values)
        else:
            of = found.classes.setdefault(rdt_class, ClassCounts(rdt_class, {}, {}, {}, {}))
            of.ungrouped.update(values)
    for path, parts in gauges.items():
        numbers = [part for part in parts if isinstance(part, (int, float))]
        whole = sum(numbers) if len(numbers) == len(parts) else INCOMPLETE
        next(iter(found.classes.values()), ClassCounts("", {}, {}, {}, {})).whole[path] = whole
    return found


def _values(row: Row) -> Iterator[tuple[Slot, Raw]]:
    """Yield the counters of a row, with the reason for a missing value."""
    folder = str(row["domain"])
    for name, value in row.items():
        if name not in _OTHERS and not name.endswith((COUNTED, LARGEST)) and isinstance(value, (int, float)):
            yield _slot(folder, name), value
    for entry in str(row.get("missing") or "").split():
        name, _, word = entry.partition(":")
        yield _slot(folder, name), word


@cache
def _slot(folder: str, column: str) -> Slot:
    return Slot(_domain(folder), _COUNTERS.get(column) or counter_named(column))


@cache
def _domain(folder: str) -> Domain:
    return domain_named(folder) or Domain(folder, folder, 0)


def _reading(row: Row, slot: Slot, value: Raw) -> Reading:
    seconds = row.get(counted_column(slot.counter.name)) if slot.counter.kind == CUMULATIVE else None
    known = value if isinstance(value, (int, float)) else None
    state = AVAILABLE if known is not None else str(value)
    return Reading(slot.domain, slot.counter, known, state, None, float(seconds) if seconds is not None else None)


def counted_seconds(row: Row, counter: str) -> float | None:
    """Return the seconds in which a pod's total was counted; None in a sample of a version that did not store them."""
    since, earlier = row.get(counted_column(counter)), row.get(earlier_column(counter))
    return None if since is None or earlier is None else round(float(since) + float(earlier), 3)


def pair_of(before: Sample | None, now: Sample) -> tuple[Snapshot, Snapshot]:
    """Return two samples as snapshots. Without one before, the later one twice, which has no rates."""
    later = snapshot_of(now)
    if before is None:
        return later, later
    earlier = snapshot_of(before)
    earlier.when = later.when - now.since(before)  # of another boot: by the clock
    _forget_gaps(earlier, later)
    return earlier, later


def _forget_gaps(before: Snapshot, now: Snapshot) -> None:
    """Make the increase of a counter without a value before unknown: a stored sample has no total for it then."""
    for key, readings in before.pods.items():
        later = {(one.domain, one.counter.name): one for one in now.pods.get(key, ())}
        for one in readings:
            known = later.get((one.domain, one.counter.name))
            if one.kind == CUMULATIVE and one.value is None and known is not None:
                one.value, one.seconds = known.value, known.seconds


class PastUsers(Users):
    """The names of a sample's pods, which may have ended, from its rows.

    Args:
        sample: the sample.
        names: the names of now, for a pod of Podman that still exists: the process that writes samples cannot ask
            Podman.
    """

    def __init__(self, sample: Sample, names: PodNames) -> None:
        self._rows = {str(row["key"]): row for row in sample.rows if row["kind"] == POD}
        self._ratios = {str(row["key"]): row.get(RATIO) for row in sample.rows if row["kind"] == SLOWED}
        self._names = names

    def learn(self, keys: Iterable[str]) -> None:
        """Look up the names that the sample does not have."""
        self._names.learn(key for key in keys if self._rows[key].get("pod") == short_id(key))

    def line(self, key: str, used: Line, readings: list[Reading]) -> Line:
        """Return the line of a pod. Whether its counters cover its whole life is not stored."""
        row = self._rows[key]
        name = PodName(*(str(row.get(label) or "") for label in ("namespace", "pod", "container")))
        if name.pod == short_id(key):
            name = self._names.of(key)
        rdt_class = row.get("rdt_class")
        return replace(
            used,
            name=name.whole,
            key=key,
            namespace=name.namespace,
            pod=name.pod,
            rdt_class=None if rdt_class is None else str(rdt_class),
            uncounted=int(is_uncounted(readings)),
            slowdown=float(ratio) if (ratio := self._ratios.get(key)) is not None else None,
        )


def packages_watts(before: Sample | None, now: Sample) -> float | None:
    """Return the power of all processor packages between two samples; None if unknown."""
    energy = [
        {row["domain"]: float(row[PACKAGE_ENERGY] or 0) for row in one.rows if row["kind"] == PACKAGE}
        for one in (before, now)
        if one is not None
    ]
    if before is None or before.boot != now.boot or not energy[0] or energy[0].keys() != energy[1].keys():
        return None
    joules = sum(energy[1][name] - energy[0][name] for name in energy[1])
    seconds = now.since(before)
    return joules / seconds if joules >= 0 and seconds > 0 else None
