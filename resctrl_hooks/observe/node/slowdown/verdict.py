"""The slowdown of a pod: its cost of work against its baseline, and the time for which it waited.

The ratio has two factors: how much more the work costs while the pod runs, and for which part of the time it stands
still because it waits for CPUs or memory. 1.6 means that the same work takes 1.6 times as long. Pure.
"""

from math import exp, log, sqrt
from typing import NamedTuple

from .constants import CERTAIN, ENOUGH, FEWEST, GRADES, OFTEN, SLOWED, SLOWED_ESTIMATE, TRAFFIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .baseline import Baseline, Range
    from .use import Use
    from .window import Window

_TWO_SIDED = 1.96  # standard errors of 95 %
_MOST_STOOD = 0.95  # of a window: beyond, the ratio means nothing
SLOWED_WORD, NORMAL, UNKNOWN = "slowed", "normal", "unknown"


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
    known: "Range | None" = None
    """The baseline's range that was compared."""


def judge(windows: "Sequence[Window]", key: str, baseline: "Baseline | None") -> Verdict:
    """Return the verdict on a pod from the last windows."""
    method = grade_of(windows, key)
    uses = [(window.uses[key], window.seconds) for window in windows if key in window.uses]
    uses = [(use, seconds) for use, seconds in uses if use.method == method]
    priced = [(use, seconds) for use, seconds in uses if use.price is not None]
    prices = [use.price or 0.0 for use, _ in priced]
    number = baseline.samples(method) if baseline else 0
    slower = 1 / (1 - min(_MOST_STOOD, stood(uses)))
    known = _range(baseline, method, priced)
    if known is None or len(priced) < FEWEST:
        reason = _unknown(len(uses), len(priced), number)
        if slower >= SLOWED:
            reason += "; the ratio is that of its waits alone"
            return Verdict(SLOWED_WORD, reason, slower, slower, None, None, method, len(priced), number)
        return Verdict(UNKNOWN, reason, None, None, None, None, method, len(priced), number)
    normal = known.quantile(0.5)
    dearer = sum(use.cost or 0.0 for use, _ in priced) / sum(use.work or 0.0 for use, _ in priced) / normal
    error = _TWO_SIDED * _standard_error([log(price / normal) for price in prices])
    spread = sqrt(known.quantile(0.9) / normal)  # the baseline's own median is uncertain by less than this
    usual = 1 / (1 - min(_MOST_STOOD, known.mean("stood") or 0.0))
    waits = max(1.0, slower / usual)
    ratio = dearer * waits
    low, high = ratio * exp(-error), ratio * exp(error)
    # A culprit that comes and goes makes the interval wide: samples of both kinds are far from their mean.
    rare = max(SLOWED * normal, known.quantile(0.9))
    is_often = 2 * sum([price >= rare for price in prices]) >= max(len(priced), OFTEN)
    is_clear = method != TRAFFIC or dearer >= SLOWED_ESTIMATE or waits >= SLOWED
    is_slowed = ratio >= max(SLOWED, spread) and (low >= CERTAIN or is_often) and is_clear
    return Verdict(
        SLOWED_WORD if is_slowed else NORMAL, "", ratio, low, high, dearer, method, len(priced), number, known
    )


def grade_of(windows: "Sequence[Window]", key: str) -> str:
    """Return the best grade with enough samples; without one, the grade with the most.

    A pod whose performance counters take turns has the estimate in all windows between.
    """
    return _best(_samples(windows, key)) or _seen(windows, key)


def latest(windows: "Sequence[Window]", key: str, most: int) -> "Sequence[Window]":
    """Return the last windows, with at most so many samples of a pod's best grade."""
    samples = _samples(windows, key)
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


def stood(uses: "Sequence[tuple[Use, float]]") -> float:
    """Return the part of the time for which all of the pod's tasks waited for a CPU or for memory."""
    whole = sum(seconds for _, seconds in uses)
    waited = sum([min(1.0, float(use.stood or 0) + float(use.reclaimed_fully or 0)) * seconds for use, seconds in uses])
    return waited / whole if whole else 0.0


def _range(baseline: "Baseline | None", method: str, priced: "list[tuple[Use, float]]") -> "Range | None":
    if baseline is None or not priced:
        return None
    work, seconds = sum(use.work or 0.0 for use, _ in priced), sum(seconds for _, seconds in priced)
    return baseline.range_for(method, work / seconds)


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


def _standard_error(values: "list[float]") -> float:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return sqrt(variance / len(values))
