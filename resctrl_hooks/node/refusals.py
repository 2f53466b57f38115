"""Which containers were refused, when and why: a few lines in the state directory, for whoever asks later.

A runtime tells its caller that a hook failed. runc adds what the hook said; crun adds the exit status alone.
"""

import posix
import time

from .errors import HookError
from .host.files import format_json, make_folder, parse_json, read_file
from .names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .records import RefusalRecord

FILE = "refusals"
OLD = f"{FILE}.old"
_LARGEST = 32 << 10  # bytes, of each of the two files
_LONGEST = 500  # characters
_PRIVATE = 0o700
_SEEK_END = 2  # only os names it
_LIMIT = 1 << 20


class RefusedError(HookError):
    """A step failed whose feature's policy is ``fail``: the container must not start."""

    reason = "refused"


_SHOWN = frozenset(("namespace", "pod", "container", "id", "why"))
REASON = RefusedError.reason  # in the figures about calls


def record_refusal(folder: str, names: "dict[str, str]", why: str) -> None:
    """Add a line for a container: its names, and why. The oldest lines go when there are too many.

    A line is appended whole, so no lock is needed; of two hooks that turn the file over at once one may lose lines.
    """
    line = format_json({"time": int(time.time()), **names, "why": why[:_LONGEST]}) + b"\n"
    path = f"{folder}/{FILE}"
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW
    try:
        make_folder(folder, _PRIVATE)  # the first container of a boot may be refused before anything is recorded
        fd = posix.open(path, flags, 0o600)
        try:
            if posix.lseek(fd, 0, _SEEK_END) + len(line) > _LARGEST:
                posix.rename(path, f"{folder}/{OLD}")
                posix.close(fd)
                fd = posix.open(path, flags, 0o600)
            posix.write(fd, line)
        finally:
            posix.close(fd)
    except OSError:
        pass  # it is in the log; what can't be kept changes nothing of the refusal


def recent_refusals(folder: str) -> "list[RefusalRecord]":
    """What was refused lately, the latest last: ``time``, ``namespace``, ``pod``, ``container``, ``id``, ``why``."""
    found: "list[RefusalRecord]" = []
    for name in (OLD, FILE):
        try:
            lines = read_file(f"{folder}/{name}", _LIMIT).splitlines()
        except OSError:
            continue  # there were none, or whoever asks may not read it
        for line in lines:
            try:
                value: "Any" = parse_json(line)
            except ValueError:
                continue  # of a hook that was killed
            whole = isinstance(value, dict) and isinstance(value.get("time"), int)
            if whole:
                for field in _SHOWN & value.keys():
                    value[field] = printable(str(value[field]))
                found.append(value)
    return found
