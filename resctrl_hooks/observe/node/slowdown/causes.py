"""The causes of a slowdown as rules over windows: each one is supported, excluded or unknown by its own evidence. Pure.

A pod in another memory domain is never a culprit: only traffic and cache lines in the pod's own domains are looked at.
"""

from typing import NamedTuple

from .case import Case, Culprit, mean
from .constants import (
    CORRELATED,
    LESS_CACHE,
    LOADED,
    MORE_MISSES,
    NAMED_SHARE,
    NEIGHBOURS_CACHE,
    QUIET_LOAD,
    SLOWER_CLOCK,
    TRAFFIC,
    WAITED,
)
from .units import WallPart, plain
from .verdict import SLOWED_WORD
from .verdict import UNKNOWN as UNKNOWN_WORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .verdict import Verdict
    from .window import Window

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


class Cause(NamedTuple):
    """One cause, with the pods that have a part in it, the largest first."""

    cause: str
    state: str
    text: str
    pods: "tuple[Culprit, ...]" = ()


def causes_of(windows: "Sequence[Window]", key: str, verdict: "Verdict") -> "list[Cause]":
    """Return each cause's state for a pod in the last windows."""
    case = Case(windows, key, verdict)
    cache = _cache(case)
    found = [_bandwidth(case, cache), cache, _limit(case), _contention(case), _frequency(case), _memory(case)]
    return [*found, _own(case, found)]


def is_slowed_by_bandwidth(windows: "Sequence[Window]", key: str, verdict: "Verdict") -> bool:
    """Return whether memory bandwidth slows a pod in the last windows, without a look at the other causes."""
    if verdict.verdict != SLOWED_WORD or verdict.dearer is None:
        return False
    case = Case(windows, key, verdict)
    return _bandwidth(case, _cache(case)).state == SUPPORTED


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


def _named(others: "Sequence[Culprit]") -> "tuple[Culprit, ...]":
    """Return the culprits; a pod whose use falls when the cost rises is only beside another."""
    against = [one for one in others if one.correlation is not None and one.correlation <= -CORRELATED]
    is_moved = any(_is_moving(one.correlation) for one in others)
    return tuple(one for one in others if not is_moved or one not in against)


def _is_moving(correlation: "float | None") -> bool:
    return correlation is not None and correlation >= CORRELATED


def _bandwidth(case: Case, cache: Cause) -> Cause:
    if case.verdict.dearer is None:
        return Cause(BANDWIDTH, UNKNOWN, _NO_BASELINE)
    if not case.is_dearer:
        return Cause(BANDWIDTH, EXCLUDED, "its work costs no more than in quiet times")
    if not case.memory:
        return Cause(BANDWIDTH, EXCLUDED, "it moves nothing to memory")
    load, places = case.load(), _domains(case.memory)
    own = case.mean(lambda use: sum((use.traffic or {}).values())) or 0.0
    if case.beside() < NAMED_SHARE * own:
        return Cause(BANDWIDTH, EXCLUDED, f"its neighbours move almost nothing to {places}")
    if load is not None and load < QUIET_LOAD:
        return Cause(BANDWIDTH, EXCLUDED, f"{places} is loaded to {load:.0%}")
    if _moves_more(case, cache):
        return Cause(BANDWIDTH, UNKNOWN, f"its own work {_more(case)}, which explains the cost, too")
    if load is not None and load >= LOADED:
        return Cause(BANDWIDTH, SUPPORTED, f"{places} is loaded to {load:.0%}", _named(case.movers()))
    moving = [one for one in case.movers() if _is_moving(one.correlation)]
    if (moving or _is_moving(case.moves_with_others())) and (case.missed() or 1.0) < MORE_MISSES:
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
    text = f"it misses the cache {_times(more)} as often as in quiet times"
    if more < MORE_MISSES:
        return Cause(CACHE, EXCLUDED, text)
    held = case.held_beside()
    known = case.verdict.known
    usual = known.mean("occupancy") if known else None
    now = case.mean(lambda use: sum(use.occupancy.values()))
    less = now / usual if now is not None and usual else None
    if not any(use.occupancy for use in case.uses):
        return Cause(CACHE, UNKNOWN, f"{text}, and nobody counts what each pod holds of the L3")
    if held >= NEIGHBOURS_CACHE or (less is not None and less < LESS_CACHE and held > 0):
        text = f"{text}, and its neighbours hold {held:.0%} of its L3"
        return Cause(CACHE, SUPPORTED, text, _named(case.holders()))
    return Cause(CACHE, EXCLUDED, f"its neighbours hold {held:.0%} of its L3")


def _moves_more(case: Case, cache: Cause) -> bool:
    """Return whether the pod moves more by unit of work, and nobody took its cache: contention does not do that."""
    return cache.state == EXCLUDED and (case.missed() or 1.0) >= MORE_MISSES


def _more(case: Case) -> str:
    return f"moves {_times(case.missed() or 1.0)} as much to memory as the same work in quiet times"


def _times(factor: float) -> str:
    return f"{factor:.{1 if factor < 10 else 0}f} times"  # noqa: PLR2004  # digits that matter


def _limit(case: Case) -> Cause:
    part = plain(case.part(lambda use: use.throttled))
    times = sum(use.throttles or 0 for use in case.uses)
    if part is None:
        return Cause(LIMIT, UNKNOWN, "cpu.stat has no throttled_usec")
    if part >= WAITED:
        return Cause(LIMIT, SUPPORTED, f"its own CPU limit stopped it {times} times, for {part:.0%} of the time")
    return Cause(LIMIT, EXCLUDED, f"its own CPU limit stopped it for {part:.0%} of the time")


def _contention(case: Case) -> Cause:
    waited, throttled = case.part(lambda use: use.waited), case.part(lambda use: use.throttled)
    stolen = mean([float(window.stolen) for window in case.windows]) or 0.0
    if stolen >= WAITED:
        return Cause(CONTENTION, SUPPORTED, f"the hypervisor took {stolen:.0%} of the CPUs' time")
    if waited is None:
        return Cause(CONTENTION, UNKNOWN, "the kernel counts no CPU pressure of its cgroup")
    part = max(0.0, float(waited - (throttled or WallPart(0.0))))
    if part < WAITED:
        return Cause(CONTENTION, EXCLUDED, f"it waited for a CPU for {part:.0%} of the time")
    text = f"it waited for a CPU for {part:.0%} of the time"
    return Cause(CONTENTION, SUPPORTED, text, tuple(case.runners()))


def _frequency(case: Case) -> Cause:
    usual = case.verdict.known.mean("clock") if case.verdict.known else None
    now = case.mean(lambda use: use.clock)
    if now is None or not usual:
        return Cause(FREQUENCY, UNKNOWN, "reference cycles are not counted" if now is None else _NO_BASELINE)
    text = f"the processor runs at {now / usual:.0%} of its usual frequency"
    return Cause(FREQUENCY, SUPPORTED if now < SLOWER_CLOCK * usual else EXCLUDED, text)


def _memory(case: Case) -> Cause:
    part = plain(case.part(lambda use: use.reclaimed))
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
    if _moves_more(case, others[1]):
        return Cause(OWN, SUPPORTED, f"its work {_more(case)}, and its neighbours did not take its cache")
    if states[BANDWIDTH] == states[CACHE] == EXCLUDED:
        return Cause(
            OWN, SUPPORTED, "its work costs more, and its neighbours use neither its memory nor its cache more"
        )
    return Cause(OWN, UNKNOWN, "its neighbours are not excluded")


def _domains(numbers: "Sequence[int]") -> str:
    return f"memory domain{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
