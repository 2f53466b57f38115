"""What `mon_data` reads: counters that grow, at the steady rates of `machine.py`, while a group has live tasks.

Each RMID has a meter. As in hardware the meter belongs to the RMID: a new group's bandwidth starts at 0, its energy
where the previous user's ended, and cache lines of the previous user fade away.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType

from .group import Group
from .machine import (
    BYTES_PER_SECOND,
    FARADS_PER_SECOND,
    LINES_PER_TASK,
    LOCAL_SHARE,
    UNIT_BYTES,
    WATTS_PER_TASK,
    Machine,
)

WORDS = ("Unavailable", "Unassigned", "Error")
"""What a counter reads where it has no number."""
L3_EVENTS = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")
ENERGY_EVENTS = ("core_energy", "activity")

_FADE_SECONDS = 0.25
_DECIMALS = 6


@dataclass(slots=True)
class Meter:
    """What one RMID has counted."""

    since: float
    """When it was looked at last."""
    tasks: int = 0
    """Live tasks since then."""
    traffic: float = 0.0
    """Seconds of live tasks since the group was made."""
    work: float = 0.0
    """Seconds of live tasks since the mount."""
    lines: float = 0.0
    """Bytes in each L3 cache."""

    def run(self, now: float, tasks: int) -> None:
        """Count until `now`, and go on with another number of tasks."""
        elapsed = now - self.since
        self.traffic += elapsed * self.tasks
        self.work += elapsed * self.tasks
        wanted = self.tasks * LINES_PER_TASK
        self.lines = wanted + (self.lines - wanted) * float(0.5 ** (elapsed / _FADE_SECONDS))
        self.since = now
        self.tasks = tasks


def _units(value: float) -> int:
    return int(value) // UNIT_BYTES * UNIT_BYTES


_READ: MappingProxyType[str, Callable[[Meter, int], float]] = MappingProxyType(
    {
        "llc_occupancy": lambda meter, _: _units(meter.lines),
        "mbm_total_bytes": lambda meter, domains: _units(meter.traffic * BYTES_PER_SECOND / domains),
        "mbm_local_bytes": lambda meter, domains: _units(meter.traffic * BYTES_PER_SECOND * LOCAL_SHARE / domains),
        "core_energy": lambda meter, domains: meter.work * WATTS_PER_TASK / domains,
        "activity": lambda meter, domains: meter.work * FARADS_PER_SECOND / domains,
    }
)


def domain_folders(machine: Machine) -> dict[str, tuple[str, ...]]:
    """The folders of `mon_data` and the counters in each."""
    kinds = [("L3", L3_EVENTS)] + ([("PERF_PKG", ENERGY_EVENTS)] if machine.energy else [])
    return {f"mon_{kind}_{number:02d}": events for kind, events in kinds for number in machine.domains}


class Counters:
    """The meters of a machine.

    Args:
        machine: How many domains share the traffic.
        living: Says how many live tasks a group has itself.
        clock: Says the time in seconds.
    """

    def __init__(self, machine: Machine, living: Callable[[Group], int], clock: Callable[[], float]) -> None:
        self._machine = machine
        self._living = living
        self._clock = clock
        self._meters: dict[int, Meter] = {}

    def release_key(self, group: Group) -> Meter:
        """Count until now; before and after the group's tasks change, so that each rate has its own time."""
        now = self._clock()
        meter = self._meters.setdefault(group.rmid, Meter(now))
        meter.run(now, self._living(group))
        return meter

    def start(self, group: Group) -> None:
        """Begin counting for a new group."""
        meter = self._meters.setdefault(group.rmid, Meter(self._clock()))
        meter.run(self._clock(), 0)
        meter.traffic = 0.0

    def stop(self, group: Group) -> None:
        """End counting for a group that is removed."""
        self.release_key(group).tasks = 0

    def text(self, group: Group, folder: str, event: str) -> str:
        """What a counter reads; a CTRL group's is the sum of its own and its MON groups' numbers."""
        told = group.readings.get((folder, event))
        if told is not None:
            return told
        total: float = 0
        for member in group.family():
            reading = member.readings.get((folder, event))
            if reading in WORDS:
                continue
            value = _READ[event](self.release_key(member), self._machine.l3_domains)
            total += value if reading is None else float(reading)
        return f"{total:.{_DECIMALS}f}" if event in ENERGY_EVENTS else str(int(total))
