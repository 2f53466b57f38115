"""Use by each pod in one window of time: the input of baselines and causes. Differences of counters; pure."""

from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from .....core.node.host.cpulist import MOST_CPUS, count
from ...guard.load import grown, rates_between, to_memories
from ..constants import AET, LEAST_CPU, LEAST_RUNNING, PERF, TRAFFIC
from ..units import CpuPart, Cpus, CpuTime, WallPart, WallTime, plain
from .cpu.contest import Contests
from .cpu.lost_time import Lost, crowded_cpus, lost_cpus
from .cpu.task_delays import waited_between
from .neighbours import Together
from .node_use import NodeUse
from .use import Use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TypeVar

    from .cpu.processors import Processor
    from .cpu.task_delays import Delays
    from .perf.counters import PerfCount

    Domains = Sequence[tuple[int, ...]]
    Time = TypeVar("Time", CpuTime, WallTime)


_NEARLY = 0.8  # of the CPUs in use: both clocks are read at slightly different times
_MOST_STOOD = 0.95  # of a window, in an estimate of CPUs
_NOTHING: "Mapping[int, Any]" = MappingProxyType({})
_NONE = WallPart(0.0)


class Waits(NamedTuple):
    """Times that tasks of a pod's cgroup ran and waited so far, and counts of its limits; None: the kernel has none."""

    cpu: CpuTime = CpuTime(0.0)
    """CPU time used."""
    throttled: "CpuTime | None" = None
    """Its limit stopped its tasks."""
    throttles: "int | None" = None
    waited: "WallTime | None" = None
    """Some task waited for a CPU (pressure stall information)."""
    stood: "WallTime | None" = None
    """All of them did, so the pod stood still."""
    reclaimed: "WallTime | None" = None
    """As ``waited``, for memory."""
    reclaimed_fully: "WallTime | None" = None
    memory_events: "int | None" = None
    """How often memory.high or memory.max was reached."""
    blocked: "WallTime | None" = None
    """As ``waited``, for disks."""
    blocked_fully: "WallTime | None" = None
    user: "CpuTime | None" = None
    """CPU time of its own code, without the kernel's."""


class Counts(NamedTuple):
    """A pod's counters so far."""

    traffic: "Mapping[int, tuple[float | None, float | None]]" = _NOTHING
    """By L3 domain: total and local bytes."""
    occupancy: "Mapping[int, float]" = _NOTHING
    """By L3 domain: bytes of the cache."""
    cycles: "float | None" = None
    """Of resctrl's events, as the next two."""
    operations: "float | None" = None
    references: "float | None" = None
    waits: "Waits | None" = None
    perf: "PerfCount | None" = None
    started: "object" = None
    """Of which start of its events ``perf`` counts."""
    cpus: int = 0
    """The CPUs that it may use, as a set; 0: unknown."""
    delays: "Delays | None" = None
    """Of its tasks; None: not read, because it hardly waits."""


class _Window(NamedTuple):
    time: float
    """Its end."""
    seconds: float
    load: "Mapping[int, float | None]"
    """By memory domain: its part of the capacity."""
    uses: "Mapping[str, Use]"
    """By pod's key."""
    stolen: CpuPart = CpuPart(0.0)
    """The part of the CPUs' time that a hypervisor took."""
    moved: "Mapping[int, float | None]" = _NOTHING
    """By memory domain: bytes per second of all classes, pods or not."""
    node: NodeUse = NodeUse()
    """Processors, disks, reclaim, and the cgroups that use them."""
    counted: bool = True
    """Whether resctrl counts traffic on this node; otherwise no domain and no pod has any."""


class Window(_Window):
    """A node in one window."""

    @cached_property
    def together(self) -> Together:
        """The joint use of its pods."""
        return Together(self.uses, self.moved)

    @cached_property
    def online(self) -> int:
        """The CPUs that are online, as a set."""
        return sum([1 << cpu for cpu in self.node.processors])

    @cached_property
    def contests(self) -> Contests:
        """The contests for its CPUs; empty if the cgroups were not read."""
        return Contests(self.node.groups or (), self.node.processors)

    @cached_property
    def grades(self) -> "dict[str, str]":
        """The grade of each pod's cost, of pods that have one."""
        return {key: use.method for key, use in self.uses.items() if use.cost and use.work}


def use_between(
    before: Counts,
    after: Counts,
    seconds: float,
    domains: "Domains",
    processors: "Mapping[int, Processor]" = _NOTHING,
) -> Use:
    """Return what a pod used between two readings of its counters; ``processors`` as far as they are known."""
    before, after = _with_containers(before, after)
    waits = _between(before.waits, after.waits, seconds)
    cpu, cpus = waits.get("cpu"), after.cpus
    if after.delays is not None and after.delays.cpus:
        narrow = after.delays.cpus & (cpus or after.delays.cpus)
        cpus = narrow if count(narrow) >= _NEARLY * (cpu or 0.0) else cpus
    traffic = _traffic(before, after, seconds, domains)
    method, cost, work, clock, cycles, missed = _price(before, after, cpu, traffic, seconds)
    if cpu is not None and cpu < LEAST_CPU:
        cost = work = missed = None
    return Use(
        method,
        cost,
        work,
        traffic=traffic,
        occupancy=dict(after.occupancy),
        missed=missed,
        clock=clock,
        cpus=cpus,
        cycles=cycles,
        lost=_lost(before, after, waits, cpus, processors, seconds),
        **{"cpu": None, **waits},
    )


def place_of(windows: "Sequence[Window]", key: str) -> "tuple[int | None, float | None]":
    """Return the memory domain of most of a pod's traffic, and its mean load; None where unknown."""
    windows = [window for window in windows if key in window.uses]
    parts = [window.uses[key].traffic or {} for window in windows]
    numbers = {number: None for part in parts for number in part}
    moved = {number: sum([part.get(number, 0.0) for part in parts]) for number in numbers}
    domain = max(moved, key=moved.__getitem__, default=None)
    if domain is None or not moved[domain]:
        return None, None
    loads = [load for window in windows if (load := window.load.get(domain)) is not None]
    return domain, sum(loads) / len(loads) if loads else None


def _price(
    before: Counts, after: Counts, cpu: "float | None", traffic: "dict[int, float] | None", seconds: float
) -> "tuple[str, float | None, float | None, float | None, float, float | None]":
    """Return grade, cost, work, clock, cycles and bytes by work, of the best grade that counted."""
    moved = None if traffic is None else sum(traffic.values()) * seconds
    cycles, operations = grown(before.cycles, after.cycles), grown(before.operations, after.operations)
    if cycles is not None and operations is not None:
        references = grown(before.references, after.references)
        clock = cycles / references if references else None
        return AET, references or cycles, operations, clock, cycles, _by(moved, operations)
    one, other = before.perf, after.perf
    if one is not None and other is not None and before.started == after.started:
        enabled, running = float(other.enabled - one.enabled), float(other.running - one.running)
        if enabled > 0 and running >= LEAST_RUNNING * enabled:
            scale = enabled / running
            spent, done = (other.cycles - one.cycles) * scale, (other.instructions - one.instructions) * scale
            references = grown(one.references, other.references)
            misses = grown(one.misses, other.misses)
            clock = spent / scale / references if references else None
            lines = misses * scale * 64 if misses is not None else None
            by_work = _by(lines if lines is not None else moved, done)
            return PERF, references * scale if references else spent, done, clock, spent, by_work
        return PERF, None, None, None, 0.0, None
    work = moved / 1e9 if moved else None
    return TRAFFIC, None if cpu is None else cpu * seconds, work, None, 0.0, None


def _by(moved: "float | None", work: float) -> "float | None":
    return moved / work if moved is not None and work > 0 else None


def _between(before: "Waits | None", after: "Waits | None", seconds: float) -> "dict[str, Any]":
    """Return CPUs in use, the parts of a window for which tasks waited, and counts of limits, as far as known."""
    if before is None or after is None or seconds <= 0 or after.cpu < before.cpu:
        return {}
    window, ran = WallTime(seconds), after.cpu - before.cpu
    waited, stood = _part(before.waited, after.waited, window), _part(before.stood, after.stood, window)
    throttled = _grown(before.throttled, after.throttled)
    return {
        "cpu": float(ran / window),
        "user": None if (own := _grown(before.user, after.user)) is None else float(own / window),
        "throttled": None if throttled is None else _stopped(ran, throttled, stood, waited, window),
        "throttles": grown(before.throttles, after.throttles),
        "waited": waited,
        "stood": stood,
        "reclaimed": _part(before.reclaimed, after.reclaimed, window),
        "reclaimed_fully": _part(before.reclaimed_fully, after.reclaimed_fully, window),
        "memory_events": grown(before.memory_events, after.memory_events),
        "blocked": _part(before.blocked, after.blocked, window),
        "blocked_fully": _part(before.blocked_fully, after.blocked_fully, window),
    }


def _lost(
    before: Counts,
    after: Counts,
    waits: "Mapping[str, Any]",
    cpus: int,
    processors: "Mapping[int, Processor]",
    seconds: float,
) -> "Lost | None":
    """Return the CPU time that a pod lost; None if the kernel counts neither its pressure nor its tasks' delays."""
    used, some, delay = waits.get("cpu"), plain(waits.get("waited")), waited_between(before.delays, after.delays)
    delay = None if delay is None else delay / seconds
    if some is None:  # the kernel counts no pressure: which of the tasks waited for each other is unknown
        some = plain(waits.get("throttled")) if delay is None else min(1.0, delay)
    if used is None or some is None or before.waits is None or after.waits is None:
        return None
    stopped = _grown(before.waits.throttled, after.waits.throttled) or CpuTime(0.0)
    throttled = float(stopped / WallTime(seconds))
    number = count(cpus) or MOST_CPUS
    lost = Lost(used, *lost_cpus(used, some, plain(waits.get("stood")), delay, number, throttled))
    if delay is None or after.delays is None or lost.limited:
        return lost
    beside = sum([one.tasks for cpu, one in processors.items() if not cpus or cpus >> cpu & 1]) - used
    crowded = crowded_cpus(used, some, delay, number, after.delays.number, max(0.0, beside))
    return lost._replace(waited=max(lost.waited, crowded))


def _with_containers(before: Counts, after: Counts) -> "tuple[Counts, Counts]":
    """Return the counters with the limits of the pod's containers instead of its own if they stopped it for longer."""
    one, other, old, new = before.waits, after.waits, before.delays, after.delays
    if one is None or other is None or old is None or new is None:
        return before, after
    if new.throttled - old.throttled <= float(_grown(one.throttled, other.throttled) or 0.0):
        return before, after
    one = one._replace(throttled=CpuTime(old.throttled), throttles=old.throttles)
    other = other._replace(throttled=CpuTime(new.throttled), throttles=new.throttles)
    return before._replace(waits=one), after._replace(waits=other)


def _grown(old: "Time | None", new: "Time | None") -> "Time | None":
    return None if old is None or new is None or new < old else new - old


def _part(old: "WallTime | None", new: "WallTime | None", window: WallTime) -> "WallPart | None":
    more = _grown(old, new)
    if more is None:
        return None
    return WallPart(min(1.0, float(more / window))) if float(more) else _NONE  # one object, in thousands of uses


def _stopped(
    ran: CpuTime, throttled: CpuTime, stood: "WallPart | None", waited: "WallPart | None", window: WallTime
) -> WallPart:
    """Return the part of a window for which the pod's limit stopped it, as a mean over the CPUs that it demanded.

    Pressure is such a mean, and throttled time by demanded CPU is the limit's part of it. The kernel does not count
    these CPUs: they are those in use and those that were waited for, whole CPUs and one at least. Tasks waited on at
    least as many CPUs as the used and the throttled time need beside the time for which each CPU stood still. A
    throttled CPU stands still, so the part is not above ``stood``.
    """
    used, held_back = float(ran / window), float(throttled / window)
    still = plain(stood) or plain(waited)
    awaited, most = held_back, 1.0
    if still:
        awaited, most = max(used / (1 - min(_MOST_STOOD, still)), held_back / still) * float(waited or still), still
    demand = Cpus(max(1, round(used + awaited)))
    return WallPart(min(most, float((throttled / demand) / window)))


def _traffic(before: Counts, after: Counts, seconds: float, domains: "Domains") -> "dict[int, float] | None":
    """Return a pod's bytes per second to each memory domain; None if a part is unknown."""
    rates = rates_between(before.traffic, after.traffic, seconds)
    moved = {number: pair for number, pair in rates.items() if pair is not None}
    if not moved or len(moved) < len(rates) or any(number not in moved for domain in domains for number in domain):
        return None
    return to_memories(moved, domains)
