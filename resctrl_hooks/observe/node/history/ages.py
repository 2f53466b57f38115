"""The ages of stored samples: the time for which samples were written since. A clock that is set changes no age.

While the writer runs, the uptime counts. For samples of earlier processes, their times do, in the order of writing: a
step back, or a gap, counts as no time.
"""

from array import array
from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_GAP = 600_000  # milliseconds between two samples, from which the clock was set, or no process wrote
_STEP = 60_000  # milliseconds between two remembered places: the ages of samples are as exact


class Ages:
    """The ages of the samples of one file.

    Args:
        samples: the id and the time of each, in the order of the ids.
    """

    def __init__(self, samples: "Iterable[tuple[int, ...]]") -> None:
        self._ids = array("q")
        self._reached = array("q")  # by each of these samples, in milliseconds of writing
        self._now = 0
        before: "int | None" = None
        for id_, time in samples:
            step = time - before if before is not None else 0
            self.add(id_, step if 0 <= step <= _GAP else 0)
            before = time

    def add(self, id_: int, step: int) -> None:
        """Note a new sample, so many milliseconds after the one before."""
        self._now += max(step, 0)
        if not self._ids or self._now - self._reached[-1] >= _STEP:
            self._ids.append(id_)
            self._reached.append(self._now)

    def first_within(self, seconds: float) -> int:
        """Return an id: all samples with smaller ones are older than so many seconds."""
        limit = self._now - int(seconds * 1000)
        place = bisect_right(self._reached, limit) - 1
        if place < 0:
            return 0
        # A place is remembered for each step, so all samples before the next place are within a step of this one.
        is_gap = place + 1 < len(self._ids) and limit >= self._reached[place] + _STEP
        return self._ids[place + is_gap]

    def forget(self, id_: int) -> None:
        """Forget the places before an id, whose samples are deleted."""
        place = bisect_right(self._ids, id_) - 1
        if place > 0:
            del self._ids[:place]
            del self._reached[:place]
