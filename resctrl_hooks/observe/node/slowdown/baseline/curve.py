"""The cost that work of a kind has in quiet times: a curve over memory traffic by unit of work. Pure.

A window with two phases of a program has the mean of both phases' traffic, weighted by their work. So has its cost, and
the line between two phases is exact for their mixtures. Samples of equal traffic are weighted by their distance in
intensity.
"""

from bisect import bisect_left
from math import exp, log2
from typing import NamedTuple

from ..constants import BINS_PER_OCTAVE, NEAR, OFTEN_QUIET, SLOWER_BY
from .cell import quantile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .cell import Cell


class Knot(NamedTuple):
    """Samples with about the same traffic by unit of work."""

    missed: float
    price: float
    cells: "tuple[tuple[Cell, float], ...]"
    """With their weights."""


class Curve(NamedTuple):
    """The costs near one intensity, the least traffic first."""

    knots: "tuple[Knot, ...]"
    whole: Knot
    """All samples together."""
    distance: float
    """Octaves from this intensity to the nearest sample."""

    def at(self, missed: "float | None") -> "tuple[tuple[Knot, float], ...]":
        """Return the one or two points of the curve beside an amount of traffic by unit of work, with their parts."""
        if missed is None or not self.knots:
            return ((self.whole, 1.0),)
        if len(self.knots) == 1:
            return ((self.knots[0], 1.0),)
        place = bisect_left(self.knots, (missed,))
        if place == 0 or place == len(self.knots):
            return ((self.knots[max(0, place - 1)], 1.0),)
        one, other = self.knots[place - 1], self.knots[place]
        part = (missed - one.missed) / (other.missed - one.missed)
        return ((one, 1.0 - part), (other, part))


def curve(cells: "Sequence[tuple[int, Cell]]", intensity: float) -> Curve:
    """Return the costs near an intensity (as logarithm, base 2) from cells with their columns."""
    columns: "dict[int, list[tuple[float, Cell]]]" = {}
    for column, cell in cells:
        columns.setdefault(column, []).append((_away(cell, intensity), cell))
    knots = sorted(map(_knot, columns.values()), key=lambda one: one.missed)
    all_ = [one for column in columns.values() for one in column]
    return Curve(tuple([one for one in knots if one.missed >= 0]), _knot(all_), min([away for away, _ in all_]))


def _away(cell: "Cell", intensity: float) -> float:
    """Return the octaves between a cell and the intensities that a present one comes from: a slowed pod does less."""
    more = (cell.mean("intensity") or 0.0) - intensity
    return -more if more < 0 else max(0.0, more - SLOWER_BY)


def _knot(cells: "list[tuple[float, Cell]]") -> Knot:
    nearest = min([away for away, _ in cells])
    parts = [(cell, exp((nearest**2 - away**2) / (2 * NEAR**2))) for away, cell in cells]
    cost = work = missed = 0.0
    for cell, weight in parts:
        moved = cell.mean("missed")
        done = cell.samples * weight * (cell.mean("work") or 0.0)
        cost += cell.samples * weight * (cell.mean("cost") or 0.0)
        work += done
        missed += done * (-1.0 if moved is None else moved)
    return Knot(missed / work, cost / work, tuple([(cell, cell.samples * weight) for cell, weight in parts]))


def rare(cells: "Sequence[tuple[int, Cell]]", curve_at: "Callable[[float], Curve]") -> float:
    """Return the multiple of the expected cost that only a tenth of some samples exceeds; 1 at the least."""
    rest = []
    for _, cell in cells:
        point = curve_at(2 ** (cell.mean("intensity") or 0.0)).at(cell.mean("missed"))
        price = log2(sum([knot.price * part for knot, part in point]))
        rest += [((bin_ + 0.5) / BINS_PER_OCTAVE - price, weight) for bin_, weight in cell.bins.items()]
    return max(1.0, quantile(rest, OFTEN_QUIET))
