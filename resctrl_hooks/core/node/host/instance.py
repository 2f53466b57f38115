"""One instance per node: a resident program holds a lock file, and a second instance ends."""

import fcntl
import posix

_LONGEST_PID, _LONGEST_OWNER = 20, 40


class RunningError(Exception):
    """Another instance serves this node; ``pid`` is its process, 0 if unknown, ``owner`` its name, maybe empty."""

    def __init__(self, pid: int, owner: str = "") -> None:
        super().__init__(f"{owner or 'another instance'} is running{f', process {pid}' if pid else ''}")
        self.pid = pid
        self.owner = owner


def only_instance(path: str, owner: str = "") -> int:
    """Take the lock file ``path`` and return its descriptor, which holds the lock.

    Several programs that share one lock give their name as ``owner``. It stands behind the process id, in a column
    that version 0.2.0 does not read.

    Raises:
        RunningError: another process holds the lock.
        OSError: the file cannot be created.
    """
    fd = posix.open(path, posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = posix.pread(fd, _LONGEST_PID, 0).strip()
        name = posix.pread(fd, _LONGEST_OWNER, _LONGEST_PID).decode("ascii", "replace")
        posix.close(fd)
        raise RunningError(int(holder) if holder.isdigit() else 0, name) from None
    posix.ftruncate(fd, 0)
    posix.pwrite(fd, f"{posix.getpid():<{_LONGEST_PID if owner else 0}}{owner}".encode(), 0)
    return fd
