"""Work without the key's lock: programs such as systemctl take seconds, and the pod's other containers need the key.

The container's own lock is held instead, so that two processes never start and stop things for one container at once.
It is one byte of a file that all containers share.
"""

import fcntl
import sys
import time

from . import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context
    from .locks import Lock
    from .resctrl.locked_key import LockedKey

_NAP = 0.01
_WORK = "work"
_SEEK_SET = 0  # only os defines it
_PRIME = (1 << 61) - 1


class Outside:
    """A block in which a container's lock is held instead of its key's.

    The key must be held before, and is held again afterwards with its record read again, unless the block fails. Look
    at the container's record within the block: another process may have ended its work for it just now.

    Raises:
        LockTimeoutError: another process works for the container, or holds the key, for longer than the monitor's
            patience.
    """

    def __init__(self, locked: "LockedKey", member: str, context: "Context") -> None:
        self._locked = locked
        self._member = member
        self._ledger = context.ledger
        self._patience = context.monitor.patience
        self._lock: "Lock | None" = None

    def __enter__(self) -> "Outside":  # noqa: PYI034  # typing.Self is of Python 3.11
        until = time.monotonic() + self._patience
        while True:
            try:
                self._lock = self._ledger.lock_named(_WORK, 0, self._attempt)
                break
            except errors.LockTimeoutError:
                if time.monotonic() >= until:
                    raise
            self._locked.unlock()
            time.sleep(_NAP)
            self._locked.try_lock(self._patience)
        self._locked.unlock()
        return self

    def _attempt(self, fd: int) -> None:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _one_byte(place_of(self._member)))

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._locked.try_lock(self._patience)
        finally:
            if self._lock is not None:
                self._lock.__exit__()


def _one_byte(place: int) -> bytes:
    """Return an exclusive lock of one byte as a ``struct flock`` (fcntl(2), "Open file description locks").

    The byte need not exist.
    """
    fields = ((fcntl.F_WRLCK, 2), (_SEEK_SET, 2), (0, 4), (place, 8), (1, 8), (0, 8))
    return b"".join([value.to_bytes(size, sys.byteorder) for value, size in fields])


def place_of(name: str) -> int:
    """Return the place of a name in a file of locks: two names have the same one practically never."""
    return int.from_bytes(name.encode("utf-8", "surrogatepass"), "big") % _PRIME
