"""When a memory domain was full, and who moved how much in that time."""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Final

from resctrl_hooks.core.node.resctrl.bandwidth_unit import capacity_of
from resctrl_hooks.observe.node.history.rows import CAPACITY, TRAFFIC

from .analysis import BANDWIDTH, domains, together
from .tracks import Line, Recording, User

FULL: Final = 0.85
"""The load from which a memory domain is full; that of the alert and of the guard's default."""
PAUSE_SAMPLES: Final = 3
"""A time goes on over so many samples that are not full, or without a number."""


@dataclass(slots=True)
class Memory:
    """A memory domain of a recording: its L3 domains, its last capacity, and its load by time.

    ``estimated``: the recording has no rows of memory domains, so its L3 domain's own traffic stands for them.
    """

    host: str
    name: str
    l3: list[str]
    loads: Line
    capacity: float = 0.0
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
        if name not in found:
            found[name] = Memory(host, name, str(row.get("key") or name).split(), recording.empty(host))
        if rate is not None and carries:
            one = found[name]
            one.loads[bisect_left(recording.times[host].each, when)] = float(rate) / carries
            one.capacity = carries
    if found:
        return list(found.values())
    for name, users in domains(recording, BANDWIDTH).items():
        carries = capacity_of(dict(capacity), _number(name))
        if carries:
            loads = array("d", [rate / carries for rate in together(users.values())])
            found[name] = Memory(next(iter(users)).host, name, [name], loads, carries, estimated=True)
    return list(found.values())


def by_memory(recording: Recording, known: Iterable[Memory]) -> dict[str, dict[User, Line]]:
    """Return the bandwidth of each user by domain; caches of one of the known memory domains are together."""
    found = dict(domains(recording, BANDWIDTH))
    for memory in known:
        if len(memory.l3) > 1:
            lines: dict[User, list[Line]] = defaultdict(list)
            for user, line in ((user, line) for l3 in memory.l3 for user, line in found.pop(l3, {}).items()):
                lines[user].append(line)
            if lines:
                found[memory.name] = {user: together(parts) for user, parts in lines.items()}
    return dict(sorted(found.items()))


def full_times(recording: Recording, capacity: Mapping[str, float]) -> list[Full]:
    """Return the times in which a memory domain was full, in order of time."""
    by_l3 = domains(recording, BANDWIDTH)
    found = []
    for memory in memories(recording, capacity):
        times = recording.times[memory.host]
        lengths = times.lengths
        for start, end in _runs(memory.loads):
            places = range(start, end + 1)
            known = [at for at in places if not isnan(memory.loads[at])]
            seconds = sum(lengths[at] for at in known)
            if not seconds:
                continue
            moved: dict[User, float] = defaultdict(float)
            for user, line in ((user, line) for l3 in memory.l3 for user, line in by_l3.get(l3, {}).items()):
                moved[user] += sum(line[at] * lengths[at] for at in places if not isnan(line[at]))
            load = sum(memory.loads[at] * lengths[at] for at in known) / seconds
            found.append(Full(memory, times.each[start] - lengths[start], times.each[end], load, dict(moved)))
    return sorted(found, key=lambda one: (one.start, one.memory.name))


def _runs(loads: Line) -> list[tuple[int, int]]:
    """Return the places of each time, from the first sample that is full to the last."""
    found: list[tuple[int, int]] = []
    for at, load in enumerate(loads):
        if load >= FULL:
            begins = found.pop()[0] if found and at - found[-1][1] <= PAUSE_SAMPLES + 1 else at
            found.append((begins, at))
    return found


def _number(name: str) -> int:
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdigit() else -1
