"""The slowdown of a pod: its cost of work against its baseline, and the time for which it waited.

The ratio has two factors: how much more the same work costs while the pod runs (`expected.py`), and the time that it
loses while it waits (`waiting.py`). 1.6 means that the same work takes 1.6 times as long. Pure.
"""

from math import exp, sqrt
from typing import NamedTuple

from .baseline.expected import expected
from .baseline.quiet import held_beside
from .constants import (
    CERTAIN,
    ENOUGH,
    FEWEST,
    GRADES,
    LEAST_MISSED,
    LESS_CACHE,
    NEIGHBOURS_CACHE,
    OFTEN,
    OTHER_WORK,
    SLOWED,
    SLOWED_ESTIMATE,
    TRAFFIC,
)
from .evidence.waiting import NOTHING, Waiting, waiting_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .baseline.baseline import Baseline
    from .baseline.expected import Expected
    from .evidence.alone import Alone
    from .evidence.use import Use
    from .evidence.window import Window

_TWO_SIDED = 1.96  # standard errors of 95 %
SLOWED_WORD, NORMAL, UNKNOWN = "slowed", "normal", "unknown"

UNCOUNTED = "nothing counts its work: this node has neither performance counters nor resctrl"


class Verdict(NamedTuple):
    """A verdict on one pod. ``ratio`` is that of the time for its work; 1 is as fast as alone, None unknown."""

    verdict: str
    reason: str
    """Why it is unknown, or what the ratio leaves out; empty otherwise."""
    ratio: "float | None"
    low: "float | None"
    high: "float | None"
    dearer: "float | None"
    """The factor of the cost alone; None without a baseline."""
    method: str
    samples: int
    baseline_samples: int
    known: "Expected | None" = None
    """The baseline's part that was compared."""
    waiting: Waiting = NOTHING
    """What it lost by waiting for each second that it ran."""
    alone: "Alone | None" = None
    """What its work takes without a shared disk or a lack of memory; None: nothing is known."""


def judge(windows: "Sequence[Window]", key: str, baseline: "Baseline | None") -> Verdict:
    """Return the verdict on a pod from the last windows."""
    method = grade_of(windows, key)
    found = [window for window in windows if key in window.uses and window.uses[key].method == method]
    uses = [(window.uses[key], window.seconds) for window in found]
    priced = [(use, seconds) for use, seconds in uses if use.price is not None]
    number = baseline.samples(method) if baseline else 0
    alone = baseline.alone if baseline else None
    now = waiting_of(uses, alone)
    known = None
    if baseline is not None and len(priced) >= FEWEST:
        known = expected(baseline, priced, now.stretch, by_phase=not _lost_cache(baseline, found, key))
    if known is None or baseline is None:
        is_counted = any(use.method != TRAFFIC or use.traffic is not None for use, _ in uses)
        reason = _unknown(len(uses), len(priced), number) if is_counted or not uses else UNCOUNTED
        uncompared = Verdict(UNKNOWN, reason, None, None, None, None, method, len(priced), number, None, now, alone)
        return _by_waits(uncompared)
    costs = [use.cost or 0.0 for use, _ in priced]
    quiet = [price * (use.work or 0.0) for price, (use, _) in zip(known.prices, priced)]
    rises = [cost / normal for cost, normal in zip(costs, quiet)]
    dearer = sum(costs) / sum(quiet)
    error = _TWO_SIDED * _standard_error(rises, quiet) / dearer
    spread = sqrt(known.rare)  # the baseline's own mean is uncertain by less than this
    is_waiting = now.stretch >= SLOWED  # a fact, with any baseline
    least = 1.0 if is_waiting else 0.0
    ratio, low, high = [max(least, dearer * exp(part)) * now.stretch for part in (0.0, -error, error)]
    # A culprit that comes and goes makes the interval wide: samples of both kinds are far from their mean.
    rare = max(SLOWED, known.rare)
    is_often = 2 * sum([rise >= rare for rise in rises]) >= max(len(priced), OFTEN)
    is_clear = method != TRAFFIC or dearer >= SLOWED_ESTIMATE
    is_slowed = is_waiting or (ratio >= max(SLOWED, spread) and (low >= CERTAIN or is_often) and is_clear)
    judged = Verdict(NORMAL, "", ratio, low, high, dearer, method, len(priced), number, known, now, alone)
    changed = _changed(priced, known, dearer * exp(error), max(SLOWED, spread), is_dearer=dearer >= SLOWED)
    if changed:
        return _by_waits(judged._replace(reason=changed, dearer=None))
    return judged._replace(verdict=SLOWED_WORD) if is_slowed else judged


def grade_of(windows: "Sequence[Window]", key: str) -> str:
    """Return the best grade with enough samples; without one, the grade with the most.

    A pod whose performance counters take turns has the estimate in all windows between.
    """
    return _best(_samples(windows, key)) or _seen(windows, key)


def latest(windows: "Sequence[Window]", key: str, most: int) -> "Sequence[Window]":
    """Return the last windows, with at most so many samples of a pod's best grade; so many windows without any."""
    samples = _samples(windows, key)
    if not samples:
        return windows[-most:]
    grade = _best(samples)
    found = [place for place, of in samples if of == grade]
    return windows[found[-most] :] if len(found) > most else windows


def _samples(windows: "Sequence[Window]", key: str) -> "list[tuple[int, str]]":
    """Return the places of the windows that have a pod's cost, with its grades."""
    return [(place, grade) for place, window in enumerate(windows) if (grade := window.grades.get(key))]


def _best(samples: "list[tuple[int, str]]") -> str:
    """Return the best grade with enough samples; without one, the grade with the most. Empty without samples."""
    found = [grade for _, grade in samples]
    number = {grade: found.count(grade) for grade in GRADES}
    enough = [grade for grade in GRADES if number[grade] >= FEWEST]
    return enough[0] if enough else max(reversed(GRADES), key=number.__getitem__) if found else ""


def _seen(windows: "Sequence[Window]", key: str) -> str:
    """Return the least grade of a pod without a cost."""
    seen = {window.uses[key].method for window in windows if key in window.uses}
    return next((grade for grade in reversed(GRADES) if grade in seen), TRAFFIC)


def _lost_cache(baseline: "Baseline", windows: "Sequence[Window]", key: str) -> bool:
    """Return whether others took the pod's cache in most windows: then its misses do not tell its phase."""
    lost = [window for window in windows if baseline.lost_cache(window.uses[key])]
    held = [window for window in lost if held_beside(window, key) >= NEIGHBOURS_CACHE]
    return 2 * len(held) > len(windows)


def _by_waits(verdict: Verdict) -> Verdict:
    """Return the verdict on a pod whose cost cannot be compared: slowed if its waits are long enough, else unknown."""
    stretch = verdict.waiting.stretch
    if stretch < SLOWED:
        return verdict._replace(verdict=UNKNOWN, ratio=None, low=None, high=None)
    reason = f"{verdict.reason}; the ratio is that of its waits alone"
    return verdict._replace(verdict=SLOWED_WORD, reason=reason, ratio=stretch, low=stretch, high=None)


def _changed(
    priced: "Sequence[tuple[Use, float]]", known: "Expected", most: float, rare: float, *, is_dearer: bool
) -> str:
    """Return why the work is other work than the baseline's; empty if it is not known to be.

    Neighbours never make work cheaper, and they do not take traffic from it. More cache does both.

    Args:
        priced: the pod in windows with a cost.
        known: the baseline for these.
        most: the upper bound of the cost's factor.
        rare: the ratio that neither noise nor the baseline's variation explains.
        is_dearer: whether its work costs more.
    """
    missed, usual = _mean([use.missed for use, _ in priced]), known.least_missed
    reason = ""
    if most * rare < 1:
        reason = f"its work changed: a unit of it costs {most:.2f} times as much as in quiet times, or less"
    if is_dearer and missed is not None and usual is not None and missed < OTHER_WORK * usual and usual > LEAST_MISSED:
        less = missed / usual
        reason = f"its work changed: it moves {less:.2f} times as much to memory by unit of work as ever in quiet times"
    if reason:
        held, had = _mean([sum(use.occupancy.values()) for use, _ in priced]), known.mean("occupancy")
        if held is not None and had is not None and held * LESS_CACHE >= had:
            return ""
    return reason


def _unknown(uses: int, priced: int, baseline: int) -> str:
    if not uses:
        return "the pod is not counted"
    if not priced:
        return "the pod did too little work to tell"
    if priced < FEWEST:
        return f"{priced} of at least {FEWEST} samples"
    if baseline < ENOUGH:
        return f"no baseline yet: {baseline} of at least {ENOUGH} samples from quiet times"
    return "its baseline has too few samples at this intensity of work"


def _standard_error(values: "Sequence[float]", weights: "Sequence[float]") -> float:
    """Return the standard error of a weighted mean."""
    whole = sum(weights)
    middle = sum([value * weight for value, weight in zip(values, weights)]) / whole
    squares = sum([(weight * (value - middle)) ** 2 for value, weight in zip(values, weights)])
    return sqrt(squares * len(values) / (len(values) - 1)) / whole


def _mean(values: "list[float | None]") -> "float | None":
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
