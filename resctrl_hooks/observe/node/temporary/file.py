"""The file of temporary changes, and the lock that each step holds."""

import fcntl
import posix
import time
from contextlib import contextmanager
from errno import EACCES, ENOSPC, EROFS

from ....core.node.errors import HookError
from ....core.node.host.files import format_json, read_file, remove_file, write_file
from ....core.node.host.procfs import boot_id
from ....core.node.host.state_file import parse
from ....core.node.shapes import Text, TypedDict
from .entry import Entry, EntryRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILE, LOCK = "temporary-values.json", "temporary-values.lock"
NAP = 0.02
_LIMIT = 1 << 20
_PATIENCE = 5.0
REMEDIES = {
    EACCES: "run the command as root",
    ENOSPC: "free space on its file system",
    EROFS: "it is read-only here: run the command on the host, outside of a container",
}
"""By the errno of a file that cannot be read or written."""


class _File(TypedDict):
    """The file's content: the changes by name."""

    entries: dict[Text, EntryRecord]


class TemporaryError(HookError):
    """A value cannot be changed for a time."""

    reason = "temporary-value"


@contextmanager
def locked(path: str, *, needed: bool = True) -> "Iterator[bool]":
    """Hold the lock; yield whether it is held, which is false only where it is not needed.

    Raises:
        TemporaryError: another process keeps it for too long.
        OSError: the lock's file cannot be opened.
    """
    fd = posix.open(path, posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC, 0o600)
    try:
        held, end = False, time.monotonic() + _PATIENCE
        while not held and time.monotonic() < end:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = True
            except BlockingIOError:
                time.sleep(NAP)
        if needed and not held:
            raise TemporaryError(f"another process holds {path}", hint="wait for its end")
        yield held
    finally:
        posix.close(fd)


def read_entries(path: str, proc: str) -> "dict[str, Entry]":
    """Return the changes of this boot by name.

    Raises:
        TemporaryError: the file is unreadable or damaged; it stays.
    """
    try:
        found = parse(read_file(path, _LIMIT, trusted=True), _File)["entries"]
    except FileNotFoundError:
        return {}
    except PermissionError as error:
        number = error.errno or 0
        raise TemporaryError(f"cannot read {path}", errno=number, hint=REMEDIES.get(number, "")) from error
    except (OSError, ValueError) as error:
        hint = "compare the values with the configuration, correct them, then remove the file"
        raise TemporaryError(f"cannot read the changed values in {path}: {error}", hint=hint) from error
    boot = boot_id(proc)
    # Another boot began with the kernel's own values.
    return {name: Entry(one) for name, one in found.items() if one["boot"] == boot}


def write_entries(path: str, entries: "Mapping[str, Entry]") -> None:
    """Write the changes, or remove the file without any.

    Raises:
        TemporaryError: the file cannot be written.
    """
    try:
        if not entries:
            remove_file(path)
            return
        write_file(path, format_json({"entries": {name: one.record for name, one in entries.items()}}), 0o600)
    except OSError as error:
        number = error.errno or 0
        raise TemporaryError(f"cannot write {path}", errno=number, hint=REMEDIES.get(number, "")) from error
