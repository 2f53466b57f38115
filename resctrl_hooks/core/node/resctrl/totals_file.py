"""The files of totals: where each version keeps them, and the newest of these as the one to continue.

Version 0.2 reads and writes them in the state directory itself, later ones below it. This version writes one file with
two names, so that the totals continue after a downgrade too; a version that writes its own replaces only one name.
"""

import posix
import time

from ..errors import LedgerError
from ..host.files import ASIDE, UNFINISHED, format_json, is_there, parse_json, read_file, write_file
from ..ledger import TOTALS
from ..log import ERROR
from ..retried import Retried
from ..shapes import fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..ledger import Ledger
    from ..log import LogCallable

    Stamp = list[tuple[int, int, int]]

KEYS, CLASSES = "counters", "class-counters"
"""The names of the files: the totals of keys, and those of classes."""
LOCK = "counters"  # of both
_FORMAT = 1
_LIMIT = 64 << 20
_SAVED_AT = "saved"  # the field with the time of writing in seconds since the boot; not in version 0.2
_HEAD = 256
_SAVED: "dict[tuple[str, str, str], tuple[Stamp, Any]]" = {}
"""What this process saved last, or could not save, by folder, boot and name."""
_SAVING: "dict[tuple[str, str], Retried]" = {}
"""By folder and name: whether a reader of counters can save."""


def take_saved(ledger: "Ledger", boot: str, name: str) -> "Any":
    """Return and forget what this process saved last; None if another process has replaced the file."""
    stamp, content = _SAVED.pop((ledger.folder, boot, name), ([], None))
    return content if stamp == _stamp_of(ledger, name) else None


def unsaved(ledger: "Ledger") -> "str":
    """Return why this process keeps totals in memory only; empty if it has saved them."""
    return next((_SAVING[one].why for one in _SAVING if one[0] == ledger.folder and _SAVING[one].why), "")


def _stamp_of(ledger: "Ledger", name: str) -> "Stamp":
    """Return the identity of a file's content: a later write by any version changes it."""
    found = []
    for path in _places(ledger, name):
        try:
            state = posix.stat(path)
        except OSError:
            continue
        found.append((state.st_ino, state.st_mtime_ns, state.st_size))
    return found


def load_totals(ledger: "Ledger", boot: str, name: str, kind: "Any", log: "LogCallable") -> "dict[str, Any]":
    """Return the fields of the newest undamaged file of this boot; a field that it lacks is that of the older one.

    ``kind`` is the type of the file's record.
    The clock may have been set, so the times of files only count where a version wrote no other.

    Raises:
        LedgerError: it is unreadable.
    """
    found: "dict[tuple[int, int], dict[str, Any]]" = {}
    damaged = False
    for path in _places(ledger, name):
        try:
            state = posix.stat(path)
            key = state.st_mtime_ns, state.st_ino
            value = {} if key in found else parse_json(read_file(path, _LIMIT))
        except FileNotFoundError:
            continue
        except ValueError:
            damaged = _set_aside(ledger, name, path, key) or damaged
            continue
        except OSError as error:
            raise LedgerError.of_file(error, path) from error
        if not isinstance(value, dict):
            damaged = _set_aside(ledger, name, path, key) or damaged
        elif (value.get("format"), value.get("boot")) == (_FORMAT, boot):
            if fits(kind, value):
                found[key] = value
            else:
                damaged = _set_aside(ledger, name, path, key) or damaged
    fields: "dict[str, Any]" = {}
    by_clock = any(_SAVED_AT not in value for value in found.values())
    for _, value in sorted(found.items(), key=lambda one: (0 if by_clock else one[1][_SAVED_AT], one[0])):
        fields.update(value)
    if damaged:
        what = "continue from an older file" if fields else "begin again"
        log(ERROR, f"damaged totals are set aside as {_aside(ledger, name)}; counters {what}", stage="totals")
    return fields


def _set_aside(ledger: "Ledger", name: str, path: str, key: "tuple[int, int]") -> bool:
    """Keep a damaged file for `doctor` under another name, and return whether it has that now.

    A reader of counters may lack the permission. ``key`` is the file's time and inode: a reader without the lock must
    not set aside what was written since.
    """
    try:
        state = posix.stat(path)
        if (state.st_mtime_ns, state.st_ino) == key:
            posix.rename(path, _aside(ledger, name))
            return True
    except OSError:
        pass
    return False


def _aside(ledger: "Ledger", name: str) -> str:
    return _places(ledger, name)[0] + ASIDE


def save_totals(ledger: "Ledger", boot: str, name: str, fields: "dict[str, Any]", content: "Any") -> None:
    """Replace a file.

    Args:
        ledger: the state directory.
        boot: the present boot.
        name: the file.
        fields: what is written.
        content: what `take_saved` returns, so that this process need not read the file again.

    Raises:
        LedgerError: it can't be written.
    """
    path, earlier = _places(ledger, name)
    saved = round(time.clock_gettime(time.CLOCK_BOOTTIME), 6)
    data = format_json({"format": _FORMAT, "boot": boot, _SAVED_AT: saved, **fields})
    was_shared = _is_same(path, earlier)
    try:
        try:
            write_file(path, data)
        except FileNotFoundError:
            ledger.prepare()  # a lock on a read-only directory creates none
            write_file(path, data)
    except OSError as error:
        raise LedgerError.of_file(error, error.filename or path) from error
    share_with_earlier(ledger, name, outdated=was_shared)
    _SAVED[ledger.folder, boot, name] = _stamp_of(ledger, name), content


def save_or_keep(
    ledger: "Ledger", boot: str, name: str, content: "Any", fields: "Callable[[], dict[str, Any]]", log: "LogCallable"
) -> None:
    """Replace a file, for a reader of counters; while it cannot be written, `take_saved` continues with the content.

    ``fields`` returns what is written, if a write is tried.
    """
    saving = _SAVING.get((ledger.folder, name))
    if saving is None:
        saving = _SAVING[ledger.folder, name] = Retried(
            lambda priority, text: log(priority, text, stage="totals"),
            f"totals of {name} are only in this process's memory",
            f"totals of {name} are saved again",
        )
    if not saving.attempt(lambda: save_totals(ledger, boot, name, fields(), content)):
        _SAVED[ledger.folder, boot, name] = _stamp_of(ledger, name), content


def share_with_earlier(ledger: "Ledger", name: str, *, outdated: bool = False) -> None:
    """Give a file the name by which version 0.2 reads it, unless that version has written a newer one.

    ``outdated``: the file with that name is known to be older.
    Readers of counters may lack the permission. Reconcile, which has it, does so in each pass.
    """
    path, earlier = _places(ledger, name)
    unfinished = f"{earlier}{UNFINISHED}{posix.getpid()}"
    try:
        if not outdated and is_there(earlier) and (_is_same(path, earlier) or _is_newer(earlier, path)):
            return
        posix.link(path, unfinished)
        posix.rename(unfinished, earlier)
    except OSError:
        pass


def _is_same(path: str, other: str) -> bool:
    try:
        return posix.stat(path).st_ino == posix.stat(other).st_ino
    except OSError:
        return False


def _is_newer(path: str, other: str) -> bool:
    """Return whether a file was written after another one; raises OSError if one cannot be read."""
    one, before = _saved_at(path), _saved_at(other)
    if one and before:
        return one > before
    return posix.stat(path).st_mtime_ns > posix.stat(other).st_mtime_ns


def _saved_at(path: str) -> float:
    """Return when a file was written, in seconds since the boot; 0 if it has no time."""
    with open(path, "rb") as file:
        value = file.read(_HEAD).partition(f'"{_SAVED_AT}": '.encode())[2].partition(b",")[0]
    try:
        return float(value)
    except ValueError:
        return 0.0


def _places(ledger: "Ledger", name: str) -> "tuple[str, str]":
    return f"{ledger.folder}/{TOTALS}/{name}", f"{ledger.folder}/{name}"
