"""Replacement of a file that survives a power failure: afterwards, it has the old content or the new content."""

import contextlib
import os

from resctrl_hooks.node.host.unfinished import DURABLE


def replace_file(path: str, data: bytes, mode: int) -> None:
    """Replace a file atomically and durably; root owns it.

    Raises:
        OSError: from the kernel; the previous file is unchanged.
    """
    folder, name = os.path.split(path)
    temporary = f"{folder or '.'}/.{name}.{os.getpid()}.{DURABLE}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)  # independent of the umask; hooks refuse files that others can write
            if os.geteuid() == 0:
                os.fchown(fd, 0, 0)
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(folder or ".")


def sync_folder(folder: str) -> None:
    """Make the changes of a folder's entries durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
