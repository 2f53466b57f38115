"""Evidence that resctrl was mounted again, after which groups have the identities of earlier ones.

kernfs begins its inode numbers again with each mount, and the device number is used again. The times of the folders are
new: kernfs sets them when it mounts, and for other folders than the root when it loads them after its caches were
dropped. A change of permissions sets the root's time too. Measured on Linux 7.2.
"""

import posix

_OTHERS = ("info", "mon_data")


def witnesses(root: str, before: "list[str]") -> "tuple[list[str], bool]":
    """Return the times of a mount's folders, and whether it is certainly the same mount as before.

    Args:
        root: the mount point.
        before: the result of the last call; empty at the first one.
    """
    time = _time_of(root)
    if before and before[0] == time:
        return before, True
    found = [time, *(_time_of(f"{root}/{name}") for name in _OTHERS)]
    return found, is_same_mount(found, before)


def is_same_mount(found: "list[str]", before: "list[str]") -> bool:
    """Return whether two results of `witnesses` certainly are of the same mount; the first one may be empty."""
    return not before or any(one and one == other for one, other in zip(found, before))


def _time_of(folder: str) -> str:
    try:
        found = posix.stat(folder)
    except OSError:
        return ""
    return f"{found.st_dev:x}:{found.st_ctime_ns:x}"
