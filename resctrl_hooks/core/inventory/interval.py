"""The confidence interval for the rate of a time-sharing pod, from the spread of its turns.

The rate is a ratio estimate: all bytes by all seconds (Cochran, Sampling Techniques, 3rd edition, 6.4), with the turns'
variance about it, positive covariance of neighbouring turns, and Student's quantile for few turns.
`tests/core/inventory/test_interval.py` measures its coverage.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

LEAST_TURNS = 8
"""Minimum number of turns for an interval: fewer may all miss a load in bursts."""
_MARGIN = 1.2
_QUANTILES = {7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 12: 2.179, 15: 2.131, 20: 2.086, 30: 2.042, 40: 2.021}
"""Student's t for a probability of 95 %, two-sided, by degrees of freedom."""


class Interval(NamedTuple):
    """A rate in bytes per second, and the half width of the interval that contains the true rate in 95 of 100 cases."""

    rate: float
    half: float

    @property
    def low(self) -> float:
        """The lower end, at least 0."""
        return max(self.rate - self.half, 0.0)

    @property
    def high(self) -> float:
        """The upper end."""
        return self.rate + self.half


def interval_of(turns: Sequence[tuple[float, float]]) -> Interval | None:
    """Return the interval from turns, each with its seconds and bytes; None for too few turns."""
    number = len(turns)
    if number < LEAST_TURNS:
        return None
    seconds = math.fsum(time for time, _ in turns)
    rate = math.fsum(moved for _, moved in turns) / seconds
    off = [moved - rate * time for time, moved in turns]
    squares = math.fsum(one * one for one in off)
    neighbours = math.fsum(one * other for one, other in pairwise(off))
    variance = (squares + max(2 * neighbours, 0.0)) * number / (number - 1)
    quantile = _QUANTILES[max(freedom for freedom in _QUANTILES if freedom < number)]
    return Interval(rate, _MARGIN * quantile * math.sqrt(variance) / seconds)
