"""The causes of a slowdown as rules over windows: each one is supported, excluded or unknown by its own evidence. Pure.

A pod in another memory domain is never a culprit: only traffic and cache lines in the pod's own domains are looked at.
"""

from typing import NamedTuple

from .constants import (
    CORRELATED,
    LEAST_MISSED,
    LESS_CACHE,
    LOADED,
    MORE_MISSES,
    NAMED_SHARE,
    NEIGHBOURS_CACHE,
    QUIET_LOAD,
    SLOWED,
    SLOWER_CLOCK,
    TRAFFIC,
    WAITED,
)
from .correlation import correlation
from .quiet import caches_of, memory_of, others_held, others_moved
from .verdict import SLOWED_WORD
from .verdict import UNKNOWN as UNKNOWN_WORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .verdict import Verdict
    from .window import Use, Window

SUPPORTED, EXCLUDED, UNKNOWN = "supported", "excluded", "unknown"
BANDWIDTH, CACHE, LIMIT, CONTENTION, FREQUENCY, MEMORY, OWN = (
    "memory-bandwidth",
    "l3-cache",
    "cpu-limit",
    "cpu-contention",
    "frequency",
    "memory-limit",
    "own-change",
)
_NO_BASELINE = "there is no baseline to compare its work with"


class Culprit(NamedTuple):
    """A pod's part of what others use, and how its use moves with the cost; None: it does not vary."""

    key: str
    share: float
    correlation: "float | None"


class Cause(NamedTuple):
    """One cause, with the pods that have a part in it, the largest first."""

    cause: str
    state: str
    text: str
    pods: "tuple[Culprit, ...]" = ()


class Case:
    """What the rules look at: one pod in the windows that have it at its verdict's grade, whose costs have one unit."""

    def __init__(self, windows: "Sequence[Window]", key: str, verdict: "Verdict") -> None:
        self.key = key
        self.verdict = verdict
        self.windows = [one for one in windows if key in one.uses and one.uses[key].method == verdict.method]
        self.uses = [window.uses[key] for window in self.windows]
        priced = [use for use in self.uses if use.price is not None] or self.uses
        self.memory = sorted({number for use in priced for number in memory_of(use)})
        self.caches = sorted({number for use in priced for number in caches_of(use)})

    @property
    def is_dearer(self) -> bool:
        """Whether the pod's work costs more than in quiet times."""
        return self.verdict.dearer is not None and self.verdict.dearer >= SLOWED

    def mean(self, value: "Callable[[Use], float | None]") -> "float | None":
        """Return the mean of a value over the windows that have it."""
        return _mean(value(use) for use in self.uses)

    def load(self) -> "float | None":
        """Return the mean load of the pod's fullest memory domain while its work was dear; None if unknown."""
        dear = self._dear()
        loads = [_mean(window.load.get(number) for window in dear) for number in self.memory]
        return max((load for load in loads if load is not None), default=None)

    def missed(self) -> "float | None":
        """Return how much more the pod moves by unit of work than its baseline did; None if unknown."""
        usual = self.verdict.known.mean("missed") if self.verdict.known else None
        now = self.mean(lambda use: use.missed)
        if now is None or usual is None or self.verdict.method == TRAFFIC:
            return None
        return now / max(usual, LEAST_MISSED)

    def others(self, use_of: "Callable[[Use], float]", *, dear: bool = True) -> "list[Culprit]":
        """Return all other pods with a part in something, the largest first."""
        windows = self._dear() if dear else self.windows
        used: "dict[str, float]" = {}
        for window in windows:
            for key, use in window.uses.items():
                if key != self.key:
                    used[key] = used.get(key, 0.0) + use_of(use)
        whole = sum(used.values())
        found = [
            Culprit(key, amount / whole, self._correlation(key, use_of)) for key, amount in used.items() if amount > 0
        ]
        return sorted(found, key=lambda one: -one.share)

    def _correlation(self, key: str, use_of: "Callable[[Use], float]") -> "float | None":
        return correlation(
            [
                (own.price, use_of(window.uses[key]) if key in window.uses else 0.0)
                for window, own in zip(self.windows, self.uses)
                if own.price is not None
            ]
        )

    def _dear(self) -> "list[Window]":
        """Return the windows in which the pod's work cost more than usual; all of them if no window did."""
        known = self.verdict.known
        if known is None:
            return self.windows
        normal = known.quantile(0.5)
        dear = [
            window
            for window, use in zip(self.windows, self.uses)
            if use.price is not None and use.price >= SLOWED * normal
        ]
        return dear or self.windows


def causes_of(windows: "Sequence[Window]", key: str, verdict: "Verdict") -> "list[Cause]":
    """Return each cause's state for a pod in the last windows."""
    case = Case(windows, key, verdict)
    bandwidth, cache = _bandwidth(case), _cache(case)
    found = [bandwidth, cache, _limit(case), _contention(case), _frequency(case), _memory(case)]
    return [*found, _own(case, found)]


def confirmed(verdict: "Verdict", causes: "Sequence[Cause]") -> "Verdict":
    """Return the verdict; an estimate by `TRAFFIC` counts only together with a cause that has its own evidence.

    The same change of a program's traffic may be another kind of work.
    """
    if verdict.method != TRAFFIC or verdict.verdict != SLOWED_WORD or any(one.state == SUPPORTED for one in causes):
        return verdict
    return verdict._replace(
        verdict=UNKNOWN_WORD,
        reason=f"its traffic fell to 1/{verdict.ratio:.2f} of that in quiet times, which other work explains, too",
        ratio=None,
        low=None,
        high=None,
    )


def _named(others: "Iterable[Culprit]") -> "tuple[Culprit, ...]":
    """Return the culprits with a part worth naming; one whose use falls when the cost rises is only beside another."""
    found = [one for one in others if one.share >= NAMED_SHARE]
    moving = [one for one in found if one.correlation is not None and one.correlation >= CORRELATED]
    against = [one for one in found if one.correlation is not None and one.correlation <= -CORRELATED]
    return tuple(one for one in found if not moving or one not in against)


def _bandwidth(case: Case) -> Cause:
    if case.verdict.dearer is None:
        return Cause(BANDWIDTH, UNKNOWN, _NO_BASELINE)
    if not case.is_dearer:
        return Cause(BANDWIDTH, EXCLUDED, "its work costs no more than in quiet times")
    if not case.memory:
        return Cause(BANDWIDTH, EXCLUDED, "it moves nothing to memory")
    others = case.others(lambda use: sum((use.traffic or {}).get(number, 0.0) for number in case.memory))
    moving = [one for one in others if one.correlation is not None and one.correlation >= CORRELATED]
    load, places = case.load(), _domains(case.memory)
    own = case.mean(lambda use: sum((use.traffic or {}).values())) or 0.0
    beside = _mean(sum(others_moved(window, case.key, one) for one in case.memory) for window in case.windows) or 0.0
    if beside < NAMED_SHARE * own:
        return Cause(BANDWIDTH, EXCLUDED, f"its neighbours move almost nothing to {places}")
    if load is not None and load < QUIET_LOAD:
        return Cause(BANDWIDTH, EXCLUDED, f"{places} is loaded to {load:.0%}")
    if load is not None and load >= LOADED:
        return Cause(BANDWIDTH, SUPPORTED, f"{places} is loaded to {load:.0%}", _named(others))
    if moving and (case.missed() or 1.0) < MORE_MISSES:
        text = f"the cost of its work moves with others' traffic to {places}"
        return Cause(BANDWIDTH, SUPPORTED, text, _named(moving))
    if load is None:
        return Cause(BANDWIDTH, UNKNOWN, f"the capacity of {places} is not configured (`monitoring.capacity`)")
    return Cause(BANDWIDTH, UNKNOWN, f"{places} is loaded to {load:.0%}, and nobody's traffic moves with its cost")


def _cache(case: Case) -> Cause:
    if case.verdict.dearer is None:
        return Cause(CACHE, UNKNOWN, _NO_BASELINE)
    if not case.is_dearer:
        return Cause(CACHE, EXCLUDED, "its work costs no more than in quiet times")
    more = case.missed()
    if more is None:
        return Cause(CACHE, UNKNOWN, "its cache misses are not counted by unit of work")
    if more < MORE_MISSES:
        return Cause(CACHE, EXCLUDED, f"it misses the cache {more:.2g} times as often as in quiet times")
    held = _held(case)
    known = case.verdict.known
    usual = known.mean("occupancy") if known else None
    now = case.mean(lambda use: sum(use.occupancy.values()))
    less = now / usual if now is not None and usual else None
    text = f"it misses the cache {more:.2g} times as often as in quiet times"
    if held >= NEIGHBOURS_CACHE or (less is not None and less < LESS_CACHE and held > 0):
        others = case.others(lambda use: sum(use.occupancy.get(number, 0.0) for number in case.caches))
        return Cause(CACHE, SUPPORTED, f"{text}, and its neighbours hold {held:.0%} of its L3", _named(others))
    return Cause(CACHE, EXCLUDED, f"its neighbours hold {held:.0%} of its L3")


def _held(case: Case) -> float:
    """Return the neighbours' part of what the pods hold in the pod's L3 domains."""
    theirs = _mean(sum(others_held(window, case.key, one) for one in case.caches) for window in case.windows) or 0.0
    own = case.mean(lambda use: sum(use.occupancy.get(number, 0.0) for number in case.caches)) or 0.0
    return theirs / (theirs + own) if theirs + own else 0.0


def _limit(case: Case) -> Cause:
    part = case.mean(lambda use: use.throttled)
    times = sum(use.throttles or 0 for use in case.uses)
    if part is None:
        return Cause(LIMIT, UNKNOWN, "cpu.stat has no throttled_usec")
    if part >= WAITED:
        return Cause(LIMIT, SUPPORTED, f"its own CPU limit stopped it {times} times, for {part:.0%} of the time")
    return Cause(LIMIT, EXCLUDED, f"its own CPU limit stopped it for {part:.0%} of the time")


def _contention(case: Case) -> Cause:
    waited, throttled = case.mean(lambda use: use.waited), case.mean(lambda use: use.throttled)
    stolen = _mean(window.stolen for window in case.windows) or 0.0
    if stolen >= WAITED:
        return Cause(CONTENTION, SUPPORTED, f"the hypervisor took {stolen:.0%} of the CPUs' time")
    if waited is None:
        return Cause(CONTENTION, UNKNOWN, "the kernel counts no CPU pressure of its cgroup")
    part = max(0.0, waited - (throttled or 0.0))
    if part < WAITED:
        return Cause(CONTENTION, EXCLUDED, f"it waited for a CPU for {part:.0%} of the time")
    cpus = next((use.cpus for use in reversed(case.uses) if use.cpus), 0)
    busy = case.others(lambda use: (use.cpu or 0.0) if not cpus or not use.cpus or use.cpus & cpus else 0.0, dear=False)
    text = f"it waited for a CPU for {part:.0%} of the time"
    return Cause(CONTENTION, SUPPORTED, text, tuple(one for one in busy if one.share >= NAMED_SHARE))


def _frequency(case: Case) -> Cause:
    usual = case.verdict.known.mean("clock") if case.verdict.known else None
    now = case.mean(lambda use: use.clock)
    if now is None or not usual:
        return Cause(FREQUENCY, UNKNOWN, "reference cycles are not counted" if now is None else _NO_BASELINE)
    text = f"the processor runs at {now / usual:.0%} of its usual frequency"
    return Cause(FREQUENCY, SUPPORTED if now < SLOWER_CLOCK * usual else EXCLUDED, text)


def _memory(case: Case) -> Cause:
    part = case.mean(lambda use: use.reclaimed)
    events = sum(use.memory_events or 0 for use in case.uses)
    if part is None:
        return Cause(MEMORY, UNKNOWN, "the kernel counts no memory pressure of its cgroup")
    if part >= WAITED and events:
        text = f"it waited for memory for {part:.0%} of the time, and reached its own limit {events} times"
        return Cause(MEMORY, SUPPORTED, text)
    if part >= WAITED:
        return Cause(MEMORY, UNKNOWN, f"it waited for memory for {part:.0%} of the time, without reaching its limit")
    return Cause(MEMORY, EXCLUDED, f"it waited for memory for {part:.0%} of the time")


def _own(case: Case, others: "list[Cause]") -> Cause:
    if case.verdict.dearer is None:
        return Cause(OWN, UNKNOWN, _NO_BASELINE)
    if not case.is_dearer:
        return Cause(OWN, EXCLUDED, "its work costs what it costs in quiet times")
    states = {cause.cause: cause.state for cause in others}
    if SUPPORTED in (states[BANDWIDTH], states[CACHE], states[FREQUENCY]):
        return Cause(OWN, EXCLUDED, "its neighbours or the frequency explain the cost")
    if states[BANDWIDTH] == states[CACHE] == EXCLUDED:
        return Cause(
            OWN, SUPPORTED, "its work costs more, and its neighbours use neither its memory nor its cache more"
        )
    return Cause(OWN, UNKNOWN, "its neighbours are not excluded")


def _domains(numbers: "Sequence[int]") -> str:
    return f"memory domain{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _mean(values: "Iterable[float | None]") -> "float | None":
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
