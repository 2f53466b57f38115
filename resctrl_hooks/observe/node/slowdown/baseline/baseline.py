"""A workload's cost of a unit of work in quiet times: distributions in fixed bins, by grade and kind of work.

Only a comparison with itself shows whether a pod is slowed: a program that waits for memory when it is alone has a high
cost, too. The cost also moves with the intensity of the work ("CPI for Runtime Performance Measurement", IISWC 2020)
and with its kind. So samples of similar intensity and similar memory traffic by unit of work have a `Cell`, and
`expected.py` compares a phase of a program with the cells of the same phase.
"""

from math import floor, log2

from ..constants import (
    BINS_PER_OCTAVE,
    ENOUGH,
    LEAST_MISSED,
    LESS_CACHE,
    MORE_MISSES,
    MOST_CELLS,
    OLD_CURVES,
    QUIET_SHARE,
)
from ..evidence.alone import Alone, alone_of
from ..evidence.waiting import NOTHING
from .cell import FARTHEST_BIN, Cell, cell_of, column_of, number_of
from .curve import curve, rare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..evidence.use import Use
    from ..evidence.waiting import Waiting
    from .curve import Curve

_INFINITY = float("inf")
_LARGEST = 1e18  # of a mean: more is a counter's error, and its sums may become infinite
_OLD_OCTAVES = 2  # of a range of intensity in the format of version 0.2
_STEP = 2  # curves by octave of intensity


class Baseline:
    """A workload's cells, by grade, octave of intensity, and column of memory traffic by unit of work.

    Attributes:
        alone: what its work takes without a shared disk or a lack of memory.
    """

    __slots__ = ("_curves", "_had", "_news", "_rare", "alone", "cells")

    def __init__(self) -> None:
        self.cells: "dict[tuple[str, int, int], Cell]" = {}
        self.alone = Alone()
        self._forget_curves()

    def learn(
        self,
        use: "Use",
        seconds: float,
        waiting: "Waiting" = NOTHING,
        beside: "Mapping[str, float | None] | None" = None,
    ) -> bool:
        """Add a quiet sample; return whether it was one: without a cost there is nothing to learn.

        Args:
            use: the pod in a window.
            seconds: the window's.
            waiting: what the pod lost in it.
            beside: the means that tell of neighbours.
        """
        price = use.price
        if price is None or use.work is None or not 0 < use.work < _INFINITY or not 0 < price < _INFINITY:
            return False
        intensity = use.work / seconds * waiting.stretch
        if not 0 < intensity < _INFINITY or abs(log2(price) * BINS_PER_OCTAVE) >= FARTHEST_BIN:
            return False  # no program has such a cost: a counter was wrong
        occupancy = sum(use.occupancy.values()) if use.occupancy else None
        values = {
            **(beside or {}),
            "missed": use.missed,
            "clock": use.clock,
            "occupancy": occupancy,
            "cost": price * use.work / seconds,
            "work": use.work / seconds,
            "intensity": log2(intensity),
        }
        means = {name: value if value is not None and abs(value) < _LARGEST else None for name, value in values.items()}
        forgot = self._forget_taken(use, occupancy)
        place = use.method, floor(log2(intensity)), column_of(means["missed"])
        is_new = place not in self.cells
        if is_new and len(self.cells) >= MOST_CELLS:
            del self.cells[min(self.cells, key=lambda one: self.cells[one].samples)]
        self.cells.setdefault(place, Cell()).add(price, means)
        self._news += 1
        if forgot or is_new or self._news * OLD_CURVES > self.samples(use.method):
            self._forget_curves()
        return True

    def _forget_curves(self) -> None:
        """Forget what was computed of the samples."""
        self._curves: "dict[tuple[str, int], Curve]" = {}
        self._rare: "dict[str, float]" = {}
        self._had: "dict[str, tuple[float, float]]" = {}  # the most of the L3, and the least traffic by unit of work
        self._news = 0

    def curve(self, method: str, intensity: float) -> "Curve":
        """Return the costs near an intensity: work in a second of running or waiting."""
        place = method, round(log2(intensity) * _STEP)
        found = self._curves.get(place)
        if found is None:
            cells = [(column, cell) for (grade, _, column), cell in self.cells.items() if grade == method]
            found = self._curves[place] = curve(cells, place[1] / _STEP)
        return found

    def rare(self, method: str) -> float:
        """Return the multiple of the expected cost that only a tenth of the quiet samples exceeds; 1 at the least."""
        found = self._rare.get(method)
        if found is None:
            cells = [(column, cell) for (grade, _, column), cell in self.cells.items() if grade == method]
            found = self._rare[method] = rare(cells, lambda intensity: self.curve(method, intensity))
        return found

    def lost_cache(self, use: "Use") -> bool:
        """Return whether the pod holds less of its L3 than it did, and misses it more often, as far as known."""
        had = self._had.get(use.method)
        if had is None:
            known = [cell for (method, _, _), cell in self.cells.items() if method == use.method]
            most = max([cell.mean("occupancy") or 0.0 for cell in known], default=0.0)
            had = self._had[use.method] = most, min([cell.mean("missed") or 0.0 for cell in known], default=0.0)
        most, lowest = had
        if sum(use.occupancy.values()) >= LESS_CACHE * most:
            return False
        return use.missed is None or use.missed >= MORE_MISSES * max(lowest, LEAST_MISSED)

    def _forget_taken(self, use: "Use", occupancy: "float | None") -> bool:
        """Forget cells in which others had taken the cache that the pod has now; return whether there were any."""
        if occupancy is None or use.missed is None:
            return False
        most, least = LESS_CACHE * occupancy, MORE_MISSES * max(use.missed, LEAST_MISSED)
        taken = [
            place
            for place, cell in self.cells.items()
            if place[0] == use.method
            and (cell.mean("held") or 0.0) > QUIET_SHARE
            and (cell.mean("occupancy") or most) < most
            and (cell.mean("missed") or 0.0) >= least
        ]
        for place in taken:
            del self.cells[place]
        return bool(taken)

    def samples(self, method: str) -> int:
        """Return how many samples a grade has."""
        return int(sum([cell.samples for (grade, _, _), cell in self.cells.items() if grade == method]))

    @property
    def is_usable(self) -> bool:
        """Whether any grade has enough samples."""
        return any(self.samples(method) >= ENOUGH for method in {place[0] for place in self.cells})

    def as_record(self) -> "dict[str, Any]":
        """Return plain JSON values."""
        cells = {"/".join(map(str, place)): cell.as_record() for place, cell in self.cells.items()}
        return {"cells": cells, "alone": self.alone.as_record()}


def baseline_of(record: "Any") -> Baseline:
    """Return the baseline of `Baseline.as_record`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError, OverflowError: the record is damaged.
    """
    found = Baseline()
    for place, one in record["cells"].items():
        method, octave, column = place.split("/")
        found.cells[method, int(octave), int(column)] = cell_of(one)
    if len(found.cells) > MOST_CELLS:
        raise ValueError("too many cells")
    found.alone = alone_of(record.get("alone", {}))
    return found


def baseline_of_ranges(record: "Any") -> Baseline:
    """Return the baseline of a record of version 0.2, which has ranges of intensity; each becomes a cell.

    Raises:
        ValueError, TypeError, KeyError, AttributeError, OverflowError: as `baseline_of`.
    """
    found = Baseline()
    for place, one in record.items():
        method, _, number = place.partition("/")
        cell = cell_of(one)
        intensity = (int(number) + 0.5) * _OLD_OCTAVES
        work = 2**intensity
        for name, mean in (("intensity", intensity), ("work", work), ("cost", cell.quantile(0.5) * work)):
            cell.means[name] = number_of(mean), cell.samples
        found.cells[method, floor(intensity), column_of(cell.mean("missed"))] = cell
    return found
