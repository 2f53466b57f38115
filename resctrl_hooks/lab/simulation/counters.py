"""Values of `mon_data`: counters that grow at the rates of a group's tasks, of `machine.py` or of its pod's work.

As in hardware, the meter belongs to the RMID: a new group's bandwidth starts at 0, its energy at the previous user's
value, and the previous user's cache lines fade. RMIDs share a full cache, and energy is `Unavailable` in a package
until a task of the RMID has run there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from resctrl_hooks.core.node.resctrl.layouts import L3, domain_folder

from .assignment import UNASSIGNED, Assignments
from .group import Group
from .machine import (
    BYTES_PER_SECOND,
    CACHE_BYTES,
    FARADS_PER_SECOND,
    LINES_PER_TASK,
    LOCAL_SHARE,
    UNIT_BYTES,
    WATTS_PER_TASK,
    Machine,
)

_UNAVAILABLE = "Unavailable"
WORDS = (_UNAVAILABLE, UNASSIGNED, "Error")
"""Values of a counter without a number."""
OCCUPANCY = "llc_occupancy"
ENERGY_EVENTS = ("core_energy", "activity")
CYCLES, REFERENCES, OPERATIONS = "unhalted_core_cycles", "unhalted_ref_cycles", "uops_retired"
PERF_EVENTS = (CYCLES, REFERENCES, OPERATIONS)

_FADE_SECONDS = 0.25
_DECIMALS = 6


class Rates(NamedTuple):
    """What a group's tasks add to its counters by second."""

    traffic: float = 0.0
    """Bytes to and from memory, summed over all domains."""
    lines: float = 0.0
    """Not by second: bytes that they would occupy in each L3 cache with unlimited room."""
    work: Mapping[tuple[str, int], float] = MappingProxyType({})
    """Of each event in each package in which a task runs."""


NOTHING = Rates()


def rates_of_tasks(tasks: int, running: Mapping[int, float]) -> Rates:
    """Return the rates of live tasks, of which so many run in each package."""
    work = {(event, package): number * _WORK[event] for package, number in running.items() for event in _WORK}
    return Rates(tasks * BYTES_PER_SECOND, tasks * LINES_PER_TASK, work)


@dataclass(slots=True)
class Meter:
    """The counts of one RMID."""

    since: float
    """Time of the last update."""
    rates: Rates = NOTHING
    """The rates since then."""
    traffic: float = 0.0
    """Bytes since the group's creation."""
    work: dict[tuple[str, int], float] = field(default_factory=dict)
    """The count of each event since the mount, in each package in which a task has run."""
    lines: float = 0.0
    """Bytes that its tasks would occupy in each L3 cache with unlimited room."""
    starts: dict[tuple[str, int], float] = field(default_factory=dict)
    """The traffic at the moment an event got its counter in a domain."""

    def run(self, now: float, rates: Rates) -> None:
        """Count until `now`, then continue with other rates."""
        elapsed = now - self.since
        self.traffic += elapsed * self.rates.traffic
        if elapsed:
            for place, rate in self.rates.work.items():
                self.work[place] = self.work.get(place, 0.0) + elapsed * rate
        needed = self.rates.lines
        self.lines = needed + (self.lines - needed) * float(0.5 ** (elapsed / _FADE_SECONDS))
        self.since = now
        self.rates = rates


def _units(value: float) -> int:
    return int(value) // UNIT_BYTES * UNIT_BYTES


_SHARE: MappingProxyType[str, float] = MappingProxyType({"mbm_total_bytes": 1.0, "mbm_local_bytes": LOCAL_SHARE})
_WORK: MappingProxyType[str, float] = MappingProxyType({"core_energy": WATTS_PER_TASK, "activity": FARADS_PER_SECOND})


class Place(NamedTuple):
    """A folder of `mon_data`: the place of its counters.

    Args:
        events: Their names.
        domain: The number of the L3 cache or the package.
        parts: The number of clusters in the sum; 1 for a single cluster, and without clusters.
    """

    events: tuple[str, ...]
    domain: int
    parts: int = 1


def domain_folders(machine: Machine) -> dict[str, Place]:
    """Return the folders of `mon_data`, by their path in it."""
    folders: dict[str, Place] = {}
    resource = machine.bandwidth_resource
    events = (OCCUPANCY, *(machine.bandwidth_events if resource == L3 else ()))
    for domain in machine.domains:
        path = f"mon_L3_{domain:02d}"
        folders[path] = Place(events, domain, machine.clusters)
        if machine.clusters > 1:
            nodes = range(domain * machine.clusters, (domain + 1) * machine.clusters)
            folders |= {f"{path}/mon_sub_L3_{node:02d}": Place(events, domain) for node in nodes}
    if resource not in ("", L3):
        folders |= {
            domain_folder(resource, number): Place(machine.bandwidth_events, number)
            for number in machine.bandwidth_domains
        }
    if machine.energy:
        events = (*ENERGY_EVENTS, *(PERF_EVENTS if machine.perf else ()))
        folders |= {f"mon_PERF_PKG_{domain:02d}": Place(events, domain) for domain in machine.domains}
    return folders


class Counters:
    """The meters of a machine, whose domains and clusters share the traffic.

    ``rates`` returns those of a group's own tasks now.
    """

    def __init__(self, machine: Machine, rates: Callable[[Group], Rates], clock: Callable[[], float]) -> None:
        self._clusters = machine.clusters
        self._pieces = len(machine.bandwidth_domains) * machine.clusters
        self._places = domain_folders(machine)
        self.assignments = Assignments(machine, self._restart)
        self._rates = rates
        self._clock = clock
        self._meters: dict[int, Meter] = {}
        # The sum of all meters: all lines fade at one rate, so the sum needs no loop over RMIDs.
        self._node = Meter(clock())

    def settle(self, group: Group) -> Meter:
        """Count until now. Called before and after the group's tasks change, so that each rate has its own time."""
        return self._run(group, self._rates(group))

    def _run(self, group: Group, rates: Rates) -> Meter:
        now = self._clock()
        meter = self._meters.setdefault(group.rmid, Meter(now))
        self._node.run(now, Rates(lines=self._node.rates.lines + rates.lines - meter.rates.lines))
        meter.run(now, rates)
        return meter

    def start(self, group: Group) -> None:
        """Start counting for a new group."""
        meter = self._run(group, NOTHING)
        meter.traffic = 0.0
        meter.starts.clear()
        self.assignments.begin(group)

    def stop(self, group: Group) -> None:
        """Stop counting for a removed group."""
        self.settle(group)
        self._run(group, NOTHING)
        self.assignments.end(group)

    def _restart(self, group: Group, event: str, domain: int) -> None:
        """Count an event of a group from 0 in a domain."""
        meter = self.settle(group)
        meter.starts[event, domain] = meter.traffic

    def text(self, group: Group, folder: str, event: str) -> str:
        """Return a counter's content; a CTRL group's is the sum of its own and its MON groups' values."""
        preset = group.readings.get((folder, event))
        if preset is not None:
            return preset
        place = self._places[folder]
        numbers: list[float] = []
        word = ""
        for member in group.family():
            reading = member.readings.get((folder, event))
            if reading is None and not self.assignments.counts(member, event, place.domain):
                reading = UNASSIGNED
            number = self._value(self.settle(member), event, place) if reading is None else None
            if number is not None:
                numbers.append(number)
            elif reading is None or reading in WORDS:
                word = word or reading or _UNAVAILABLE
            else:
                numbers.append(float(reading))
        if not numbers:
            return word
        return f"{sum(numbers):.{_DECIMALS}f}" if event in ENERGY_EVENTS else str(int(sum(numbers)))

    def _value(self, meter: Meter, event: str, place: Place) -> float | None:
        """Return the count of one RMID; None for energy in a package where it never ran."""
        if event in (*ENERGY_EVENTS, *PERF_EVENTS):
            return meter.work.get((event, place.domain))
        if event in _SHARE:
            moved = meter.traffic - meter.starts.get((event, place.domain), 0.0)
            return _units(moved * _SHARE[event] / self._pieces) * place.parts
        room = CACHE_BYTES / self._clusters
        return _units(meter.lines * room / max(self._node.lines, room)) * place.parts
