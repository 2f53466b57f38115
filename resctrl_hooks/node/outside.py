"""Work without the key's lock: programs such as systemctl take seconds, and the pod's other containers need the key.

The container's own lock is held instead, so that two processes never start and stop things for one container at once.
"""

import time

from . import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context
    from .locks import Lock
    from .resctrl.locked_key import LockedKey

_NAP = 0.01


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
                self._lock = self._ledger.lock_work(self._member)
                break
            except errors.LockTimeoutError:
                if time.monotonic() >= until:
                    raise
            self._locked.unlock()
            time.sleep(_NAP)
            self._locked.try_lock(self._patience)
        self._locked.unlock()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._locked.try_lock(self._patience)
        finally:
            if self._lock is not None:
                self._lock.__exit__()
