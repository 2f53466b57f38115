"""The distribution of samples of one kind of work, in fixed bins, with means beside it."""

from math import floor, log2

from ..constants import BINS_PER_OCTAVE, CELLS_PER_OCTAVE, LEAST_MISSED, MOST_WEIGHT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MEANS = ("missed", "clock", "occupancy", "load", "beside", "held", "cost", "work", "intensity")
"""The means of a cell's samples. ``missed``, ``clock`` and ``occupancy`` are the pod's; ``load`` is that of its memory,
``beside`` others' bytes per second there, and ``held`` their part of its L3. ``cost`` and ``work`` are by second, and
``intensity`` is the logarithm (base 2) of the work in a second of running or waiting."""
FARTHEST_BIN = 1000
"""Bins from 1: any cost of a real program is within 2^62."""
_UNCOUNTED = -999  # the column of cells whose traffic by unit of work is unknown


class Cell:
    """Samples of one kind, of which old ones count less.

    Attributes:
        bins: weight by bin; bin ``n`` is a value between 2^(n/16) and 2^((n+1)/16).
        means: of `MEANS`, each with its weight.
        samples: the sum of all weights.
    """

    __slots__ = ("bins", "means", "samples")

    def __init__(self) -> None:
        self.bins: "dict[int, float]" = {}
        self.means: "dict[str, tuple[float, float]]" = {}
        self.samples = 0.0

    def add(self, value: float, means: "Mapping[str, float | None]") -> None:
        """Add a sample."""
        place = floor(log2(value) * BINS_PER_OCTAVE)
        self.bins[place] = self.bins.get(place, 0.0) + 1.0
        self.samples += 1.0
        for name, mean in means.items():
            if mean is not None:
                old, weight = self.means.get(name, (0.0, 0.0))
                self.means[name] = (old * weight + mean) / (weight + 1.0), weight + 1.0
        if self.samples > MOST_WEIGHT:
            self.bins = {place: weight / 2 for place, weight in self.bins.items() if weight >= 1.0}
            self.means = {name: (mean, weight / 2) for name, (mean, weight) in self.means.items()}
            self.samples = sum(self.bins.values())

    def quantile(self, part: float) -> float:
        """Return the value below which a part of the samples lies, interpolated within its bin."""
        return quantile([((place + 0.5) / BINS_PER_OCTAVE, weight) for place, weight in self.bins.items()], part)

    def mean(self, name: str) -> "float | None":
        """Return a mean; None without a sample that has it."""
        return self.means[name][0] if name in self.means else None

    def as_record(self) -> "dict[str, Any]":
        """Return plain JSON values."""
        return {
            "bins": {str(place): round(weight, 3) for place, weight in self.bins.items()},
            "means": {name: (_short(mean), round(weight, 3)) for name, (mean, weight) in self.means.items()},
        }


def column_of(missed: "float | None") -> int:
    """Return the column of an amount of memory traffic by unit of work; all below `LEAST_MISSED` are in one."""
    return _UNCOUNTED if missed is None else floor(log2(max(missed, LEAST_MISSED)) * CELLS_PER_OCTAVE)


def quantile(values: "list[tuple[float, float]]", part: float) -> float:
    """Return a quantile of logarithms (base 2) of values with their weights, each a bin wide, as a value."""
    left = part * sum([weight for _, weight in values])
    ordered = sorted(values)
    for value, weight in ordered:
        if left <= weight:
            return float(2 ** (value + (left / weight - 0.5) / BINS_PER_OCTAVE))
        left -= weight
    return float(2 ** (ordered[-1][0] + 0.5 / BINS_PER_OCTAVE))


def cell_of(record: "Any") -> Cell:
    """Return the distribution of `Cell.as_record`; raises as `baseline_of`."""
    cell = Cell()
    cell.bins = {int(bin_): number_of(weight) for bin_, weight in record["bins"].items()}
    cell.means = {name: (number_of(mean), number_of(weight)) for name, (mean, weight) in record["means"].items()}
    cell.samples = sum(cell.bins.values())
    if not cell.bins or any(not 0 < weight <= 2 * MOST_WEIGHT for weight in cell.bins.values()):
        raise ValueError("a distribution without samples")
    if max(abs(bin_) for bin_ in cell.bins) > FARTHEST_BIN:
        raise ValueError("a bin out of range")
    return cell


def number_of(value: "Any") -> float:
    """Return a finite number of a record; raises ValueError for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) == float("inf"):  # noqa: PLR0124  # NaN
        raise ValueError("not a number")
    return float(value)


def _short(value: float) -> float:
    return float(f"{value:.6g}")
