"""Links that lead from a changed ``stateDir`` to the present state directory until the next boot.

`config apply` makes them. A foreign link is not followed: it could be redirected.
"""

import posix

from .files import S_IFDIR, S_IFLNK, S_IFMT


def is_own_link(path: str) -> bool:
    """Return whether a path is a link of this user to a folder of this user, or to nothing."""
    try:
        link = posix.lstat(path)
        if link.st_mode & S_IFMT != S_IFLNK or link.st_uid != posix.geteuid():
            return False
        found = posix.stat(path)
    except FileNotFoundError:
        return True  # its folder has ended with a boot
    return found.st_mode & S_IFMT == S_IFDIR and found.st_uid == posix.geteuid()


def folder_of(path: str) -> str:
    """Return the folder that a link leads to; the path itself if it is no link of this user."""
    try:
        return posix.readlink(path) if is_own_link(path) else path
    except OSError:
        return path


def replace_dangling(path: str, mode: int) -> bool:
    """Make a folder in place of a link of this user that leads to nothing; return whether the path is usable."""
    if not is_own_link(path):
        return False
    try:
        posix.stat(path)
    except FileNotFoundError:
        posix.unlink(path)
        posix.mkdir(path, mode)
    return True
