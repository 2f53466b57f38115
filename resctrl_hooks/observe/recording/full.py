"""When a memory domain was full, and who moved how much in that time."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from resctrl_hooks.core.node.resctrl.bandwidth_unit import capacity_of
from resctrl_hooks.observe.node.history.rows import CAPACITY, TRAFFIC

from .analysis import BANDWIDTH, Points, Recording, User, domains, together

FULL: Final = 0.85
"""The load from which a memory domain is full; that of the alert and of the guard's default."""
PAUSE_SAMPLES: Final = 3
"""A time goes on over so many samples that are not full, or without a number."""


@dataclass(slots=True)
class Memory:
    """A memory domain of a recording: its L3 domains, and its traffic and load by time.

    ``estimated``: the recording has no rows of memory domains, so its L3 domain's own traffic stands for them.
    """

    host: str
    name: str
    l3: list[str]
    rates: Points = field(default_factory=dict)
    loads: Points = field(default_factory=dict)
    estimated: bool = False


@dataclass(slots=True)
class Full:
    """A time in which a memory domain was full: its mean load, and the bytes that each user moved."""

    memory: Memory
    start: float
    end: float
    load: float
    moved: dict[User, float]


def memories(recording: Recording, capacity: Mapping[str, float]) -> list[Memory]:
    """Return the memory domains whose capacity is known: ``capacity`` (as ``monitoring.capacity``), else recorded."""
    found: dict[str, Memory] = {}
    for when, row in recording.memory:
        name, rate = str(row["domain"]), row.get(TRAFFIC)
        carries = capacity_of(dict(capacity), _number(name)) or float(row.get(CAPACITY) or 0)
        host = str(row.get("host") or "")
        one = found.setdefault(name, Memory(host, name, str(row.get("key") or name).split()))
        if rate is not None and carries:
            one.rates[when], one.loads[when] = float(rate), float(rate) / carries
    if found:
        return list(found.values())
    for name, users in domains(recording, BANDWIDTH).items():
        carries = capacity_of(dict(capacity), _number(name))
        if not carries:
            continue
        rates = together(users.values())
        loads = {when: rate / carries for when, rate in rates.items()}
        found[name] = Memory(next(iter(users)).host, name, [name], rates, loads, estimated=True)
    return list(found.values())


def full_times(recording: Recording, capacity: Mapping[str, float]) -> list[Full]:
    """Return the times in which a memory domain was full, in order of time."""
    by_l3 = domains(recording, BANDWIDTH)
    found = []
    for memory in memories(recording, capacity):
        before = recording.times[memory.host].before
        for times in _runs(recording.times[memory.host].each, memory.loads):
            seconds = {when: when - before.get(when, when) for when in times if when in memory.loads}
            together = sum(seconds.values())
            if not together:
                continue
            moved: dict[User, float] = defaultdict(float)
            for user, points in ((user, points) for l3 in memory.l3 for user, points in by_l3.get(l3, {}).items()):
                moved[user] += sum(points[when] * (when - before.get(when, when)) for when in times if when in points)
            load = sum(memory.loads[when] * part for when, part in seconds.items()) / together
            found.append(Full(memory, before.get(times[0], times[0]), times[-1], load, dict(moved)))
    return sorted(found, key=lambda one: (one.start, one.memory.name))


def _runs(times: list[float], loads: Points) -> list[list[float]]:
    """Return the samples of each time, from the first that is full to the last."""
    found: list[list[float]] = []
    skipped: list[float] = []
    for when in times:
        if loads.get(when, 0.0) < FULL:
            skipped.append(when)
        elif found and len(skipped) <= PAUSE_SAMPLES:
            found[-1] += [*skipped, when]
            skipped = []
        else:
            found.append([when])
            skipped = []
    return found


def _number(name: str) -> int:
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdigit() else -1
