"""One look at all counters of the node, and the rates between two of them: what `top` shows.

Each pod's cumulative counters are those that never go back. What no group holds is what each class counts itself: a
class's counters are the sums of its own tasks and of its groups, so the groups are taken off. Those that others made
are read as they are.
"""

import time
from dataclasses import dataclass, field

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.resctrl.counter_files import layout, read_group
from resctrl_hooks.node.resctrl.counters import AVAILABLE, MON_DATA, Reading, Slot

from .coverage import is_partial

OCCUPANCY = "llc_occupancy"
TOTAL = "mbm_total_bytes"
LOCAL = "mbm_local_bytes"
ENERGY = "core_energy"
COUNTERS = (OCCUPANCY, TOTAL, LOCAL, ENERGY)

Raw = int | float | str | None
Values = dict[str, float | None]
"""By counter, over all domains; None where any domain has no number, and no entry where there is no such counter."""


@dataclass(slots=True)
class Sample:
    """All counters at one moment: by key, by other group's folder, and by class what no group holds.

    ``rmids`` is how many RMIDs are in use: each group and each class has one.
    """

    when: float
    pods: dict[str, Values] = field(default_factory=dict)
    foreign: dict[str, Values] = field(default_factory=dict)
    unheld: dict[str, Values] = field(default_factory=dict)
    rmids: int = 0
    partial: set[str] = field(default_factory=set)
    """The keys whose counters don't cover the pod's whole life."""


@dataclass(slots=True)
class Rates:
    """What somebody uses: bytes of cache; bytes of memory traffic and joules a second. None: not known."""

    occupancy: float | None = None
    total: float | None = None
    local: float | None = None
    watts: float | None = None


def take(context: Context) -> Sample:
    """Reads everything once.

    Raises:
        HookError: there is no resctrl, or the state directory can't be used.
    """
    resctrl = context.monitor.resctrl
    classes = ["", *resctrl.classes()]  # first of all: where there is no resctrl, nothing is to be made for it
    readings = context.monitor.read_all()
    sample = Sample(time.monotonic(), {key: _of_readings(found) for key, found in readings.items()})
    for key, found in readings.items():
        record = context.ledger.read_pod(key) or {}
        if any(is_partial(reading, record) for reading in found):
            sample.partial.add(key)
    names = {context.monitor.group_prefix + key for key in readings}
    slots = [
        slot
        for slot in layout(f"{resctrl.root}/{MON_DATA}")
        if slot.counter.name in COUNTERS and slot.domain.node is None
    ]
    for rdt_class in classes:
        locked: list[list[Raw]] = []
        sample.rmids += 1
        for name in resctrl.groups(rdt_class):
            folder = resctrl.group_folder(rdt_class, name)
            values = _read(folder, slots)
            sample.rmids += 1
            if values is not None:
                locked.append(values)
                if name not in names:
                    sample.foreign[folder] = _by_counter(slots, values)
        own = _read(resctrl.class_folder(rdt_class), slots)
        if own is not None:
            sample.unheld[rdt_class] = _by_counter(slots, [_less(*column) for column in zip(own, *locked, strict=True)])
    return sample


def rates(before: Values, now: Values, seconds: float) -> Rates:
    """What happened between two samples of one thing."""
    return Rates(
        now.get(OCCUPANCY), *(_rate(before.get(name), now.get(name), seconds) for name in (TOTAL, LOCAL, ENERGY))
    )


def added(parts: list[Rates]) -> Rates:
    """The sum of what is known."""
    return Rates(*(_sum([getattr(part, name) for part in parts]) for name in Rates.__slots__))


def _rate(before: float | None, now: float | None, seconds: float) -> float | None:
    if before is None or now is None or seconds <= 0:
        return None
    return max(now - before, 0.0) / seconds


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _read(folder: str, slots: list[Slot]) -> list[Raw] | None:
    try:
        return read_group(folder, slots)[1]
    except OSError:
        return None  # removed a moment ago


def _less(whole: Raw, *parts: Raw) -> Raw:
    """What of a class's number its groups leave; one of them without a number leaves its share in the rest."""
    if whole is None or isinstance(whole, str):
        return whole
    return max(whole - sum(part for part in parts if part is not None and not isinstance(part, str)), 0)


def _by_counter(slots: list[Slot], values: list[Raw]) -> Values:
    found: Values = {}
    for slot, value in zip(slots, values, strict=True):
        if value is not None:
            _put(found, slot.counter.name, None if isinstance(value, str) else value)
    return found


def _of_readings(readings: list[Reading]) -> Values:
    found: Values = {}
    for reading in readings:
        if reading.domain.node is None and reading.counter.name in COUNTERS:
            # The total of one that isn't counted now stands still, and its rate isn't 0.
            _put(found, reading.counter.name, reading.value if reading.state == AVAILABLE else None)
    return found


def _put(found: Values, name: str, value: float | None) -> None:
    before = found.get(name, 0.0)
    found[name] = None if value is None or before is None else before + value
