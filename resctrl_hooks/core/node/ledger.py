"""The records of this program's effects on the node: files only, so that any process can undo another's work.

Layout of the state directory::

    locks/NAME          locks of the whole node; flock'ed, never unlinked
    locks/work          has a locked byte for each container for which a program may run (`outside`)
    locks/00 … 1f       shared by all holders of keys, by hash: versions until 0.2 lock keys with them
    pods/KEY/           the records of a key, and its lock: an flock on this folder
    pods/KEY/pod        the record of a key: its groups, its pod's cgroup
    pods/KEY/c-ID       the record of one member (container) of the key
    containers/ID       a symbolic link to "KEY", with which poststop finds the record
    idle/KEY            keys without a live member at the last check: a passing hook releases them
    waiting/KEY         keys that wait for an RMID
    rmids/RANK.TIME.KEY under sharing rules: holders of RMIDs, listed by one read of the folder
    changing/KEY        under sharing rules: keys in a handover
    prefix+PREFIX       exists for each prefix with which a group was recorded: `resctrl.group_names`
    totals/             data carried over the ends of groups (`carried`, `metrics.class_totals`), and their lock
    counters, class-counters   the same files by the names that version 0.2 reads (`totals_file`)
    calls, calls.old    a line for each call of a hook, which `call_metrics` counts
    short-of-counters   exists while a pod lacks an assignable bandwidth counter, as all flags: `flags`
    released-counters   bandwidth counters of classes' own groups that were released for pods
    limbo               touched when the kernel refused a pod all unused RMIDs, which are in limbo
    runtimes            how many groups container runtimes have created, by hour; exists if a container may have one
    vanished            how many groups of living pods another program removed, in all and by key
    searched            written by a hook that searched for dead keys in vain; others wait some seconds
    wake                touched when a pod starts to wait; a systemd path unit watches it

A record is written before what it describes is done, and replaced whole. It names its boot; another boot's is void.
"""

import errno
import posix
import time

from . import errors
from .host.files import (
    UNFINISHED,
    append_line,
    format_json,
    is_there,
    list_folder,
    make_folder,
    parse_json,
    read_small_file,
    remove_file,
    write_file,
)
from .locks import KeyLock, Lock, open_lock
from .names import default_key_validator, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .records import MemberRecord, PodRecord

    Attempt = Callable[[int], None]

_FORMAT, _PRIVATE = 1, 0o700
_LIMIT = _MOST_CALLS = 1 << 20
CALLS, RMIDS, CHANGING = "calls", "rmids", "changing"
IDLE, WAITING, LIMBO, RUNTIMES = "idle", "waiting", "limbo", "runtimes"
TOTALS = "totals"  # apart from the records, which only root can write: readers of counters write here only
_NAMES = ("namespace", "pod", "container")  # displayed fields of records
MEMBER = "c-"  # before a member's id in the name of its file
_shapes: "dict[str, Callable[[Any], bool]]" = {}  # of the kinds of records, after the first was read


class Ledger:
    """The records below one state directory.

    Raises:
        LedgerError: from every method, if the kernel refuses a read or write.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def lock(self, key: str, patience: float) -> "KeyLock":
        """Take a key's lock, waiting at most ``patience`` seconds; its folder exists from now on.

        Raises:
            LockTimeoutError: another process held it all that time.
        """
        try:
            return KeyLock(self.folder, key, patience, self.prepare)
        except OSError as error:
            raise errors.LedgerError.of_file(error, error.filename or f"{self.folder}/pods/{key}") from error

    def lock_named(
        self, name: str, patience: float, attempt: "Attempt | None" = None, *, reads: bool = False
    ) -> "Lock":
        """Take a lock of the whole node as `lock` a key's; ``attempt`` is as in `Lock`, ``reads`` in `open_lock`."""
        return self._lock_file(f"{self.folder}/locks/{name}", patience, attempt, reads=reads)

    def lock_totals(self, name: str, patience: float) -> "Lock":
        """Take the lock of a file of totals, which lies next to it; a reader of counters needs no space for it."""
        return self._lock_file(f"{self.folder}/{TOTALS}/{name}.lock", patience, None, reads=True)

    def _lock_file(self, path: str, patience: float, attempt: "Attempt | None", *, reads: bool) -> "Lock":
        try:
            return Lock(open_lock(self.folder, path, self.prepare, reads=reads), path, patience, attempt=attempt)
        except OSError as error:
            raise errors.LedgerError.of_file(error, error.filename or path) from error

    def prepare(self) -> None:
        """Create the state directory and its folders, private to root."""
        from .state_folders import make_folders  # once after each boot

        make_folders(self.folder)

    # Records of keys

    def keys(self) -> "list[str]":
        """Return every key that has a record."""
        return [name for name in self._names("pods") if default_key_validator(name)]

    def has_records(self, key: str) -> bool:
        """Return whether a key has any record; a key that was only held has none."""
        return bool(self._names(f"pods/{key}"))

    def read_pod(self, key: str) -> "PodRecord | None":
        """Return the record of a key; None if missing or damaged."""
        record: "PodRecord | None" = self._read(f"{self.folder}/pods/{key}/pod", "pod")
        return record

    def write_pod(self, key: str, record: "PodRecord") -> None:
        """Replace the record of a key."""
        self._write(key, "pod", record)

    def remove_pod(self, key: str) -> None:
        """Remove everything about a key: its markers, its members, its record, in that order.

        Its folder stays while the key is held, because it is the lock.
        """
        for folder in (IDLE, WAITING):
            self.unmark(folder, key)
        for member in self.members(key):
            self.remove_member(key, member)
        folder = f"{self.folder}/pods/{key}"
        try:
            for name in list_folder(folder):
                remove_file(f"{folder}/{name}")
        except OSError as error:
            raise errors.LedgerError.of_file(error, folder) from error

    # Records of members

    def members(self, key: str) -> "list[str]":
        """Return the members of a key."""
        names = self._names(f"pods/{key}")
        return [name[len(MEMBER) :] for name in names if name.startswith(MEMBER) and UNFINISHED not in name]

    def read_member(self, key: str, member: str) -> "MemberRecord | None":
        """Return the record of a member; None if missing or damaged."""
        record: "MemberRecord | None" = self._read(f"{self.folder}/pods/{key}/{MEMBER}{member}", "member")
        return record

    def write_member(self, key: str, member: str, record: "MemberRecord") -> None:
        """Replace the record of a member."""
        self._write(key, MEMBER + member, record)

    def remove_member(self, key: str, member: str) -> bool:
        """Remove a member's record and, if it still belongs to this key, its pointer. Return whether it existed."""
        path = f"{self.folder}/pods/{key}/{MEMBER}{member}"
        try:
            was_there = remove_file(path)
            if self.key_of(member) == key:
                remove_file(f"{self.folder}/containers/{member}")  # last, so that each record has a pointer
            return was_there
        except OSError as error:
            raise errors.LedgerError.of_file(error, path) from error

    # Pointers from containers to keys

    def key_of(self, container: str) -> str:
        """Return the key that a container belongs to, or an empty string."""
        if not default_key_validator(container):
            return ""  # possible in NRI events; such a container was never recorded
        try:
            key = posix.readlink(f"{self.folder}/containers/{container}")
        except PermissionError as error:
            raise errors.LedgerError.of_file(error, f"{self.folder}/containers") from error
        except OSError:
            return ""
        return key if default_key_validator(key) else ""

    def point(self, container: str, key: str) -> None:
        """Point from a container to its key. Written before the record itself."""
        path = f"{self.folder}/containers/{container}"
        try:
            while True:
                try:
                    posix.symlink(key, path)
                except FileExistsError:
                    if self.key_of(container) != key:
                        remove_file(path)  # unless another key, with a member of this name, does so now
                        continue
                return
        except OSError as error:
            raise errors.LedgerError.of_file(error, path) from error

    def containers(self) -> "list[str]":
        """Return every container with a pointer."""
        return self._names("containers")

    # Markers

    def mark(self, folder: str, key: str) -> None:
        """Mark a key as ``idle`` or ``waiting``, or create an empty file in another folder of markers."""
        path = self._mark(folder, key)
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_NOFOLLOW
        try:
            try:
                fd = posix.open(path, flags, 0o600)
            except FileNotFoundError:  # not every node needs all of these folders
                make_folder(f"{self.folder}/{folder}", _PRIVATE)
                fd = posix.open(path, flags, 0o600)
            posix.close(fd)
        except OSError as error:
            raise errors.LedgerError.of_file(error, path) from error

    def unmark(self, folder: str, key: str) -> bool:
        """Remove a mark, and return whether it existed."""
        path = self._mark(folder, key)
        try:
            return remove_file(path)
        except OSError as error:
            raise errors.LedgerError.of_file(error, path) from error

    def _mark(self, folder: str, key: str) -> str:
        """Return the path of a mark, whose name may come from a record."""
        if not default_key_validator(key):
            raise errors.LedgerError(f"invalid name of a file in {self.folder}/{folder}: {key[:80]!r}")
        return f"{self.folder}/{folder}/{key}"

    def marked(self, folder: str) -> "list[str]":
        """Return the keys that carry a mark."""
        return [key for key in self._names(folder) if default_key_validator(key)]

    def flagged(self, name: str) -> bool:
        """Return whether the flag file exists."""
        return is_there(f"{self.folder}/{name}")

    def wake(self) -> None:
        """Touch the file of the systemd path unit that starts reconcile at once."""
        try:
            write_file(f"{self.folder}/wake", b"")
        except OSError:
            pass  # the timer starts it

    def count_call(self, stage: str, seconds: float, reasons: "Iterable[str]" = (), key: str = "") -> None:
        """Append a line for one call: time, stage, microseconds, failure (``-`` for none), key.

        The file's size is limited if no reader folds it.
        """
        line = f"{int(time.time())} {stage} {int(seconds * 1e6)} {','.join(reasons) or '-'} {key or '-'}\n"
        try:
            append_line(f"{self.folder}/{CALLS}", line.encode("ascii", "replace"), _MOST_CALLS)
        except OSError:
            pass  # missing metrics must not fail a container

    def _names(self, folder: str) -> "list[str]":
        path = f"{self.folder}/{folder}"
        try:
            return list_folder(path)
        except OSError as error:
            raise errors.LedgerError.of_file(error, path) from error

    def _read(self, path: str, shape: str) -> "Any":
        try:
            record = parse_json(read_small_file(path, _LIMIT))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except OSError as error:
            raise errors.LedgerError.of_file(error, path) from error
        if not _shapes:
            from .records import RECORDS  # most calls of createRuntime find no record

            _shapes.update(RECORDS)
        # A newer version may add keys, but keeps those read here; another format is not readable here.
        if not (isinstance(record, dict) and record.get("format") == _FORMAT and _shapes[shape](record)):
            return None
        if not "".join([record.get(name, "") for name in _NAMES]).isprintable():
            record.update({name: printable(record[name]) for name in _NAMES if name in record})
        return record

    def _write(self, key: str, name: str, record: "PodRecord | MemberRecord") -> None:
        record["format"] = _FORMAT
        data = format_json(record)
        folder = f"{self.folder}/pods/{key}"
        if len(data) > _LIMIT:
            raise errors.LedgerError(f"{folder}/{name} would be too large to be read again", errno=errno.EFBIG)
        try:
            try:
                write_file(f"{folder}/{name}", data)
            except FileNotFoundError:
                posix.mkdir(folder, _PRIVATE)
                write_file(f"{folder}/{name}", data)
        except OSError as error:
            raise errors.LedgerError.of_file(error, f"{folder}/{name}") from error
