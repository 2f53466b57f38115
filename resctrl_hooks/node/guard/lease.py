"""The guard's lease: the values that it found, the values that it wrote, and their restoration.

The file is written before each change, so `restore` knows the guard's values however the guard ends. It is in the
state directory and belongs to one boot: resctrl starts a boot with its own values.
"""

from ..errors import ResctrlError
from ..host.files import format_json, parse_json, read_file, remove_file, write_file
from ..host.procfs import boot_id, lives, start_time
from ..resctrl.schemata import parse_schemata, schemata_line, write_schemata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..resctrl.filesystem import Resctrl

NAME = "guard-lease.json"
_LIMIT = 1 << 20
RESOURCE = "MB"


class Lease:
    """Values by class and L3 domain: ``declared`` before the guard's first change, ``ours`` that it wrote last."""

    def __init__(self, state_dir: str, proc: str = "/proc") -> None:
        self.path = f"{state_dir}/{NAME}"
        self._proc = proc
        self.pid, self.started, self.boot = 0, 0, ""
        self.declared: "dict[str, dict[int, int]]" = {}
        self.ours: "dict[str, dict[int, list[int]]]" = {}

    def load(self) -> bool:
        """Read the lease of a guard of this boot; return whether there is one."""
        try:
            record: "Any" = parse_json(read_file(self.path, _LIMIT, trusted=True))
            self.pid, self.started, self.boot = int(record["pid"]), int(record["start"]), str(record["boot"])
            self.declared = {
                name: {int(number): int(value) for number, value in values.items()}
                for name, values in record["declared"].items()
            }
            self.ours = {
                name: {int(number): [int(value) for value in values] for number, values in of.items()}
                for name, of in record["ours"].items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.declared, self.ours = {}, {}
            return False
        return self.boot == boot_id(self._proc)

    @property
    def is_stale(self) -> bool:
        """Whether the guard that wrote it has ended."""
        return not lives(self._proc, self.pid, self.started)

    def hold(self, pid: int) -> None:
        """Make this process the holder of the lease."""
        self.pid, self.started, self.boot = pid, start_time(self._proc, pid), boot_id(self._proc)

    def intend(self, name: str, found: "dict[int, int]", new: "dict[int, int]") -> None:
        """Record a change of values before it happens.

        ``found`` are the values now, ``new`` the next values, by L3 domain. Both count as the guard's from then on.
        """
        for number, value in new.items():
            self.declared.setdefault(name, {}).setdefault(number, found[number])
            self.ours.setdefault(name, {})[number] = [found[number], value]
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

    A value that another program wrote stays. A class that was removed needs no restoration.
    """
    result = Restored()
    for name, declared in sorted(lease.declared.items()):
        shown = name or "/"
        now = read_limits(resctrl, name)
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
    """Restore the changes of a guard of this boot, with ``only_ended`` if the guard has ended."""
    lease = Lease(state_dir, proc)
    if not lease.load():
        lease.remove()  # of an earlier boot, or unusable: resctrl has its own values again
        return Restored()
    return Restored() if only_ended and not lease.is_stale else restore(resctrl, lease)


def read_limits(resctrl: "Resctrl", name: str) -> "dict[int, int]":
    """Return the MB values of a class by L3 domain; empty where the class or its MB is gone."""
    try:
        text = resctrl.fs.read(f"{resctrl.class_folder(name)}/schemata").decode("ascii", "replace")
    except OSError:
        return {}
    values = parse_schemata(text).get(RESOURCE, {})
    return {number: int(value) for number, value in values.items() if value.isdigit()}


def write_limits(resctrl: "Resctrl", name: str, values: "dict[int, int]") -> None:
    """Write MB values of a class by L3 domain.

    Raises:
        ResctrlError: the kernel refuses.
    """
    write_schemata(resctrl, name, schemata_line(RESOURCE, values))
