"""One instance per node: a resident program holds a lock file, and a second instance ends."""

import fcntl
import posix

_LONGEST_PID = 20


class RunningError(Exception):
    """Another instance serves this node; ``pid`` is its process, 0 if unknown."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"another instance is running{f', process {pid}' if pid else ''}")
        self.pid = pid


def only_instance(path: str) -> int:
    """Take the lock file ``path`` and return its descriptor, which holds the lock.

    Raises:
        RunningError: another process holds the lock.
        OSError: the file cannot be created.
    """
    fd = posix.open(path, posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = posix.pread(fd, _LONGEST_PID, 0).strip()
        posix.close(fd)
        raise RunningError(int(holder) if holder.isdigit() else 0) from None
    posix.ftruncate(fd, 0)
    posix.pwrite(fd, str(posix.getpid()).encode(), 0)
    return fd
