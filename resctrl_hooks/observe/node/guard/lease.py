"""The lease of the process that changes MB values: the values that it found, and those in effect since its changes.

The file is written before each change, so the owner's values are known however it ends. It is in the state directory
and belongs to one boot: resctrl starts a boot with its own values. A lease that cannot be read is neither absent nor of
another boot: it stays, and so does a damaged one.

The owner, which is the guard or an experiment, holds `LOCK`. Its lease ends at a deadline of CLOCK_BOOTTIME, which the
owner extends while it works. Then other processes may restore the values although the owner, stopped or hung, still
holds the lock. No process removes the file before: what a late owner writes is restored again (`changes.change`).
"""

import errno
import time

from ....core.node.errors import HookError, LeaseError
from ....core.node.host.files import format_json, read_file, remove_file, write_file
from ....core.node.host.procfs import boot_id, start_time
from ....core.node.host.state_file import parse
from ....core.node.shapes import Annotated, Count, NotRequired, Number, Text, TypedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME, LOCK = "guard-lease.json", "guard.lock"
GUARD, EXPERIMENT = "the guard", "an experiment"
"""The owners, as the lease, the lock's file and messages name them."""
_GRACE = 1.0  # seconds after the deadline: the owner must notice its end before others act on it
_NEVER = float("inf")  # leases of version 0.2.0 have no deadline
_LIMIT = 1 << 20
_UNUSABLE = (errno.EFBIG, errno.ELOOP, errno.EINVAL, errno.EPERM)  # what `read_file` refuses: not a file of the guard
_DIGITS = 10  # of a domain's number, at most
_Domain = Annotated[str, lambda key: key.isascii() and key.isdecimal() and len(key) < _DIGITS]
"""The number of an L3 domain."""


class LeaseRecord(TypedDict):
    """The file's content, by class and domain."""

    pid: Count
    start: Count
    boot: Text
    declared: dict[Text, dict[_Domain, Count]]
    ours: dict[Text, dict[_Domain, list[Count]]]
    owner: NotRequired[Text]
    deadline: NotRequired[Number]
    """Not in version 0.2."""


class LeaseEndedError(HookError):
    """The owner was stopped or hung for longer than its lease: it must not change values any more."""

    reason = "lease-ended"


def boot_time() -> float:
    """Return the seconds since boot, with those in suspend: no change of the wall clock moves them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """Values by class and L3 domain: ``declared`` before the owner's first change, ``ours`` since its last one.

    The ``owner`` is `GUARD` or `EXPERIMENT`; the lease ends at the ``deadline``, in seconds since boot.
    """

    def __init__(self, state_dir: str, proc: str = "/proc") -> None:
        self.path = f"{state_dir}/{NAME}"
        self._proc = proc
        self.pid, self.started, self.boot = 0, 0, ""
        self.owner, self.deadline, self._seconds = "", _NEVER, _NEVER
        self.declared: "dict[str, dict[int, int]]" = {}
        self.ours: "dict[str, dict[int, list[int]]]" = {}

    def load(self) -> bool:
        """Read the lease; return whether there is one of this boot.

        Raises:
            LeaseError: it cannot be read, or this boot's id cannot, so the owner is unknown.
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
        record = parse(data, LeaseRecord)
        self.pid, self.started, self.boot = record["pid"], record["start"], record["boot"]
        self.owner = record.get("owner", "")
        self.deadline = record.get("deadline", _NEVER)
        self.declared = {name: _by_number(values) for name, values in record["declared"].items()}
        self.ours = {name: _by_number(values) for name, values in record["ours"].items()}

    def hold(self, pid: int, owner: str, seconds: float) -> None:
        """Make this process the owner. Each change and each extension make the lease last for so many seconds more.

        Raises:
            LeaseError: this boot's id is unreadable, and a lease without it would pass for another boot's.
        """
        self.pid, self.started, self.boot = pid, start_time(self._proc, pid), boot_id(self._proc)
        if not self.boot:
            raise LeaseError(f"cannot read this boot's id below {self._proc}")
        self.owner, self._seconds = owner, seconds
        self.deadline = boot_time() + seconds

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed for every process, so the values may be restored beside a live owner."""
        return boot_time() > self.deadline + _GRACE

    def check(self) -> None:
        """Make sure that the owner may still change values. Without changed values there is nothing that could end.

        Raises:
            LeaseEndedError: the deadline has passed.
        """
        if self.declared and boot_time() >= self.deadline:
            raise LeaseEndedError(
                f"{self.owner} was stopped or hung for longer than its lease of {self._seconds:g} s; "
                "its values are restored, and it changes nothing more"
            )

    def extend(self) -> None:
        """Extend the lease once less than half of it is left. A working owner calls this often.

        Raises:
            LeaseEndedError: the deadline has passed.
            LeaseError: the file cannot be written; the lease ends at its deadline.
        """
        self.check()
        if not self.declared:
            self.deadline = boot_time() + self._seconds
        elif self.deadline - boot_time() < self._seconds / 2:
            self._write_extended()

    def intend(self, name: str, found: "dict[int, int]", new: "dict[int, int]") -> None:
        """Record a change of values before it happens, and extend the lease.

        ``found`` are the values now, ``new`` the next values, by L3 domain. Both count as the owner's from then on.

        Raises:
            LeaseEndedError: the deadline has passed.
            LeaseError: the file cannot be written.
        """
        self.check()
        held = bool(self.declared)
        for number, value in new.items():
            self.declared.setdefault(name, {}).setdefault(number, found[number])
            self.ours.setdefault(name, {})[number] = [found[number], value]
        self._write_extended(checked=held)

    def _write_extended(self, *, checked: bool = True) -> None:
        before = self.deadline
        self.deadline = boot_time() + self._seconds
        try:
            self.write()
        except LeaseError:
            self.deadline = before
            raise
        if checked and boot_time() >= before:  # stopped since the last check: others may have acted on the end
            self.deadline = before
            self.write()
            self.check()

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
        record: "dict[str, Any]" = {
            "pid": self.pid,
            "start": self.started,
            "boot": self.boot,
            "declared": _by_text(self.declared),
            "ours": _by_text(self.ours),
            "owner": self.owner,
        }
        if self.deadline != _NEVER:
            record["deadline"] = round(self.deadline, 3)
        try:
            write_file(self.path, format_json(record), 0o600)
        except OSError as error:
            raise LeaseError(f"cannot write {self.path}", errno=error.errno or 0) from error

    def is_ours(self, name: str, number: int, value: int) -> bool:
        """Return whether the owner wrote this value, or left it as it was."""
        return value in (*self.ours.get(name, {}).get(number, ()), self.declared.get(name, {}).get(number))

    def remove(self) -> None:
        """Remove the file: nothing is changed any more."""
        remove_file(self.path)
        self.declared, self.ours = {}, {}


def _by_number(values: "dict[str, Any]") -> "dict[int, Any]":
    return {int(number): value for number, value in values.items()}


def _by_text(values: "dict[str, dict[int, Any]]") -> "dict[str, dict[str, Any]]":
    """Return the values with domains as JSON has them."""
    return {name: {str(number): value for number, value in of.items()} for name, of in values.items()}
