"""The cost that a pod's present work has in quiet times, compared phase by phase. Pure.

Phases of a program differ in their memory traffic by unit of work. Contention for bandwidth, CPUs and clock does not
change that of the same work; only a loss of cache does.
"""

from math import log2

from .cell import quantile
from .constants import BINS_PER_OCTAVE, ENOUGH, FARTHEST, OFTEN_QUIET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .baseline import Baseline
    from .curve import Curve, Knot
    from .use import Use


class Expected:
    """The costs to expect of some windows of a pod.

    Args:
        baseline: of its workload.
        uses: the pod in windows with a cost, all of one grade, with their seconds.
        stretch: how many times as long its work takes because of waiting.
        by_phase: whether its traffic by unit of work shows its phase; not if others took its cache.

    Attributes:
        prices: of each window.
        rare: the multiple of these that only a tenth of the quiet samples exceeds; 1 at the least.
        samples: the baseline's.
    """

    def __init__(
        self, baseline: "Baseline", uses: "Sequence[tuple[Use, float]]", stretch: float = 1.0, *, by_phase: bool = True
    ) -> None:
        self._baseline = baseline
        self._stretch = stretch
        self._by_phase = by_phase
        self._uses = uses
        self.prices = [self.price(use, seconds) for use, seconds in uses]
        self.rare = _rare(baseline, uses[0][0].method)
        self.samples = baseline.samples(uses[0][0].method)

    def price(self, use: "Use", seconds: float) -> float:
        """Return the cost of a unit of a pod's work that is expected in a window."""
        return sum([knot.price * part for knot, part in self._knots(use, seconds)])

    def _knots(self, use: "Use", seconds: float) -> "tuple[tuple[Knot, float], ...]":
        return self._curve(use, seconds).at(use.missed if self._by_phase else None)

    def _curve(self, use: "Use", seconds: float) -> "Curve":
        return self._baseline.curve(use.method, (use.work or 0.0) / seconds * self._stretch)

    @property
    def normal(self) -> float:
        """The expected cost of a unit of all of its work."""
        work = [use.work or 0.0 for use, _ in self._uses]
        return sum([price * part for price, part in zip(self.prices, work)]) / sum(work)

    @property
    def least_missed(self) -> "float | None":
        """The least traffic by unit of work in quiet times; None if it is not counted."""
        knots = self._curve(*self._uses[0]).knots
        return knots[0].missed if knots else None

    def mean(self, name: str) -> "float | None":
        """Return one of the baseline's means for this work; None without a sample that has it."""
        whole = weights = 0.0
        for use, seconds in self._uses:
            for knot, part in self._knots(use, seconds):
                for cell, weight in knot.cells:
                    value = cell.mean(name)
                    if value is not None:
                        whole += value * weight * part
                        weights += weight * part
        return whole / weights if weights else None


def expected(
    baseline: "Baseline", uses: "Sequence[tuple[Use, float]]", stretch: float, *, by_phase: bool
) -> "Expected | None":
    """Return what to expect; None without enough samples, or without some near the intensity of most windows."""
    method = uses[0][0].method
    if baseline.samples(method) < ENOUGH:
        return None
    intensities = [(use.work or 0.0) / seconds * stretch for use, seconds in uses]
    far = [one for one in intensities if baseline.curve(method, one).distance > FARTHEST]
    return None if 2 * len(far) > len(uses) else Expected(baseline, uses, stretch, by_phase=by_phase)


def _rare(baseline: "Baseline", method: str) -> float:
    """Return the multiple of the expected cost that a tenth of the quiet samples exceeds; 1 at the least."""
    rest = []
    for (grade, _, _), cell in baseline.cells.items():
        if grade == method:
            curve = baseline.curve(method, 2 ** (cell.mean("intensity") or 0.0))
            price = log2(sum([knot.price * part for knot, part in curve.at(cell.mean("missed"))]))
            rest += [((bin_ + 0.5) / BINS_PER_OCTAVE - price, weight) for bin_, weight in cell.bins.items()]
    return max(1.0, quantile(rest, OFTEN_QUIET))
