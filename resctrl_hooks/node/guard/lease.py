"""The guard's lease: the values that it found, the values in effect since its changes, and their restoration.

The file is written before each change, so `restore` knows the guard's values however the guard ends. It is in the
state directory and belongs to one boot: resctrl starts a boot with its own values. A lease that cannot be read is
neither absent nor of another boot: it stays, and so does a damaged one. Only the holder of `LOCK` may restore or remove
a lease, so that of a running guard is safe however little is known of its process.
"""

import errno
import posix

from ..errors import LeaseError, ResctrlError
from ..file_shapes import LEASE
from ..host.files import GONE, format_json, read_file, remove_file, write_file
from ..host.instance import only_instance
from ..host.procfs import boot_id, start_time
from ..resctrl.schemata import parse_schemata, set_schemata
from ..shapes import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..resctrl.filesystem import Resctrl

NAME, LOCK = "guard-lease.json", "guard.lock"
_LIMIT = 1 << 20
_UNUSABLE = (errno.EFBIG, errno.ELOOP, errno.EINVAL, errno.EPERM)  # what `read_file` refuses: not a file of the guard
RESOURCE = "MB"


class Lease:
    """Values by class and L3 domain: ``declared`` before the guard's first change, ``ours`` since its last one."""

    def __init__(self, state_dir: str, proc: str = "/proc") -> None:
        self.path = f"{state_dir}/{NAME}"
        self._proc = proc
        self.pid, self.started, self.boot = 0, 0, ""
        self.declared: "dict[str, dict[int, int]]" = {}
        self.ours: "dict[str, dict[int, list[int]]]" = {}

    def load(self) -> bool:
        """Read the lease; return whether there is one of this boot.

        Raises:
            LeaseError: it cannot be read, or this boot's id cannot, so nobody can tell.
            ValueError: it is damaged.
        """
        try:
            data = read_file(self.path, _LIMIT, trusted=True)
            boot = boot_id(self._proc)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno in _UNUSABLE:
                raise ValueError(error.strerror) from error
            raise LeaseError(f"cannot read {error.filename or self.path}", errno=error.errno or 0) from error
        self._parse(data)
        if not boot:
            raise LeaseError(f"cannot tell whether {self.path} is of this boot: {self._proc} has no boot id")
        return self.boot == boot

    def _parse(self, data: bytes) -> None:
        """Take the file's content.

        Raises:
            ValueError: it has another form.
        """
        record: "Any" = parse(data, LEASE)
        self.pid, self.started, self.boot = record["pid"], record["start"], record["boot"]
        self.declared = {name: _by_number(values) for name, values in record["declared"].items()}
        self.ours = {name: _by_number(values) for name, values in record["ours"].items()}

    def hold(self, pid: int) -> None:
        """Make this process the holder of the lease.

        Raises:
            LeaseError: this boot's id is unreadable, and a lease without it would pass for another boot's.
        """
        self.pid, self.started, self.boot = pid, start_time(self._proc, pid), boot_id(self._proc)
        if not self.boot:
            raise LeaseError(f"cannot read this boot's id below {self._proc}")

    def intend(self, name: str, found: "dict[int, int]", new: "dict[int, int]") -> None:
        """Record a change of values before it happens.

        ``found`` are the values now, ``new`` the next values, by L3 domain. Both count as the guard's from then on.
        """
        for number, value in new.items():
            self.declared.setdefault(name, {}).setdefault(number, found[number])
            self.ours.setdefault(name, {})[number] = [found[number], value]
        self.write()

    def settle(self, name: str, effective: "dict[int, int]") -> None:
        """Record the values that the kernel made of the intended ones, if they differ."""
        ours = self.ours.get(name, {})
        if any(number in ours and ours[number][-1] != value for number, value in effective.items()):
            for number, value in effective.items():
                ours[number] = [*ours.get(number, []), value]
            self.write()

    def write(self) -> None:
        """Write the file.

        Raises:
            LeaseError: it cannot be written, so nothing may be changed.
        """
        record = {
            "pid": self.pid,
            "start": self.started,
            "boot": self.boot,
            "declared": _by_text(self.declared),
            "ours": _by_text(self.ours),
        }
        try:
            write_file(self.path, format_json(record), 0o600)
        except OSError as error:
            raise LeaseError(f"cannot write {self.path}", errno=error.errno or 0) from error

    def is_ours(self, name: str, number: int, value: int) -> bool:
        """Return whether the guard wrote this value, or left it as it was."""
        return value in (*self.ours.get(name, {}).get(number, ()), self.declared.get(name, {}).get(number))

    def remove(self) -> None:
        """Remove the file: nothing is changed any more."""
        remove_file(self.path)


def _by_number(values: "dict[str, Any]") -> "dict[int, Any]":
    return {int(number): value for number, value in values.items()}


def _by_text(values: "dict[str, dict[int, Any]]") -> "dict[str, dict[str, Any]]":
    """Return the values with domains as JSON has them."""
    return {name: {str(number): value for number, value in of.items()} for name, of in values.items()}


class Restored:
    """The results of a restoration: texts by outcome."""

    def __init__(self) -> None:
        self.done: "list[str]" = []
        self.foreign: "list[str]" = []
        self.failed: "list[str]" = []


def restore(resctrl: "Resctrl", lease: Lease) -> Restored:
    """Write the declared values in place of the guard's, and remove the lease if that succeeded.

    A value that another program wrote stays. A class that was removed needs no restoration; one whose values cannot be
    read keeps the lease.
    """
    result = Restored()
    for name, declared in sorted(lease.declared.items()):
        shown = name or "/"
        try:
            now = held_limits(resctrl, name)
        except ResctrlError as error:
            result.failed.append(f"class {shown}: {error}")
            continue
        ours = {number: value for number, value in declared.items() if number in now and now[number] != value}
        foreign = {number: now[number] for number in ours if not lease.is_ours(name, number, now[number])}
        result.foreign += [
            f"class {shown}, domain {number}: {RESOURCE} is {value}, which the guard did not write; left unchanged"
            for number, value in foreign.items()
        ]
        back = {number: value for number, value in ours.items() if number not in foreign}
        if not back:
            continue
        try:
            write_limits(resctrl, name, back)
        except ResctrlError as error:
            result.failed.append(f"class {shown}: {error}")
            continue
        result.done += [
            f"class {shown}, domain {number}: {RESOURCE} {now[number]} -> {value}" for number, value in back.items()
        ]
    if not result.failed:
        lease.remove()
    return result


def restore_ended(resctrl: "Resctrl", state_dir: str, proc: str) -> Restored:
    """Restore the changes of a guard that has ended, as `restore_left` does.

    Raises:
        RunningError: a guard runs, or another process restores its values now.
        LeaseError: the lease cannot be read. It stays.
        OSError: the lock's file cannot be opened.
    """
    try:
        posix.lstat(f"{state_dir}/{NAME}")
    except FileNotFoundError:
        return Restored()  # most passes of reconcile
    lock = only_instance(f"{state_dir}/{LOCK}")
    try:
        return restore_left(resctrl, state_dir, proc)
    finally:
        posix.close(lock)


def restore_left(resctrl: "Resctrl", state_dir: str, proc: str) -> Restored:
    """Restore the changes of an earlier guard of this boot; the caller holds `LOCK`.

    Raises:
        LeaseError: the lease cannot be read. It stays.
    """
    lease, result = Lease(state_dir, proc), Restored()
    try:
        if lease.load():
            return restore(resctrl, lease)
        lease.remove()  # of an earlier boot: resctrl has its own values again
    except ValueError as error:
        result.failed.append(
            f"the guard's values: {lease.path} is damaged ({error}); "
            "compare the classes with `resctrl-hook rdt show`, correct them, then remove the file"
        )
    return result


def read_limits(resctrl: "Resctrl", name: str) -> "dict[int, int]":
    """Return the MB values of a class by L3 domain; empty where the class or its MB is gone.

    Raises:
        ResctrlError: they cannot be read, so nobody can tell.
    """
    path = f"{resctrl.class_folder(name)}/schemata"
    try:
        text = resctrl.fs.read(path).decode("ascii", "replace")
    except OSError as error:
        if error.errno in GONE:
            return {}
        raise ResctrlError(f"cannot read {path}", errno=error.errno or 0) from error
    values = parse_schemata(text).get(RESOURCE, {})
    return {number: int(value) for number, value in values.items() if value.isdigit()}


def held_limits(resctrl: "Resctrl", name: str) -> "dict[int, int]":
    """Return the MB values of a class that had some; empty where the class is gone.

    Raises:
        ResctrlError: as in `read_limits`, or the class is there and its file has none, so nobody can tell.
    """
    now = read_limits(resctrl, name)
    if not now and resctrl.exists(name, ""):
        raise ResctrlError(f"no {RESOURCE} values in the schemata of RDT class {name or '/'}")
    return now


def write_limits(resctrl: "Resctrl", name: str, values: "dict[int, int]") -> "dict[int, int]":
    """Write MB values of a class by L3 domain; return those in effect, since the kernel rounds.

    Raises:
        ResctrlError: the kernel refuses, or the values cannot be read back.
    """
    effective = set_schemata(resctrl, name, RESOURCE, values)
    return {number: int(value) for number, value in effective.items() if value.isdigit()}
