"""A workload's cost of a unit of work in quiet times: a distribution in fixed bins, by grade and range of intensity.

Only a comparison with itself shows whether a pod is slowed: a program that waits for memory when it is alone has a high
cost, too. The cost also moves with the intensity of the work ("CPI for Runtime Performance Measurement", IISWC 2020),
so each range of intensity has its own distribution.
"""

from math import floor, log2

from .constants import BINS_PER_OCTAVE, ENOUGH, MOST_RANGES, MOST_WEIGHT, OCTAVES_PER_RANGE
from .units import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .use import Use

MEANS = ("missed", "clock", "occupancy", "stood")
"""The means of a range's samples besides their cost: causes are compared with them."""
_FARTHEST = 1000  # bins from 1: any cost of a real program is within 2^62
_INFINITY = float("inf")
_LARGEST = 1e18  # of a mean: more is a counter's error, and its sums may become infinite


class Range:
    """The samples of one range of intensity.

    Attributes:
        bins: weight by bin; bin ``n`` is a cost between 2^(n/16) and 2^((n+1)/16).
        means: of `MEANS`, each with its weight.
    """

    __slots__ = ("bins", "means")

    def __init__(self) -> None:
        self.bins: "dict[int, float]" = {}
        self.means: "dict[str, tuple[float, float]]" = {}

    @property
    def samples(self) -> float:
        """The number of samples, of which old ones count less."""
        return sum(self.bins.values())

    def add(self, price: float, means: "dict[str, float | None]") -> None:
        """Add a sample."""
        place = floor(log2(price) * BINS_PER_OCTAVE)
        self.bins[place] = self.bins.get(place, 0.0) + 1.0
        for name, value in means.items():
            if value is not None:
                old, weight = self.means.get(name, (0.0, 0.0))
                self.means[name] = (old * weight + value) / (weight + 1.0), weight + 1.0
        if self.samples > MOST_WEIGHT:
            self.bins = {place: weight / 2 for place, weight in self.bins.items() if weight >= 1.0}
            self.means = {name: (mean, weight / 2) for name, (mean, weight) in self.means.items()}

    def quantile(self, part: float) -> float:
        """Return the cost below which a part of the samples lies, interpolated within its bin."""
        left = part * self.samples
        for place, weight in sorted(self.bins.items()):
            if left <= weight:
                return float(2 ** ((place + left / weight) / BINS_PER_OCTAVE))
            left -= weight
        return float(2 ** ((max(self.bins) + 1) / BINS_PER_OCTAVE))

    def mean(self, name: str) -> "float | None":
        """Return a mean; None without a sample that has it."""
        return self.means[name][0] if name in self.means else None

    def as_record(self) -> "dict[str, Any]":
        """Return plain JSON values."""
        return {"bins": {str(place): weight for place, weight in self.bins.items()}, "means": self.means}


class Baseline:
    """A workload's ranges, by grade and number of the range."""

    __slots__ = ("ranges",)

    def __init__(self) -> None:
        self.ranges: "dict[tuple[str, int], Range]" = {}

    def learn(self, use: "Use", seconds: float) -> bool:
        """Add a quiet sample; return whether it was one: without a cost there is nothing to learn."""
        price = use.price
        if price is None or use.work is None or not 0 < use.work < _INFINITY or not 0 < price < _INFINITY:
            return False
        intensity = use.work / seconds
        if not 0 < intensity < _INFINITY or abs(log2(price) * BINS_PER_OCTAVE) >= _FARTHEST:
            return False  # no program has such a cost: a counter was wrong
        place = use.method, range_of(intensity)
        if place not in self.ranges and len(self.ranges) >= MOST_RANGES:
            del self.ranges[min(self.ranges, key=lambda one: self.ranges[one].samples)]
        occupancy = sum(use.occupancy.values()) if use.occupancy else None
        values = {"missed": use.missed, "clock": use.clock, "occupancy": occupancy, "stood": plain(use.stood)}
        means = {name: value if value is not None and abs(value) < _LARGEST else None for name, value in values.items()}
        self.ranges.setdefault(place, Range()).add(price, means)
        return True

    def range_for(self, method: str, intensity: float) -> "Range | None":
        """Return the range to compare with; None without enough samples.

        A slowed pod does less work in the same time, so without samples in its own range the next higher one is its.
        """
        place = range_of(intensity)
        for number in (place, place + 1):
            found = self.ranges.get((method, number))
            if found is not None and found.samples >= ENOUGH:
                return found
        return None

    def samples(self, method: str) -> int:
        """Return how many samples a grade has."""
        return int(sum(found.samples for (grade, _), found in self.ranges.items() if grade == method))

    @property
    def is_usable(self) -> bool:
        """Whether any range has enough samples."""
        return any(found.samples >= ENOUGH for found in self.ranges.values())

    def as_record(self) -> "dict[str, Any]":
        """Return plain JSON values."""
        return {f"{method}/{number}": found.as_record() for (method, number), found in self.ranges.items()}


def range_of(intensity: float) -> int:
    """Return the number of the range of an intensity: work per second of wall time."""
    return floor(log2(intensity) / OCTAVES_PER_RANGE) if intensity > 0 else 0


def baseline_of(record: "Any") -> Baseline:
    """Return the baseline of `Baseline.as_record`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError, OverflowError: the record is damaged.
    """
    found = Baseline()
    for place, one in record.items():
        method, _, number = place.partition("/")
        made = found.ranges[method, int(number)] = Range()
        made.bins = {int(bin_): number_of(weight) for bin_, weight in one["bins"].items()}
        made.means = {name: (number_of(mean), number_of(weight)) for name, (mean, weight) in one["means"].items()}
        if not made.bins or any(not 0 < weight <= 2 * MOST_WEIGHT for weight in made.bins.values()):
            raise ValueError(f"{place}: a range without samples")
        if max(abs(bin_) for bin_ in made.bins) > _FARTHEST:
            raise ValueError(f"{place}: a bin out of range")
    return found


def number_of(value: "Any") -> float:
    """Return a finite number of a record; raises ValueError for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) == float("inf"):  # noqa: PLR0124  # NaN
        raise ValueError("not a number")
    return float(value)
