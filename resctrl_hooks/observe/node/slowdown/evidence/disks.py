"""Bytes and operations of each disk, by cgroup.

Source: kernel, Documentation/admin-guide/cgroup-v2.rst ("IO Interface Files", ``io.stat``), admin-guide/iostats.rst.
"""

from typing import NamedTuple

from .....core.node.host.files import kernel_text
from ...snapshot.io_stat import read_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    ByDisk = Mapping[str, "Moved"]

_BYTES, _OPERATIONS = ("rbytes", "wbytes", "dbytes"), ("rios", "wios", "dios")
_FULL = 0.5  # of the time
_SECTOR = 512
_MILLI = 1e-3
_COLUMNS = 14
_SLOW, _SLOW_RATE = 5e-3, 200e6
"""Seconds of an operation, and bytes by second: a disk that needs longer is full, whatever it is made of."""


class Moved(NamedTuple):
    """Bytes and operations, read and written."""

    bytes: float = 0.0
    operations: float = 0.0


class Disk(NamedTuple):
    """One disk so far, or in a window by second."""

    name: str
    moved: Moved
    busy: float
    """Seconds with at least one operation; in a window, the part of it."""
    queued: float = 0.0
    """Seconds of all operations; in a window, the operations at a time."""


class Kind(NamedTuple):
    """What the kernel tells of a disk."""

    rotates: bool = False
    weight: str = ""
    """The file of a cgroup by which its operations are weighed; empty: there is none (`disk_kinds`)."""


class DiskWork(NamedTuple):
    """What a pod does on the disk on which it has most operations, in a window."""

    name: str
    operations: float
    """By second."""
    size: float
    """Bytes of an operation."""
    queued: float
    """Its operations at a time, by its part of all."""
    part: float
    """Of the disk's work."""
    busy: float
    """Of the disk, as a part of the window."""
    is_full: bool
    """Whether its operations wait for each other, so that work of others takes time from the pod's."""


class DiskUse(NamedTuple):
    """One disk in a window."""

    name: str
    busy: float
    moved: "Mapping[str, Moved]"
    """By pod's key or cgroup's path, by second."""
    queued: float = 0.0
    """Operations at a time."""
    kind: Kind = Kind()

    def parts(self) -> "dict[str, float]":
        """Return each one's part of the disk's work: of its bytes or of its operations, whichever is larger."""
        whole = together(self.moved.values())
        found = {
            name: max(
                one.bytes / whole.bytes if whole.bytes else 0.0,
                one.operations / whole.operations if whole.operations else 0.0,
            )
            for name, one in self.moved.items()
        }
        total = sum(found.values())
        return {name: part / total for name, part in found.items()} if total else {}

    @property
    def is_busy(self) -> bool:
        """Whether the disk is busy enough to make one wait for another."""
        return self.busy >= _FULL

    @property
    def is_full(self) -> bool:
        """Whether operations wait for each other: one head, or such long times as no idle disk has.

        A busy disk without heads may serve many at a time, as fast as one.
        """
        whole = together(self.moved.values())
        if not self.is_busy or not whole.operations:
            return False
        time, size = self.queued / whole.operations, whole.bytes / whole.operations
        return self.kind.rotates or time >= _SLOW + size / _SLOW_RATE

    def work_of(self, key: str) -> DiskWork:
        """Return what a pod does there."""
        own, whole = self.moved[key], together(self.moved.values())
        queued = self.queued * own.operations / whole.operations if whole.operations else 0.0
        size = own.bytes / own.operations if own.operations else 0.0
        part = self.parts().get(key, 0.0)
        return DiskWork(self.name, own.operations, size, queued, part, self.busy, self.is_full)


def together(parts: "Iterable[Moved]") -> Moved:
    """Return the sum."""
    found = [*parts]
    return Moved(sum([one.bytes for one in found]), sum([one.operations for one in found]))


def read_moved(folders: "Sequence[str]") -> "dict[str, Moved] | None":
    """Return what some cgroups moved so far by disk (``8:0``); None where the ``io`` controller is off."""
    found: "dict[str, Moved]" = {}
    is_known = False
    for folder in folders:
        text = kernel_text(f"{folder}/io.stat")
        is_known = is_known or bool(text)
        for disk, values in read_numbers(text).items():
            parts = [sum([values.get(name, 0) for name in names]) for names in (_BYTES, _OPERATIONS)]
            found[disk] = together([found.get(disk, Moved()), Moved(*parts)])
    return found if is_known else None


def read_disks(proc: str) -> "dict[str, Disk]":
    """Return all disks so far (``/proc/diskstats``)."""
    found = {}
    for line in kernel_text(f"{proc}/diskstats").splitlines():
        words = line.split()
        if len(words) >= _COLUMNS and all(word.isdigit() for word in words[3:_COLUMNS]):
            moved = Moved((int(words[5]) + int(words[9])) * _SECTOR, float(int(words[3]) + int(words[7])))
            found[f"{words[0]}:{words[1]}"] = Disk(words[2], moved, int(words[12]) * _MILLI, int(words[13]) * _MILLI)
    return found


def moved_between(before: "ByDisk | None", after: "ByDisk | None", seconds: float) -> "dict[str, Moved] | None":
    """Return bytes and operations by second, by disk."""
    if before is None or after is None:
        return None
    found = {}
    for disk, new in after.items():
        old = before.get(disk, Moved())
        grown = Moved(*[max(0.0, more - less) / seconds for more, less in zip(new, old)])
        if grown.operations:
            found[disk] = grown
    return found


def disks_between(
    before: "Mapping[str, Disk]",
    after: "Mapping[str, Disk]",
    moved: "Mapping[str, ByDisk]",
    rest: str,
    seconds: float,
) -> "dict[str, DiskUse]":
    """Return the use of the disks that some cgroup used.

    Args:
        before: all disks at the beginning.
        after: all disks at the end.
        moved: by cgroup, what it moved by second and disk.
        rest: names what no cgroup moved.
        seconds: of the window.
    """
    by_disk: "dict[str, dict[str, Moved]]" = {}
    for name, parts in moved.items():
        for disk, part in parts.items():
            by_disk.setdefault(disk, {})[name] = part
    found = {}
    for disk, users in by_disk.items():
        old, new = before.get(disk), after.get(disk)
        if old is None or new is None:
            continue
        known = together(users.values())
        whole = [max(0.0, more - less) / seconds for more, less in zip(new.moved, old.moved)]
        left = Moved(*[max(0.0, all_ - part) for all_, part in zip(whole, known)])
        busy = min(1.0, max(0.0, new.busy - old.busy) / seconds)
        queued = max(0.0, new.queued - old.queued) / seconds
        found[disk] = DiskUse(new.name, busy, {**users, rest: left} if any(left) else users, queued)
    return found
