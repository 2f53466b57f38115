"""RMIDs and CLOSIDs: allocation, exhaustion and release."""

import errno
from collections import deque
from collections.abc import Callable

from .errors import RefusedError


class Rmids:
    """The RMIDs of a machine; 0 belongs to the root group.

    A freed RMID waits in limbo, since cache lines are still tagged with it; the one that has been free for longest is
    allocated first.

    On x86 every group can have every RMID. On Arm each class has its own, `of_class` consecutive ones (PMGs of a
    PARTID). Source: Linux 7.2, fs/resctrl/monitor.c, lines 205 to 229 (`resctrl_find_free_rmid`): a class without a
    free one gets ENOSPC, even with RMIDs in limbo, except when no class has a free one. Lines 329 to 352 (`free_rmid`):
    the RMID that is freed is the one of the group's class at that time.

    Args:
        count: Their number.
        limbo: Seconds between `free` and reuse.
        clock: Returns the time in seconds.
        of_class: RMIDs of each class; 0 where all classes share them.
    """

    def __init__(self, count: int, limbo: float, clock: Callable[[], float], of_class: int = 0) -> None:
        self._of_class = of_class
        self._free = deque(range(1, count))
        self._limbo: deque[tuple[float, int]] = deque()
        self._seconds = limbo
        self._clock = clock

    def take(self, closid: int) -> int:
        """Allocate an RMID for a group of a class.

        Raises:
            RefusedError: ENOSPC if all that the class can have are in use, EBUSY if none is free and some are in limbo.
        """
        now = self._clock()
        while self._limbo and self._limbo[0][0] <= now:
            self._free.append(self._limbo.popleft()[1])
        if not self._free:
            raise RefusedError(errno.EBUSY if self._limbo else errno.ENOSPC, "Out of RMIDs")
        rmid = next((rmid for rmid in self._free if not self._of_class or rmid // self._of_class == closid), None)
        if rmid is None:
            raise RefusedError(errno.ENOSPC, "Out of RMIDs")
        self._free.remove(rmid)
        return rmid

    def in_class(self, rmid: int, closid: int) -> int:
        """Return a group's RMID after a move into another class: the kernel changes the PARTID and keeps the PMG.

        The new RMID stays in the list of free ones, and the old one is not freed. Source: Linux 7.2,
        fs/resctrl/rdtgroup.c, lines 4150 to 4174 (`mongrp_reparent`).
        """
        return closid * self._of_class + rmid % self._of_class if self._of_class else rmid

    def in_limbo(self, closid: int) -> int:
        """Return how many RMIDs of a class are in limbo; 0 where all classes share them."""
        return sum(rmid // self._of_class == closid for _, rmid in self._limbo) if self._of_class else 0

    def free(self, rmid: int) -> None:
        """Free an RMID."""
        self._limbo.append((self._clock() + self._seconds, rmid))


class Closids:
    """The classes of service of a machine; 0 belongs to the root group. They have no limbo."""

    def __init__(self, count: int) -> None:
        self._free = set(range(1, count))

    def take(self, in_limbo: Callable[[int], int]) -> int:
        """Allocate the lowest free CLOSID of those with the fewest RMIDs in limbo.

        Source: Linux 7.2, fs/resctrl/monitor.c, lines 245 to 277 (`resctrl_find_cleanest_closid`).

        Raises:
            RefusedError: ENOSPC if all are in use.
        """
        if not self._free:
            raise RefusedError(errno.ENOSPC, "Out of CLOSIDs")
        closid = min(self._free, key=lambda closid: (in_limbo(closid), closid))
        self._free.remove(closid)
        return closid

    def free(self, closid: int) -> None:
        """Free a CLOSID."""
        self._free.add(closid)
