"""The cost that a pod's present work has in quiet times, compared phase by phase. Pure.

Phases of a program differ in their memory traffic by unit of work. Contention for bandwidth, CPUs and clock does not
change that of the same work; only a loss of cache does.
"""

from functools import cached_property

from ..constants import ENOUGH, FARTHEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..evidence.use import Use
    from .baseline import Baseline
    from .cell import Cell
    from .curve import Curve, Knot


class Expected:
    """The costs to expect of some windows of a pod.

    Args:
        baseline: of its workload.
        uses: the pod in windows with a cost, all of one grade, with their seconds.
        stretch: how many times as long its work takes because of waiting.
        by_phase: whether its traffic by unit of work shows its phase; not if others took its cache.

    Attributes:
        prices: of each window.
        distance: the octaves of intensity from half of the windows to the nearest quiet sample.
        samples: the baseline's.
    """

    def __init__(
        self, baseline: "Baseline", uses: "Sequence[tuple[Use, float]]", stretch: float = 1.0, *, by_phase: bool = True
    ) -> None:
        self._baseline = baseline
        self._stretch = stretch
        self._by_phase = by_phase
        self._uses = uses
        self._curves = [self._curve(use, seconds) for use, seconds in uses]
        self._points = [self._point(use, curve) for (use, _), curve in zip(uses, self._curves)]
        self.prices = [sum([knot.price * part for knot, part in point]) for point in self._points]
        self.distance = sorted([curve.distance for curve in self._curves])[len(uses) // 2]
        self.samples = baseline.samples(uses[0][0].method)

    def price(self, use: "Use", seconds: float) -> float:
        """Return the cost of a unit of a pod's work that is expected in a window."""
        return sum([knot.price * part for knot, part in self._point(use, self._curve(use, seconds))])

    def _curve(self, use: "Use", seconds: float) -> "Curve":
        return self._baseline.curve(use.method, (use.work or 0.0) / seconds * self._stretch)

    def _point(self, use: "Use", curve: "Curve") -> "tuple[tuple[Knot, float], ...]":
        return curve.at(use.missed if self._by_phase else None)

    @property
    def normal(self) -> float:
        """The expected cost of a unit of all of its work."""
        work = [use.work or 0.0 for use, _ in self._uses]
        return sum([price * part for price, part in zip(self.prices, work)]) / sum(work)

    @property
    def rare(self) -> float:
        """The multiple of the expected cost that only a tenth of the quiet samples exceeds; 1 at the least."""
        return self._baseline.rare(self._uses[0][0].method)

    @property
    def least_missed(self) -> "float | None":
        """The least traffic by unit of work in quiet times; None if it is not counted."""
        knots = self._curves[0].knots
        return knots[0].missed if knots else None

    def mean(self, name: str) -> "float | None":
        """Return one of the baseline's means for this work; None without a sample that has it."""
        found = [(value, weight) for cell, weight in self._cells.items() if (value := cell.mean(name)) is not None]
        return (
            sum([value * weight for value, weight in found]) / sum([weight for _, weight in found]) if found else None
        )

    @cached_property
    def _cells(self) -> "dict[Cell, float]":
        """The cells of the same work, with their weights."""
        found: "dict[Cell, float]" = {}
        for point in self._points:
            for knot, part in point:
                for cell, weight in knot.cells:
                    found[cell] = found.get(cell, 0.0) + weight * part
        return found


def expected(
    baseline: "Baseline", uses: "Sequence[tuple[Use, float]]", stretch: float, *, by_phase: bool
) -> "Expected | None":
    """Return what to expect; None without enough samples, or without some near the intensity of most windows."""
    if baseline.samples(uses[0][0].method) < ENOUGH:
        return None
    found = Expected(baseline, uses, stretch, by_phase=by_phase)
    return found if found.distance <= FARTHEST else None
