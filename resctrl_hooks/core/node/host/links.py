"""Links that lead from a changed ``stateDir`` to the present state directory.

`config apply` makes them, and records them in that directory. Any other link is refused: it could be redirected.
"""

import posix

from .files import read_small_file

PATHS = "paths"
"""The file of a state directory with the paths of the links to it, one a line."""
_LIMIT = 1 << 16


def folder_of(path: str) -> str:
    """Return the state directory that a link leads to; the path itself if it is no recorded link."""
    try:
        target = posix.readlink(path)
        known = read_small_file(f"{target}/{PATHS}", _LIMIT).decode("utf-8", "replace").splitlines()
    except OSError:
        return path
    return target if path in known else path
