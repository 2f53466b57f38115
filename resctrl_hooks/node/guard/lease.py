"""The guard's lease: the values that it found, the values in effect since its changes, and their restoration.

The file is written before each change, so `restore` knows the guard's values however the guard ends. It is in the
state directory and belongs to one boot: resctrl starts a boot with its own values. A lease that cannot be read is
neither absent nor of another boot: it stays.
"""

import errno
import posix

from ..errors import LeaseError, ResctrlError
from ..host.files import GONE, format_json, parse_json, read_file, remove_file, write_file
from ..host.procfs import boot_id, lives, start_time
from ..resctrl.schemata import parse_schemata, set_schemata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..resctrl.filesystem import Resctrl

NAME = "guard-lease.json"
_DAMAGED = ".damaged"
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
        try:
            record: "Any" = parse_json(data)
            self.pid, self.started, self.boot = int(record["pid"]), int(record["start"]), str(record["boot"])
            self.declared = {
                name: {int(number): int(value) for number, value in values.items()}
                for name, values in record["declared"].items()
            }
            self.ours = {
                name: {int(number): [int(value) for value in values] for number, values in of.items()}
                for name, of in record["ours"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            self.declared, self.ours = {}, {}
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def set_aside(self) -> str:
        """Rename a damaged lease, so that a person can read it; return its new path."""
        path = self.path + _DAMAGED
        posix.rename(self.path, path)
        return path

    @property
    def is_stale(self) -> bool:
        """Whether the guard that wrote it has ended."""
        return not lives(self._proc, self.pid, self.started)

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
        """Write the file."""
        record = {
            "pid": self.pid,
            "start": self.started,
            "boot": self.boot,
            "declared": _by_text(self.declared),
            "ours": _by_text(self.ours),
        }
        write_file(self.path, format_json(record), 0o600)

    def is_ours(self, name: str, number: int, value: int) -> bool:
        """Return whether the guard wrote this value, or left it as it was."""
        return value in (*self.ours.get(name, {}).get(number, ()), self.declared.get(name, {}).get(number))

    def remove(self) -> None:
        """Remove the file: nothing is changed any more."""
        remove_file(self.path)


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
            now = read_limits(resctrl, name)
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


def restore_left(resctrl: "Resctrl", state_dir: str, proc: str, *, only_ended: bool = False) -> Restored:
    """Restore the changes of a guard of this boot; with ``only_ended``, skip those of a running guard.

    Raises:
        LeaseError: the lease cannot be read. It stays.
    """
    lease, result = Lease(state_dir, proc), Restored()
    try:
        if not lease.load():
            lease.remove()  # of an earlier boot: resctrl has its own values again
            return result
    except ValueError as error:
        text = f"the lease is damaged ({error}) and is now {lease.set_aside()}; compare `resctrl-hook rdt show`"
        result.failed.append(text)
        return result
    if lease.is_stale or lease.pid == posix.getpid():
        return restore(resctrl, lease)
    if not only_ended:
        result.failed.append(f"the guard's values: process {lease.pid} still guards this node; stop it first")
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


def write_limits(resctrl: "Resctrl", name: str, values: "dict[int, int]") -> "dict[int, int]":
    """Write MB values of a class by L3 domain; return those in effect, since the kernel rounds.

    Raises:
        ResctrlError: the kernel refuses, or the values cannot be read back.
    """
    effective = set_schemata(resctrl, name, RESOURCE, values)
    return {number: int(value) for number, value in effective.items() if value.isdigit()}
