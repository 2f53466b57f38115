"""RMIDs and CLOSIDs: how they are given out, run out, and come back."""

import errno
from collections import deque
from collections.abc import Callable

from .errors import RefusedError


class Rmids:
    """The monitoring ids of a machine; 0 belongs to the root group.

    A freed id waits in limbo, since cache lines are still tagged with it; the id that has been free for longest is
    given out first.

    Args:
        count: How many there are.
        limbo: Seconds between `free` and being of use again.
        clock: Says the time in seconds.
    """

    def __init__(self, count: int, limbo: float, clock: Callable[[], float]) -> None:
        self._free = deque(range(1, count))
        self._limbo: deque[tuple[float, int]] = deque()
        self._seconds = limbo
        self._clock = clock

    def take(self) -> int:
        """Give out an id.

        Raises:
            RefusedError: ENOSPC if all are in use, EBUSY if some are in limbo.
        """
        now = self._clock()
        while self._limbo and self._limbo[0][0] <= now:
            self._free.append(self._limbo.popleft()[1])
        if self._free:
            return self._free.popleft()
        raise RefusedError(errno.EBUSY if self._limbo else errno.ENOSPC, "Out of RMIDs")

    def free(self, rmid: int) -> None:
        """Take an id back."""
        self._limbo.append((self._clock() + self._seconds, rmid))


class Closids:
    """The classes of service of a machine; 0 belongs to the root group. They have no limbo."""

    def __init__(self, count: int) -> None:
        self._free = set(range(1, count))

    def take(self) -> int:
        """Give out the lowest free id.

        Raises:
            RefusedError: ENOSPC if all are in use.
        """
        if not self._free:
            raise RefusedError(errno.ENOSPC, "Out of CLOSIDs")
        closid = min(self._free)
        self._free.remove(closid)
        return closid

    def free(self, closid: int) -> None:
        """Take an id back."""
        self._free.add(closid)
