"""Replacement of a file that survives a power failure: afterwards, it has the old content or the new content."""

import posix

from .files import remove_file
from .unfinished import DURABLE


def replace_file(path: str, data: bytes, mode: int) -> None:
    """Replace a file atomically and durably; root owns it.

    Raises:
        OSError: from the kernel; the previous file is unchanged.
    """
    folder, _, name = path.rpartition("/")
    temporary = f"{folder or '.'}/.{name}.{posix.getpid()}.{DURABLE}"
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW | posix.O_CLOEXEC
    fd = posix.open(temporary, flags, mode)
    try:
        try:
            posix.fchmod(fd, mode)  # independent of the umask; hooks refuse files that others can write
            if posix.geteuid() == 0:
                posix.fchown(fd, 0, 0)
            while data:
                data = data[posix.write(fd, data) :]
            posix.fsync(fd)
        finally:
            posix.close(fd)
        posix.rename(temporary, path)
    except BaseException:
        try:
            remove_file(temporary)
        except OSError:
            pass  # the first error is the cause
        raise
    sync_folder(folder or ".")


def sync_folder(folder: str) -> None:
    """Make the changes of a folder's entries durable."""
    fd = posix.open(folder, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
    try:
        posix.fsync(fd)
    finally:
        posix.close(fd)
