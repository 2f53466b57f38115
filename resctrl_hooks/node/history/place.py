"""The place of the history's file: only root may have written it, and a damaged file is renamed, never deleted."""

import errno
import posix
import time

from ..host.files import S_IFMT, S_IFREG, check_owner, is_folder, is_there, make_folder

_PRIVATE = 0o600
_BESIDE = ("-wal", "-shm")  # SQLite's own files


def claim(path: str) -> None:
    """Create the file if it does not exist, readable by root alone.

    Raises:
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
        posix.fchmod(fd, _PRIVATE)
    finally:
        posix.close(fd)  # before SQLite opens it: a close ends all of a process's locks on a file


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
