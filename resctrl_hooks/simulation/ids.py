"""RMIDs and CLOSIDs: allocation, exhaustion and release."""

import errno
from collections import deque
from collections.abc import Callable

from .errors import RefusedError


class Rmids:
    """The RMIDs of a machine; 0 belongs to the root group.

    A freed RMID waits in limbo, since cache lines are still tagged with it; the one that has been free for longest is
    allocated first.

    Args:
        count: Their number.
        limbo: Seconds between `free` and reuse.
        clock: Returns the time in seconds.
    """

    def __init__(self, count: int, limbo: float, clock: Callable[[], float]) -> None:
        self._free = deque(range(1, count))
        self._limbo: deque[tuple[float, int]] = deque()
        self._seconds = limbo
        self._clock = clock

    def take(self) -> int:
        """Allocate an RMID.

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
        """Free an RMID."""
        self._limbo.append((self._clock() + self._seconds, rmid))


class Closids:
    """The classes of service of a machine; 0 belongs to the root group. They have no limbo."""

    def __init__(self, count: int) -> None:
        self._free = set(range(1, count))

    def take(self) -> int:
        """Allocate the lowest free CLOSID.

        Raises:
            RefusedError: ENOSPC if all are in use.
        """
        if not self._free:
            raise RefusedError(errno.ENOSPC, "Out of CLOSIDs")
        closid = min(self._free)
        self._free.remove(closid)
        return closid

    def free(self, closid: int) -> None:
        """Free a CLOSID."""
        self._free.add(closid)
