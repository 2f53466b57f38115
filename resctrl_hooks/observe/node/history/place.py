"""The place of the history's file: only root may have written it.

A damaged history is renamed, never deleted. A file of another program is refused and stays unchanged.
"""

import errno
import posix
import time

from ....core.node.host.files import (
    S_IFMT,
    S_IFREG,
    check_owner,
    is_folder,
    is_there,
    make_folder,
    read_beginning,
    remove_file,
)
from .tables import APPLICATION, DamagedError, ForeignError

_PRIVATE = 0o600
TYPE_CHECKING = False
if TYPE_CHECKING:
    Inode = tuple[int, int]

LOG_ENDING = "-wal"
"""The ending of SQLite's log."""
_BESIDE = (LOG_ENDING, "-shm")  # SQLite's own files
LOCK = ".lock"
"""The ending of the lock file, which stays."""
_SQLITE = b"SQLite format 3\0"
_HEADER = 105
_LEAF = b"\x0d"
_FIRST_PAGE = b"\0\0\0\1"
_MOST_LOG = 1 << 20


def claim(path: str) -> None:
    """Create the file if it does not exist, readable by root alone.

    Raises:
        ForeignError: the file is of another program.
        DamagedError: the file was a history, and is no database any more.
        OSError: a file or its folder is a link, or another user owns it or can write to it.
    """
    folder = path.rpartition("/")[0]
    make_folder(folder, 0o700)
    if not is_folder(folder):
        raise OSError(errno.ELOOP, "not a folder, or a link to one", folder)
    check_owner(posix.lstat(folder), folder)
    for file in (path, *(path + end for end in _BESIDE)):
        if is_there(file):
            found = posix.lstat(file)
            if found.st_mode & S_IFMT != S_IFREG:
                raise OSError(errno.ELOOP, "not a regular file", file)
            check_owner(found, file)
    fd = posix.open(path, posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC, _PRIVATE)
    try:
        header = posix.pread(fd, _HEADER, 0)
        if header and not header.startswith(_SQLITE) and is_there(path + LOCK):
            raise DamagedError(f"{path}: file is not a database")  # before SQLite applies a log to it
        if header and _is_foreign(header, path + LOG_ENDING):
            raise ForeignError(f"{path} is of another program")
        posix.fchmod(fd, _PRIVATE)
    finally:
        posix.close(fd)  # before SQLite opens it: a close ends all of a process's locks on a file


def _is_foreign(header: bytes, log: str) -> bool:
    """Return whether a file that begins so is neither a history nor one whose creation has not ended.

    Source: https://www.sqlite.org/fileformat.html, "The Database Header", "B-tree Pages" and "WAL Frame Header".
    """
    if not header.startswith(_SQLITE):
        return True
    application = _application(header)
    has_no_table = header[100:101] == _LEAF and header[103:105] == bytes(2)
    if application or not has_no_table:
        return application != APPLICATION
    try:
        fd = posix.open(log, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        frames = read_beginning(fd, _MOST_LOG)
    finally:
        posix.close(fd)
    size = 24 + int.from_bytes(frames[8:12], "big")
    whole = range(32, len(frames) - size + 1, size)
    pages = [frames[place + 24 :] for place in whole if frames[place : place + 4] == _FIRST_PAGE]
    return bool(pages) and APPLICATION not in map(_application, pages)


def _application(page: bytes) -> int:
    return int.from_bytes(page[68:72], "big")


def identity_of(path: str) -> "tuple[Inode | None, Inode | None]":
    """Return the devices and inodes of the file and of its log; None for one that does not exist.

    Raises:
        OSError: from the kernel.
    """
    return _inode(path), _inode(path + LOG_ENDING)


def _inode(path: str) -> "Inode | None":
    try:
        found = posix.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def remove_log(path: str) -> None:
    """Remove the log of a history that is no longer there, and its index.

    Raises:
        OSError: from the kernel.
    """
    for end in _BESIDE:
        remove_file(path + end)


def set_aside(path: str) -> str:
    """Rename a file that cannot be used, with SQLite's files first, and return its new path.

    Raises:
        OSError: it cannot be renamed.
    """
    stem = f"{path}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    new, number = stem, 1
    while is_there(new):
        number += 1
        new = f"{stem}-{number}"
    # A log that stayed would be applied to the next file.
    for end in (*_BESIDE, ""):
        if is_there(path + end):
            posix.rename(path + end, new + end)
    return new
