"""The locks of a state directory: an flock on an open file or folder, which ends with its holder.

A key's lock is on the folder of its records, which begins with the first holder and is removed by the last one. Named
locks are files that stay.
"""

import errno
import fcntl
import posix
import time
from _thread import get_ident

from . import errors
from .host.files import check_owner, is_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LOCKS = 32
_SHORTEST_NAP, _LONGEST_NAP = 0.0005, 0.01  # seconds
_PRIVATE = 0o700
_FOLDER = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW
_READ_ONLY = -1
UNWRITABLE = (errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Errors of a file system that can be read, but on which no file can be created."""
_held: "dict[int, Lock]" = {}
"""The locks of this process by their descriptors."""
_threads: "dict[str, int]" = {}
"""The threads of this process that hold keys, by the paths of these keys' folders."""


def lock_name(key: str) -> str:
    """Return the name of the file that versions until 0.2 lock for a key and for all others of its hash.

    The hash is the polynomial of the key's bytes at 31. Its remainder by 32 locks is their alternating sum, because 31
    is -1 there.
    """
    data = key.encode("utf-8", "surrogatepass")
    return f"{(sum(data[-1::-2]) - sum(data[-2::-2])) % _LOCKS:02x}"


def open_lock(folder: str, path: str, prepare: "Callable[[], None]", *, reads: bool = False) -> int:
    """Return the descriptor of a lock's file below a state directory, which ``prepare`` creates.

    With ``reads``, the holder needs no write: without space for the file, its folder is locked.

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
        try:
            prepare()
            return posix.open(path, flags, 0o600)
        except OSError as error:
            if not reads or error.errno not in UNWRITABLE:
                raise
    except OSError as error:
        if error.errno not in (UNWRITABLE if reads else (errno.EROFS,)):
            raise
    # Records mounted read-only can be locked too. A missing lock file means that there is no writer.
    for place in (path, path[: path.rfind("/")]):
        if is_there(place):
            return posix.open(place, posix.O_RDONLY | posix.O_NOFOLLOW)
    return posix.open(folder, posix.O_RDONLY | posix.O_NOFOLLOW)


class Lock:
    """An flock on one open file: it ends with ``with``, and with the process in any case.

    A forked child does not hold it. ``until`` is the end of the wait if other locks share its ``patience``. ``attempt``
    locks the descriptor without waiting, or raises BlockingIOError; by default, it locks the whole file.
    """

    def __init__(
        self,
        fd: int,
        path: str,
        patience: float,
        *,
        shared: bool = False,
        until: "float | None" = None,
        attempt: "Callable[[int], None] | None" = None,
    ) -> None:
        self._fd = fd
        try:
            operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            _wait(fd, operation, path, patience, time.monotonic() + patience if until is None else until, attempt)
            _held[fd] = self
        except BaseException:
            posix.close(fd)
            raise

    @property
    def is_held(self) -> bool:
        """Whether this process still holds it."""
        return _held.get(self._fd) is self

    def is_at(self, path: str) -> bool:
        """Return whether the locked file still has this path: another holder may have removed it."""
        try:
            found = posix.stat(path)
        except FileNotFoundError:
            return False
        mine = posix.fstat(self._fd)
        return (found.st_ino, found.st_dev) == (mine.st_ino, mine.st_dev)

    def __enter__(self) -> "Lock":  # noqa: PYI034  # typing.Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_held:
            del _held[self._fd]
            posix.close(self._fd)


def _wait(
    fd: int,
    operation: int,
    path: str,
    patience: float,
    until: float,
    attempt: "Callable[[int], None] | None",
) -> None:
    nap = _SHORTEST_NAP
    while True:
        try:
            if attempt is None:
                fcntl.flock(fd, operation | fcntl.LOCK_NB)
            else:
                attempt(fd)
            return
        except BlockingIOError:
            left = until - time.monotonic()
            if left <= 0:
                raise errors.LockTimeoutError(f"{path} was held for {patience:g} s", errno=errno.EAGAIN) from None
        time.sleep(nap)
        # A process that has waited long polls more often than new ones, and so does not starve.
        nap = max(_SHORTEST_NAP, min(nap * 2, _LONGEST_NAP * (left / patience) ** 2))


def _drop_locks() -> None:
    """Close a forked child's copies: an flock lasts until its last copy is closed."""
    for fd in _held:
        try:
            posix.close(fd)
        except OSError:
            continue  # the program has closed all descriptors before
    _held.clear()
    _threads.clear()


posix.register_at_fork(after_in_child=_drop_locks)


class KeyLock:
    """The lock of one key: that of its folder, and a share of the one that versions until 0.2 use for its hash.

    Holders of other keys share the latter, so it only excludes hooks of these versions during an upgrade or downgrade.
    """

    def __init__(self, folder: str, key: str, patience: float, prepare: "Callable[[], None]") -> None:
        self._path = path = f"{folder}/pods/{key}"
        earlier = f"{folder}/locks/{lock_name(key)}"
        until = time.monotonic() + patience
        self._locks = [Lock(open_lock(folder, earlier, prepare), earlier, patience, shared=True, until=until)]
        try:
            while True:
                fd = _open_folder(path)
                if fd == _READ_ONLY:
                    return
                own = Lock(fd, path, patience, until=until)
                self._locks.append(own)
                if own.is_at(path):
                    _threads[path] = get_ident()
                    return
                self._locks.pop().__exit__()  # the last holder has removed the folder
        except BaseException:
            self.__exit__()
            raise

    @property
    def is_held(self) -> bool:
        """Whether this process still holds it; false in a forked child."""
        return self._locks[-1].is_held

    def remove_folder(self) -> None:
        """Remove the key's folder if it is empty."""
        try:
            posix.rmdir(self._path)
        except OSError:
            pass  # it has records, or is read-only

    def __enter__(self) -> "KeyLock":  # noqa: PYI034  # as above
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_held:
            _threads.pop(self._path, None)
        for lock in self._locks:
            lock.__exit__()


def is_held_here(folder: str, key: str) -> bool:
    """Return whether this thread holds a key of a state directory, so that it would wait in vain."""
    return _threads.get(f"{folder}/pods/{key}") == get_ident()


def _open_folder(path: str) -> int:
    """Return a key's open folder, created if missing; _READ_ONLY for a missing one that cannot have a writer."""
    while True:
        try:
            return posix.open(path, _FOLDER)
        except FileNotFoundError:
            pass
        try:
            posix.mkdir(path, _PRIVATE)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            return _READ_ONLY
