"""Unfinished files of killed writers, found by their names.

`files.write_file` names them ``NAME~PID``; files that survive a power failure are ``.NAME.PID.unfinished`` at first.
"""

import posix
import time

from .files import S_IFMT, S_IFREG, UNFINISHED, list_folder, remove_file
from .procfs import start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

DURABLE = "unfinished"
"""The ending of the latter. No runtime reads such files, and systemd has no such unit."""
_OLD = 60.0  # seconds; a write takes a fraction of one, and a writer's pid may belong to another namespace


def remove_unfinished(folder: str, proc: str, names: "Container[str] | None" = None) -> int:
    """Remove unfinished files of killed writers from a folder, and return their number.

    ``names`` are those of the finished files in a folder that other programs use too; None for all.

    Raises:
        OSError: from the kernel.
    """
    removed = 0
    for entry in list_folder(folder):
        name, pid = _unfinished(entry)
        if not name or not (names is None or name in names):
            continue
        path = f"{folder}/{entry}"
        if not start_time(proc, int(pid)) and _age(path) > _OLD:
            removed += remove_file(path)
    return removed


def _unfinished(entry: str) -> "tuple[str, str]":
    """Return the name of the finished file and the pid of its writer; empty texts for any other file."""
    name, mark, pid = entry.rpartition(UNFINISHED)
    if not mark and entry[0] == "." and entry.endswith(f".{DURABLE}"):
        name, mark, pid = entry[1 : -len(DURABLE) - 1].rpartition(".")
    return (name, pid) if mark and pid.isascii() and pid.isdecimal() else ("", "")


def _age(path: str) -> float:
    """Return the seconds since a file was written; 0 for anything that no writer of ours leaves, such as a folder."""
    try:
        found = posix.lstat(path)
    except OSError:
        return 0.0
    age = time.time() - found.st_mtime if found.st_mode & S_IFMT == S_IFREG else 0.0
    return age if age >= 0 else _OLD + 1  # the clock was set back
