"""The file descriptors that this process keeps open: one budget for all of its parts.

Performance events count only while they are open. Counter files can also be opened for each read. So files give way to
events, and both leave a reserve for everything else: connections, databases, locks, logs. One thread uses the budget.
"""

import errno
import resource
import sys
from _weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Yielding(Protocol):
        """A holder that can do without descriptors."""

        @property
        def held(self) -> int:
            """The number of descriptors that it holds."""

        def give_way(self, number: int) -> None:
            """Close at least so many descriptors, as far as there are any."""


RESERVE = 128
"""Descriptors for everything that takes none from the budget."""
LACKING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""The kernel has no descriptor now."""
_SPARE = 64  # descriptors to close after a refusal: the reserve was too small
_STEP = 1024  # the soft limit grows by multiples of it


class Descriptors:
    """A budget of descriptors below RLIMIT_NOFILE.

    The soft limit grows with the need up to the hard limit.

    Args:
        reserve: the number that is not in the budget.
    """

    def __init__(self, reserve: int = RESERVE) -> None:
        self._reserve = reserve
        self._ceiling = sys.maxsize
        self._yielding: "list[ref[Yielding]]" = []
        self.held = 0
        """The number of taken descriptors."""

    @property
    def room(self) -> int:
        """The number of descriptors that others can still take first."""
        return max(self._left(0) + sum(holder.held for holder in self._holders()), 0)

    def let_yield(self, holder: "Yielding") -> None:
        """Note a holder that gives way, until it does not exist any more."""
        self._yielding = [*(one for one in self._yielding if one() is not None), ref(holder)]

    def set_aside(self, number: int) -> None:
        """Add to the reserve; a negative number takes from it. Holders give way as far as needed."""
        self._reserve += number
        self._yield(-self._left(0))

    def take(self, number: int, *, first: bool = False) -> bool:
        """Take descriptors and return True, or return False if they do not fit.

        ``first``: other holders give way if that is enough.
        """
        if first:
            lacking = number - self._left(number)
            if lacking > sum(holder.held for holder in self._holders()):
                return False  # no file gives way in vain
            self._yield(lacking)
        elif number > min(self._left(number), self._ceiling - self.held):
            return False
        self.held += number
        return True

    def give(self, number: int) -> None:
        """Return descriptors that were taken; they are closed."""
        self.held -= number

    def refused(self) -> None:
        """Adapt to the kernel's refusal of a descriptor that the budget has given: others hold more than the reserve.

        Holders give way, and until `renew` they take no more.
        """
        self._ceiling = max(min(self._ceiling, self.held) - _SPARE, 0)
        self._yield(self.held - self._ceiling)

    def renew(self) -> None:
        """Let holders take descriptors again that others have returned since a refusal, and obey a lower limit."""
        self._ceiling = sys.maxsize
        self._yield(-self._left(0))

    def _holders(self) -> "list[Yielding]":
        return [holder for holder in [one() for one in self._yielding] if holder is not None]

    def _yield(self, number: int) -> None:
        """Let holders close so many descriptors, as far as they have them."""
        for holder in self._holders():
            if number > 0:
                before = holder.held
                holder.give_way(number)
                number -= before - holder.held

    def _left(self, number: int) -> int:
        """Return how many descriptors the limit leaves, after an attempt to have so many."""
        return _limit(self.held + self._reserve + number) - self._reserve - self.held


def _limit(number: int) -> int:
    """Return the soft limit, which is raised to this number if the hard limit allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    if number <= soft or hard == soft:
        return soft
    more = -(-number // _STEP) * _STEP
    more = more if hard == resource.RLIM_INFINITY else min(more, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
    except (OSError, ValueError):  # above fs.nr_open
        return soft
    return more


_OF_PROCESS = Descriptors()


def of_process() -> Descriptors:
    """Return the budget of this process."""
    return _OF_PROCESS
