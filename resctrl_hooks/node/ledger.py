"""What we did to the node, on disk: files only, so that any process can undo what another did, and none must agree.

Layout of the state directory::

    locks/00 … 1f       what keys hash to; flock'ed, never unlinked
    pods/KEY/pod        the record of a key: its groups, its pod's cgroup
    pods/KEY/c-ID       the record of one member (container) of the key
    containers/ID       a symbolic link that says "KEY": where poststop, which knows little, finds its way back
    idle/KEY            keys that had no live member when somebody last looked: what a passing hook reaps
    waiting/KEY         keys that want a group and got no RMID
    rmids/RANK.TIME.KEY where RMIDs are shared by rules: keys that hold one, to be seen by one look at the folder
    changing/KEY        where RMIDs are shared by rules: keys that get or give an RMID just now
    totals/             what is carried over the ends of groups (`carried`, `metrics.class_totals`), and their locks
    calls, calls.old    a line for each call of a hook, which `call_metrics` counts
    short-of-counters   there while a pod lacks a bandwidth counter, where the kernel assigns them
    vanished            how many groups of living pods another program removed, in all and by key
    searched            made by a hook that looked for dead keys in vain; others don't for some seconds
    wake                touched when somebody starts to wait; a systemd path unit looks at it

A record is written before what it describes is done, and each is replaced whole. Records name the boot they belong to;
another boot's are void.
"""

import errno
import fcntl
import posix
import time

from . import errors
from .host.files import (
    UNFINISHED,
    check_owner,
    format_json,
    is_folder,
    is_there,
    list_folder,
    make_folder,
    parse_json,
    read_small_file,
    remove_file,
    write_file,
)
from .names import default_key_validator, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .records import MemberRecord, PodRecord

_LOCKS = 32
_FORMAT = 1
_LIMIT = 1 << 20
_MOST_CALLS = 1 << 20
_SEEK_END = 2  # only os names it
CALLS = "calls"
RMIDS = "rmids"
CHANGING = "changing"
TOTALS = "totals"  # apart from the records, which obey nobody but root: who reads counters writes here alone
_FOLDERS = ("pods", "containers", "idle", "waiting", TOTALS, "locks")  # locks last: where it is, the others are
_NAMES = ("namespace", "pod", "container")  # fields of records that are shown
_PATHS = ("cgroup", "podCgroup", "bundle")  # fields of records that are opened
_MEMBER = "c-"
_SHORTEST_NAP, _LONGEST_NAP = 0.0005, 0.01  # seconds
_PRIVATE = 0o700


def lock_name(key: str) -> str:
    """Return the name of the lock that a key hashes to. Whoever takes two takes them in the order of their names."""
    number = 0
    for letter in key.encode("utf-8", "surrogatepass"):
        number = (number * 31 + letter) & 0xFFFFFFFF
    return f"{number % _LOCKS:02x}"


class Ledger:
    """The records below one state directory.

    Raises:
        LedgerError: from every method, where the kernel refuses a read or write.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def lock(self, key: str, patience: float) -> "Lock":
        """Take the lock that ``key`` hashes to, waiting at most ``patience`` seconds.

        Raises:
            LockTimeoutError: somebody held it all that time.
        """
        return self.lock_named(lock_name(key), patience)

    def lock_named(self, name: str, patience: float) -> "Lock":
        """Take the lock of this name: one of the keys', or one that a feature keeps for the whole node."""
        return self._lock_file(f"{self.folder}/locks/{name}", patience)

    def lock_totals(self, name: str, patience: float) -> "Lock":
        """Take the lock of a file of totals, beside it."""
        return self._lock_file(f"{self.folder}/{TOTALS}/{name}.lock", patience)

    def _lock_file(self, path: str, patience: float) -> "Lock":
        try:
            self._check_owner()
            return Lock(self._open_lock(path), path, patience)
        except OSError as error:
            raise errors.LedgerError.of_file(error, error.filename or path) from error

    def _check_owner(self) -> None:
        """Refuse a folder that others own or can write: root undoes what its records say."""
        try:
            check_owner(posix.stat(self.folder), self.folder)
        except FileNotFoundError:
            pass  # it will be made

    def _open_lock(self, path: str) -> int:
        flags = posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW
        try:
            return posix.open(path, flags, 0o600)
        except FileNotFoundError:
            self.prepare()
            return posix.open(path, flags, 0o600)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
        # Records that are mounted read-only can be locked all the same. What nobody has locked yet nobody writes.
        return posix.open(path if is_there(path) else self.folder, posix.O_RDONLY | posix.O_NOFOLLOW)

    def prepare(self) -> None:
        """Make the state directory and its folders, for root alone."""
        for path in (self.folder, *(f"{self.folder}/{name}" for name in _FOLDERS)):
            if not make_folder(path, _PRIVATE) and not is_folder(path):
                raise FileExistsError(errno.EEXIST, "not a folder", path)  # a link perhaps, which others could redirect

    # Records of keys

    def keys(self) -> "list[str]":
        """Return every key that has a record."""
        return [name for name in self._names("pods") if default_key_validator(name)]

    def read_pod(self, key: str) -> "PodRecord | None":
        """Return the record of a key, or None if there is none or it is damaged."""
        record: "PodRecord | None" = self._read(f"{self.folder}/pods/{key}/pod")
        return record

    def write_pod(self, key: str, record: "PodRecord") -> None:
        """Replace the record of a key."""
        self._write(key, "pod", record)

    def remove_pod(self, key: str) -> None:
        """Remove all that is known of a key: its markers, its members, its record, in that order."""
        for folder in ("idle", "waiting"):
            self.unmark(folder, key)
        for member in self.members(key):
            self.remove_member(key, member)
        folder = f"{self.folder}/pods/{key}"
        try:
            for name in list_folder(folder):
                remove_file(f"{folder}/{name}")
            posix.rmdir(folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise errors.LedgerError.of_file(error, folder) from error

    # Records of members

    def members(self, key: str) -> "list[str]":
        """Return the members of a key."""
        names = self._names(f"pods/{key}")
        return [name[len(_MEMBER) :] for name in names if name.startswith(_MEMBER) and UNFINISHED not in name]

    def read_member(self, key: str, member: str) -> "MemberRecord | None":
        """Return the record of a member, or None if there is none or it is damaged."""
        record: "MemberRecord | None" = self._read(f"{self.folder}/pods/{key}/{_MEMBER}{member}")
        return record

    def has_member(self, key: str, member: str) -> bool:
        """Return whether a member has a record, whatever that says."""
        return is_there(f"{self.folder}/pods/{key}/{_MEMBER}{member}")

    def write_member(self, key: str, member: str, record: "MemberRecord") -> None:
        """Replace the record of a member."""
        self._write(key, _MEMBER + member, record)

    def remove_member(self, key: str, member: str) -> bool:
        """Forget a member and, if it is still this key's, where it was found. Says whether there was one."""
        path = f"{self.folder}/pods/{key}/{_MEMBER}{member}"
        try:
            was_there = remove_file(path)
            if self.key_of(member) == key:
                remove_file(f"{self.folder}/containers/{member}")  # last: so that each record is pointed at
            return was_there
        except OSError as error:
            raise errors.LedgerError.of_file(error, path) from error

    # Where a container's records are

    def key_of(self, container: str) -> str:
        """Return the key that a container belongs to, or an empty string."""
        if not default_key_validator(container):
            return ""  # such as NRI may name: none was recorded
        try:
            key = posix.readlink(f"{self.folder}/containers/{container}")
        except PermissionError as error:
            raise errors.LedgerError.of_file(error, f"{self.folder}/containers") from error
        except OSError:
            return ""
        return key if default_key_validator(key) else ""

    def point(self, container: str, key: str) -> None:
        """Say where a container's record will be. Written before the record itself."""
        path = f"{self.folder}/containers/{container}"
        try:
            try:
                posix.symlink(key, path)
            except FileExistsError:
                if self.key_of(container) != key:
                    posix.unlink(path)
                    posix.symlink(key, path)
        except OSError as error:
            raise errors.LedgerError.of_file(error, path) from error

    def containers(self) -> "list[str]":
        """Return every container that is pointed at."""
        return self._names("containers")

    def forget(self, container: str) -> None:
        """Remove the pointer of a container whose record is gone."""
        remove_file(f"{self.folder}/containers/{container}")

    def forget_unusable(self, container: str) -> None:
        """Remove a pointer to what can be no key. One that isn't there may just be being written anew, and stays."""
        path = f"{self.folder}/containers/{container}"
        try:
            usable = default_key_validator(posix.readlink(path))
        except FileNotFoundError:
            return
        except OSError:
            usable = False
        if not usable:
            remove_file(path)

    # Markers

    def mark(self, folder: str, key: str) -> None:
        """Mark a key as ``idle`` or ``waiting``, or put a name into another folder of empty files."""
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
        """Take a mark away, and say whether there was one."""
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

    def flag(self, name: str, *, on: bool) -> None:
        """Make or remove a file of the state directory that says something of the whole node."""
        path = f"{self.folder}/{name}"
        try:
            if not on:
                remove_file(path)
            elif not is_there(path):
                write_file(path, b"")
        except OSError as error:
            raise errors.LedgerError.of_file(error, path) from error

    def flagged(self, name: str) -> bool:
        """Return whether such a file is there."""
        return is_there(f"{self.folder}/{name}")

    def age(self, name: str) -> float:
        """How many seconds ago such a file was touched; infinity if it isn't there, or the clock was set back."""
        try:
            age = time.time() - posix.stat(f"{self.folder}/{name}").st_mtime
        except OSError:
            return float("inf")
        return age if age >= 0 else float("inf")

    def touch(self, name: str) -> None:
        """Make such a file anew, so that its age begins; that it can't be is no failure."""
        try:
            write_file(f"{self.folder}/{name}", b"")
        except OSError:
            pass

    def wake(self) -> None:
        """Touch the file that a systemd path unit watches, which starts reconcile at once."""
        self.touch("wake")  # else the timer comes round anyway

    def tally(self, stage: str, seconds: float, reasons: "Iterable[str]" = (), key: str = "") -> None:
        """Add a line for one call: when, its stage, its microseconds, why it failed (``-``: it did not), its key.

        Lines are appended whole, so no lock is needed. Where nobody counts them, they end at a bound.
        """
        flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW
        line = f"{int(time.time())} {stage} {int(seconds * 1e6)} {','.join(reasons) or '-'} {key or '-'}\n"
        try:
            fd = posix.open(f"{self.folder}/{CALLS}", flags, 0o600)
            try:
                if posix.lseek(fd, 0, _SEEK_END) < _MOST_CALLS:
                    posix.write(fd, line.encode("ascii", "replace"))
            finally:
                posix.close(fd)
        except OSError:
            pass  # figures about us are no reason to fail a container

    def _names(self, folder: str) -> "list[str]":
        path = f"{self.folder}/{folder}"
        try:
            return list_folder(path)
        except OSError as error:
            raise errors.LedgerError.of_file(error, path) from error

    def _read(self, path: str) -> "Any":
        try:
            record = parse_json(read_small_file(path, _LIMIT))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except OSError as error:
            raise errors.LedgerError.of_file(error, path) from error
        # A newer version may add to a record, but keeps what this one reads; a format of its own is not ours to read.
        ours = isinstance(record, dict) and record.get("format") == _FORMAT
        if not ours or not all(_is_path(record.get(name)) for name in _PATHS):
            return None
        for name in _NAMES:
            value = record.get(name)
            if value and not (isinstance(value, str) and value.isprintable()):
                record[name] = printable(str(value))
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


def _is_path(value: "Any") -> bool:
    """Return whether a field is an absolute path that leads nowhere else, or nothing."""
    return not value or (isinstance(value, str) and value[0] == "/" and "/../" not in f"{value}/")


class Lock:
    """An flock on one open file: it ends with ``with``, and with the process however that ends."""

    def __init__(self, fd: int, path: str, patience: float) -> None:
        self._fd = fd
        end = time.monotonic() + patience
        nap = _SHORTEST_NAP
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                left = end - time.monotonic()
                if left <= 0:
                    posix.close(fd)
                    raise errors.LockTimeoutError(f"{path} was held for {patience:g} s", errno=errno.EAGAIN) from None
            time.sleep(nap)
            # Whoever has waited long looks more often than those who have just come, or else may starve.
            nap = max(_SHORTEST_NAP, min(nap * 2, _LONGEST_NAP * (left / patience) ** 2))

    def __enter__(self) -> "Lock":  # noqa: PYI034  # typing.Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        posix.close(self._fd)
