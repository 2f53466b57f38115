"""The times of a host's samples, and their order although the clock may have been set back while it recorded."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Times:
    """The times of a host's samples, in order: other hosts have others.

    Attributes:
        each: in seconds since 1970.
        seams: places of samples that were not written directly after the one before them.
        counted: by place, the seconds of an interval that the clock, set back in it, shows too short.
        left_out: the number of samples that are left out because the clock was set back.
    """

    each: list[float]
    seams: frozenset[int] = frozenset()
    counted: Mapping[int, float] = field(default_factory=dict)
    left_out: int = 0

    @property
    def usual(self) -> float:
        """The usual seconds between two samples."""
        steps = sorted(after - before for before, after in pairwise(self.each))
        return steps[len(steps) // 2] if steps else 0.0

    @property
    def lengths(self) -> list[float]:
        """The seconds from the sample before each sample to it; 0 for the first, and where they are unknown."""
        found = [0.0, *(after - before for before, after in pairwise(self.each))][: len(self.each)]
        for place, seconds in (*self.counted.items(), *((place, 0.0) for place in self.seams)):
            found[place] = seconds
        return found

    def between(self, earlier: int, later: int) -> float:
        """Return the seconds between two samples; 0 if they are unknown."""
        if self.seams and not self.seams.isdisjoint(range(earlier + 1, later + 1)):
            return 0.0
        if later == earlier + 1 and later in self.counted:
            return self.counted[later]
        return self.each[later] - self.each[earlier]

    @property
    def gaps(self) -> list[tuple[float, float]]:
        """Gaps of more than twice the usual interval."""
        usual = self.usual
        return [(before, after) for before, after in pairwise(self.each) if after - before > 2 * usual]


class Order(NamedTuple):
    """The new places of samples."""

    places: list[int | None]
    """By the place in the order of writing; None: the sample is left out."""
    seams: frozenset[int]
    """New places of samples that were not written directly after the sample before them: no rate leads to them."""

    @property
    def left_out(self) -> int:
        """The number of samples that are left out."""
        return self.places.count(None)


def order_of(times: Sequence[float]) -> Order:
    """Return the order by time of samples whose times are in the order of writing.

    A step back begins a new run. Where it overlaps an earlier run, the earlier samples from its beginning on are left
    out, so that time and the order of writing agree. Runs that do not overlap, as of joined files, are sorted.
    """
    kept: list[list[int]] = []  # in the order of time, apart from each other
    for run in _runs(times):
        start, end = times[run[0]], times[run[-1]]
        first = bisect_left(kept, start, key=lambda one: times[one[-1]])
        after = bisect_right(kept, end, first, key=lambda one: times[one[0]])
        before = [at for one in kept[first:after][:1] for at in one if times[at] < start]
        kept[first:after] = [before, run] if before else [run]
    order = [at for one in kept for at in one]
    places: list[int | None] = [None] * len(times)
    for place, at in enumerate(order):
        places[at] = place
    return Order(places, frozenset(place for place in range(1, len(order)) if order[place] != order[place - 1] + 1))


def _runs(times: Sequence[float]) -> list[list[int]]:
    """Return the places of the samples between steps back."""
    found: list[list[int]] = []
    for at, when in enumerate(times):
        if not at or when < times[at - 1]:
            found.append([])
        found[-1].append(at)
    return found


def sorted_rows(at: Sequence[int], places: Sequence[int | None]) -> list[int]:
    """Return the numbers of rows at the places ``at`` in the order of their new ``places``; None: left out."""
    new = {row: place for row, old in enumerate(at) if (place := places[old]) is not None}
    return sorted(new, key=new.__getitem__)
