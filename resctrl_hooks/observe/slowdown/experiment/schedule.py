"""The experiment's plan and its result: which windows limit a class, and what the victim gained by it. Pure.

A randomized experiment with one factor. Its windows are in random order, so whatever else changes on the node meets
limited and unlimited windows alike, and their difference is the effect of the limit. The interval comes from
permutation of the windows within their blocks (Fisher's exact test, inverted), which assumes nothing about the
distribution of costs. A narrow interval after the first block ends the experiment. Both intervals together miss the
truth in 5 % of all experiments (Bonferroni), so the early end does not bias them.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from resctrl_hooks.observe.node.slowdown.constants import AET

BLOCKS: Final = (4, 2)
"""Windows of each block with the limit, and as many without. The orders of the first one allow an interval of 97 %, the
420 orders of both one of 98 %."""
SECONDS: Final = 3.0
"""Of a window."""
SECONDS_BY_GRADE: Final = MappingProxyType({AET: 1.5})
"""Where resctrl counts cycles and operations: the processor counts them itself, all the time."""
SETTLE: Final = 0.5
"""Seconds at the start of a window that are not measured: the processor and its queues take up a new value."""
NARROW: Final = 0.1
"""The width of an interval that ends the experiment early: 5 % of the cost on either side."""
_LEVEL, _LEVEL_EARLY = 0.05, 0.03
"""Of all experiments, and of the first block: 2 of its 70 orders are 2.9 %."""
_TICKS = 2 * 0.01
"""Seconds: the kernel counts a running task at ticks of up to 10 ms, at both ends of a window. Costs with and without
a weight can agree better than that among themselves; their interval alone would miss the truth."""
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


def effect_by_windows(
    cost_of: Callable[[bool], float | None], shuffle: Callable[[list[bool]], None], seconds: float
) -> Effect | None:
    """Return a limit's effect; None if too few windows have a cost.

    Args:
        cost_of: measures the cost of the victim's work in a window, limited or not; None if it is unknown.
        shuffle: makes the random order.
        seconds: the length of a window.
    """
    blocks: list[Block] = []
    effect, level = None, _LEVEL_EARLY
    for number in BLOCKS:
        block = Block([], [])
        for limited in order(number, shuffle):
            if (cost := cost_of(limited)) is not None:
                block[limited].append(math.log(cost))
        blocks.append(block)
        effect = effect_of(blocks, level, _TICKS / (seconds - SETTLE)) or effect
        if effect and effect.high - effect.low <= NARROW:
            break
        level = _LEVEL - _LEVEL_EARLY if effect else _LEVEL
    return effect


class Block(NamedTuple):
    """Natural logarithms of the costs in the windows of a block."""

    free: list[float]
    limited: list[float]


def order(windows: int, shuffle: Callable[[list[bool]], None]) -> list[bool]:
    """Return for each of twice as many windows whether it is limited, in the order that ``shuffle`` makes."""
    found = [True, False] * windows
    shuffle(found)
    return found


def effect_of(blocks: Sequence[Block], level: float, resolution: float = 0.0) -> Effect | None:
    """Return the effect from the windows of blocks; None if they have too few orders for the level.

    ``level`` is the probability with which the interval misses the truth, and ``resolution`` the error of a cost.
    """
    free, limited = (list(itertools.chain(*part)) for part in zip(*blocks, strict=True))
    divisions = _divisions(blocks)
    if 2 / len(divisions) > level:
        return None
    test = _Test(divisions, sum(free) + sum(limited), len(free), len(limited), level)
    mean_free, mean_limited = sum(free) / len(free), sum(limited) / len(limited)
    low, high = (_border(test, mean_limited - mean_free, far) for far in (-_FAR, _FAR))
    low, high = math.exp(low - resolution) - 1, math.exp(high + resolution) - 1
    return Effect(math.exp(mean_free), math.exp(mean_limited), low, high, len(free) + len(limited))


class _Test(NamedTuple):
    """The windows as the permutation test compares them.

    ``divisions`` are those of `_divisions`, ``total`` the sum of all windows, and ``many`` and ``few`` the numbers of
    free and limited ones.
    """

    divisions: list[tuple[float, int]]
    total: float
    many: int
    few: int
    level: float


def _divisions(blocks: Sequence[Block]) -> list[tuple[float, int]]:
    """Return for each division of the windows the sum of its first part, and how many limited windows that has.

    Each block is divided for itself. The first division is the real one.
    """
    found = [(0.0, 0)]
    for block in blocks:
        values, few = [*block.limited, *block.free], len(block.limited)
        own = [
            (sum(values[place] for place in places), sum(place < few for place in places))
            for places in itertools.combinations(range(len(values)), few)
        ]
        found = [(one + more, count + limited) for one, count in found for more, limited in own]
    return found


def _border(test: _Test, inside: float, far: float) -> float:
    """Return the last shift from ``inside`` towards ``far`` that the windows do not contradict."""
    outside = inside + far
    for _ in range(_STEPS):
        shift = (inside + outside) / 2
        if _probability(test, shift) > test.level:
            inside = shift
        else:
            outside = shift
    return outside


def _probability(test: _Test, shift: float) -> float:
    """Return the part of all divisions whose means differ at least as much as the real one's.

    ``shift`` is taken from each of the ``few`` limited windows before: the effect that is tested.
    """
    few, many = test.few, test.many
    whole = test.total - few * shift
    distances = [abs((own - own_few * shift) * (1 / few + 1 / many) - whole / many) for own, own_few in test.divisions]
    real = distances[0] - 1e-9  # rounding must not hide the real division itself
    return sum(distance >= real for distance in distances) / len(distances)
