"""The version of the node's code in the state directory, for readers that do not see the code: the metrics' pod."""

import sys

from .host.files import read_small_file, write_file

FILE = "version"
_LIMIT = 1 << 12
_BEFORE, _AFTER = "node half, ", ";"  # the script's first line, by its installer


def note_version(folder: str) -> None:
    """Write the version of the script that started this program, if it is another one than noted.

    Errors are ignored: it is for readers only.
    """
    try:
        line = read_small_file(sys.argv[0], _LIMIT).partition(b"\n")[0].decode("ascii", "replace")
        version = line.partition(_BEFORE)[2].partition(_AFTER)[0]
        if version and version != read_version(folder):
            write_file(f"{folder}/{FILE}", version.encode(), 0o600)
    except (OSError, ValueError):
        return


def read_version(folder: str) -> str:
    """Return the version of the last reconcile; empty if unknown."""
    try:
        return read_small_file(f"{folder}/{FILE}", _LIMIT).decode("ascii", "replace")
    except (OSError, ValueError):
        return ""
