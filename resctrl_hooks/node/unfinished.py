"""Files that somebody was writing when killed: `files.write_file` names them after the writer's pid."""

import posix
import time

from .files import UNFINISHED, list_folder, remove_file
from .process import start_time

_OLD = 60.0  # seconds; a write takes a fraction of one, and a writer's pid may be one of another namespace


def remove_unfinished(folder: str, proc: str) -> int:
    """Removes those of a folder whose writer is gone, and returns how many these were."""
    removed = 0
    for name in list_folder(folder):
        _, mark, pid = name.rpartition(UNFINISHED)
        if mark and pid.isdecimal() and not start_time(proc, int(pid)) and _age(f"{folder}/{name}") > _OLD:
            removed += remove_file(f"{folder}/{name}")
    return removed


def _age(path: str) -> float:
    try:
        return time.time() - posix.lstat(path).st_mtime
    except OSError:
        return 0.0
