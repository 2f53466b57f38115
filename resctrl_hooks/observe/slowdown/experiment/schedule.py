"""The experiment's plan and its result: which windows limit a class, and what the victim gained by it. Pure.

A randomized experiment with one factor. Its windows are in random order, so whatever else changes on the node meets
limited and unlimited windows alike, and their difference is the effect of the limit. The interval comes from
permutation of the windows (Fisher's exact test, inverted), which assumes nothing about the distribution of costs.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

WINDOWS = 6
"""Windows with the limit, and as many without. The 924 orders of twelve windows allow an interval of 95 %."""
SECONDS = 3.0
SETTLE = 0.5
"""Seconds at the start of a window that are not measured: the processor and its queues take up a new value."""
LEAST = 4
"""The fewest windows of each kind with a cost. Of the 70 orders of eight, two are 2.9 %, still below 5 %."""
_LEVEL = 0.05
_RESOLUTION = 2 * 0.01 / (SECONDS - SETTLE)
"""Of a cost, in parts: the kernel counts a running task at ticks of up to 10 ms, at both ends of a window. Costs
with and without a weight can agree better than that among themselves; their interval alone would miss the truth."""
_STEPS = 30  # bisections: to 1e-9 of the range
_FAR = 3.0  # natural logarithms: a factor of 20 either way


class Effect(NamedTuple):
    """A limit's effect on the cost of the victim's work.

    ``off`` and ``on`` are the geometric means of the cost without and with the limit, ``low`` and ``high`` bound the
    95 % confidence interval of the effect.
    """

    off: float
    on: float
    low: float
    high: float
    windows: int

    @property
    def effect(self) -> float:
        """The relative change: -0.35 is a cost lower by 35 %."""
        return self.on / self.off - 1

    @property
    def helps(self) -> bool:
        """Whether the limit lowers the cost beyond doubt."""
        return self.high < 0


def order(windows: int, shuffle: Callable[[list[bool]], None]) -> list[bool]:
    """Return for each of twice as many windows whether it is limited, in the order that ``shuffle`` makes."""
    found = [True, False] * windows
    shuffle(found)
    return found


def effect_of(off: Sequence[float], on: Sequence[float]) -> Effect | None:
    """Return the effect from the costs of the windows; None with fewer than `LEAST` of a kind."""
    if min(len(off), len(on)) < LEAST:
        return None
    free, limited = [math.log(one) for one in off], [math.log(one) for one in on]
    mean_free, mean_limited = sum(free) / len(free), sum(limited) / len(limited)
    difference = mean_limited - mean_free
    divisions = _divisions(free, limited)
    low, high = (_border(divisions, len(free), len(limited), difference, far) for far in (-_FAR, _FAR))
    low, high = math.exp(low - _RESOLUTION) - 1, math.exp(high + _RESOLUTION) - 1
    return Effect(math.exp(mean_free), math.exp(mean_limited), low, high, len(off) + len(on))


def _divisions(free: list[float], limited: list[float]) -> list[tuple[float, int]]:
    """Return for each division of the windows the sum of its first part, and how many limited windows that has.

    The first one is the real division.
    """
    values = [*limited, *free]
    few = len(limited)
    return [
        (sum(values[place] for place in places), sum(place < few for place in places))
        for places in itertools.combinations(range(len(values)), few)
    ]


def _border(divisions: list[tuple[float, int]], many: int, few: int, inside: float, far: float) -> float:
    """Return the last shift from ``inside`` towards ``far`` that the windows do not contradict."""
    outside = inside + far
    total = sum(own for own, _ in divisions) / len(divisions) * (few + many) / few  # each window is in as many of them
    for _ in range(_STEPS):
        shift = (inside + outside) / 2
        if _probability(divisions, total, many, few, shift) > _LEVEL:
            inside = shift
        else:
            outside = shift
    return outside


def _probability(divisions: list[tuple[float, int]], total: float, many: int, few: int, shift: float) -> float:
    """Return the part of all divisions whose means differ at least as much as the real one's.

    ``shift`` is taken from each of the ``few`` limited windows before: the effect that is tested.
    """
    whole = total - few * shift
    distances = [abs((own - own_few * shift) * (1 / few + 1 / many) - whole / many) for own, own_few in divisions]
    real = distances[0] - 1e-9  # rounding must not hide the real division itself
    return sum(distance >= real for distance in distances) / len(distances)
