"""The locks of a state directory: files that stay, with an flock, which ends with its holder."""

import errno
import fcntl
import posix
import time

from . import errors
from .host.files import check_owner, is_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LOCKS = 32
_SHORTEST_NAP, _LONGEST_NAP = 0.0005, 0.01  # seconds


def lock_name(key: str) -> str:
    """Return the name of a key's lock. Two locks are taken in the order of their names.

    The hash is the polynomial of the key's bytes at 31. Its remainder by 32 locks is their alternating sum, because 31
    is -1 there.
    """
    data = key.encode("utf-8", "surrogatepass")
    return f"{(sum(data[-1::-2]) - sum(data[-2::-2])) % _LOCKS:02x}"


def open_lock(folder: str, path: str, prepare: "Callable[[], None]") -> int:
    """Return the descriptor of a lock's file below a state directory, which ``prepare`` creates.

    Raises:
        OSError: from the kernel, or others own the directory or can write to it (EPERM): root undoes the steps in its
            records.
    """
    flags = posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW
    try:
        check_owner(posix.stat(folder), folder)
    except FileNotFoundError:
        pass  # it will be created
    try:
        return posix.open(path, flags, 0o600)
    except FileNotFoundError:
        prepare()
        return posix.open(path, flags, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
    # Records mounted read-only can be locked too. A missing lock file means that there is no writer.
    return posix.open(path if is_there(path) else folder, posix.O_RDONLY | posix.O_NOFOLLOW)


class Lock:
    """An flock on one open file: it ends with ``with``, and with the process in any case."""

    def __init__(self, fd: int, path: str, patience: float) -> None:
        self._fd = fd
        end = time.monotonic() + patience
        nap = _SHORTEST_NAP
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                left = end - time.monotonic()
                if left <= 0:
                    posix.close(fd)
                    raise errors.LockTimeoutError(f"{path} was held for {patience:g} s", errno=errno.EAGAIN) from None
            time.sleep(nap)
            # A process that has waited long polls more often than new ones, and so does not starve.
            nap = max(_SHORTEST_NAP, min(nap * 2, _LONGEST_NAP * (left / patience) ** 2))

    def __enter__(self) -> "Lock":  # noqa: PYI034  # typing.Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        posix.close(self._fd)
