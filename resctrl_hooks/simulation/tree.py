"""The directories and files of a resctrl filesystem: what each path is, shows and takes.

Directories answer mkdir, rmdir and rename here, since the kernel decides by the place of a directory what may be done
in it. What the VFS decides by itself (names that exist already, files in the place of directories) is left to it.
"""

import errno
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from . import cpus, schemata
from .counters import domain_folders
from .group import Group
from .machine import BANDWIDTH_GRAN, FULL_MASK, MIN_BANDWIDTH, MIN_CBM_BITS, SHAREABLE_BITS
from .model import Resctrl
from .refused import RefusedError

_READABLE = stat.S_IFREG | 0o444
_WRITABLE = stat.S_IFREG | 0o644

Caller = tuple[int, int]
"""Thread id and user id of whoever writes."""


@dataclass(frozen=True, slots=True, eq=False)
class File:
    """A file.

    Args:
        group: Whose it is; with the group's end reads and writes of open files end too.
        path: Its path below the group.
        mode: Type and permissions as they are at first.
        read: Its text.
        write: Takes what is written in one go; None for a file that can't be written.
        counter: Folder and name of a counter.
    """

    group: Group
    path: str
    mode: int
    read: Callable[[], str]
    write: Callable[[str, Caller], None] | None = None
    counter: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """A directory.

    Args:
        group: Whose it is.
        path: Its path below the group, "" for the group's own.
        entries: Names in it and whether each is a directory.
        mode: Type and permissions as they are at first.
        info: Whether it belongs to `info`, which has no group.
    """

    group: Group
    path: str
    entries: dict[str, bool]
    mode: int
    info: bool = False


class Tree:
    """The paths of a simulation.

    Args:
        resctrl: What they are about.
    """

    def __init__(self, resctrl: Resctrl) -> None:
        self._resctrl = resctrl
        self._folders = domain_folders(resctrl.machine)
        self._info = self._make_info()

    def _make_info(self) -> dict[str, File]:
        sim, machine = self._resctrl, self._resctrl.machine
        kinds: dict[str, list[str]] = {}
        for folder, names in self._folders.items():
            kinds[folder.removeprefix("mon_").rpartition("_")[0]] = list(names)
        constants: dict[str, str] = {
            "L3/cbm_mask": f"{FULL_MASK:x}",
            "L3/min_cbm_bits": str(MIN_CBM_BITS),
            "L3/num_closids": str(machine.closids),
            "L3/shareable_bits": f"{SHAREABLE_BITS:x}",
            "L3/sparse_masks": "0",
            "MB/bandwidth_gran": str(BANDWIDTH_GRAN),
            "MB/delay_linear": "1",
            "MB/min_bandwidth": str(MIN_BANDWIDTH),
            "MB/num_closids": str(machine.closids),
            "MB/thread_throttle_mode": "max",
        }
        for kind, events in kinds.items():
            constants[f"{kind}_MON/mon_features"] = "\n".join(events)
            constants[f"{kind}_MON/num_rmids"] = str(machine.rmids)
        files = {
            path: File(sim.root, f"info/{path}", _READABLE, lambda text=text: f"{text}\n")  # type: ignore[misc]
            for path, text in constants.items()
        }
        variable: tuple[tuple[str, Callable[[], str], Callable[[str], None] | None], ...] = (
            ("last_cmd_status", lambda: sim.status, None),
            ("L3/bit_usage", lambda: schemata.bit_usage_text(machine, sim.all_classes()), None),
            ("L3_MON/max_threshold_occupancy", lambda: f"{sim.threshold}\n", sim.write_threshold),
            ("L3_MON/mbm_assign_mode", lambda: "[default]\n", sim.write_assign_mode),
        )
        for path, read, write in variable:
            files[path] = File(
                sim.root,
                f"info/{path}",
                _READABLE if write is None else _WRITABLE,
                read,
                None if write is None else lambda text, _, write=write: write(text),  # type: ignore[misc]
            )
        return files

    def find(self, path: str) -> File | Directory:
        """What is at a path.

        Raises:
            OSError: ENOENT.
        """
        parts = _parts(path)
        root = self._resctrl.root
        if parts[:1] == ["info"]:
            return self._find_info("/".join(parts[1:]))
        group = self._resctrl.classes.get(parts[0], root) if parts else root
        if group is not root:
            parts = parts[1:]
        if len(parts) > 1 and parts[0] == "mon_groups":
            found = group.monitored.get(parts[1])
            if found is None:
                raise FileNotFoundError(errno.ENOENT, path)
            group, parts = found, parts[2:]
        here = self._find_below(group, parts)
        if here is None:
            raise FileNotFoundError(errno.ENOENT, path)
        return here

    def _find_info(self, path: str) -> File | Directory:
        if path in self._info:
            return self._info[path]
        below = f"{path}/" if path else ""
        names = [name.removeprefix(below) for name in self._info if name.startswith(below)]
        if not names:
            raise FileNotFoundError(errno.ENOENT, path)
        entries = {name.partition("/")[0]: "/" in name for name in names}
        return Directory(self._resctrl.root, f"info/{path}".rstrip("/"), entries, stat.S_IFDIR | 0o555, info=True)

    def _find_below(self, group: Group, parts: list[str]) -> File | Directory | None:
        folder_mode = stat.S_IFDIR | (0o555 if group is self._resctrl.root else 0o755)
        if not parts:
            return Directory(group, "", self._group_entries(group), folder_mode)
        name, rest = parts[0], parts[1:]
        if name == "mon_data" and not rest:
            return Directory(group, name, dict.fromkeys(self._folders, True), folder_mode)
        if name == "mon_data" and rest[0] in self._folders:
            events = self._folders[rest[0]]
            if len(rest) == 1:
                return Directory(group, "/".join(parts), dict.fromkeys(events, False), folder_mode)
            if len(rest) == 2 and rest[1] in events:  # noqa: PLR2004
                return self._counter(group, rest[0], rest[1])
        if name == "mon_groups" and not rest and group.parent is None:
            return Directory(group, name, dict.fromkeys(group.monitored, True), folder_mode)
        return self._files(group).get(name) if not rest else None

    def _group_entries(self, group: Group) -> dict[str, bool]:
        entries = dict.fromkeys(self._files(group), False) | {"mon_data": True}
        if group.parent is None:
            entries["mon_groups"] = True
        if group is self._resctrl.root:
            entries["info"] = True
            entries |= dict.fromkeys(self._resctrl.classes, True)
        return entries

    def _counter(self, group: Group, folder: str, event: str) -> File:
        sim = self._resctrl
        path = f"mon_data/{folder}/{event}"
        return File(
            group, path, _READABLE, lambda: f"{sim.counters.text(group, folder, event)}\n", None, (folder, event)
        )

    def _files(self, group: Group) -> dict[str, File]:
        sim = self._resctrl
        machine = sim.machine
        rows: list[tuple[str, Callable[[], str], Callable[[str, Caller], None] | None]] = [
            (
                "tasks",
                lambda: "".join(f"{tid}\n" for tid in sim.tasks.listed(group)),
                lambda text, caller: sim.write_tasks(group, text, caller),
            ),
            (
                "cpus",
                lambda: f"{cpus.mask_text(group.cpus, machine)}\n",
                lambda text, _: sim.write_cpus(group, text),
            ),
            (
                "cpus_list",
                lambda: f"{cpus.list_text(group.cpus)}\n",
                lambda text, _: sim.write_cpus_list(group, text),
            ),
        ]
        if group.parent is None:
            rows += [
                (
                    "schemata",
                    lambda: schemata.schemata_text(group),
                    lambda text, _: sim.write_schemata(group, text),
                ),
                ("mode", lambda: f"{group.mode}\n", lambda text, _: sim.write_mode(group, text)),
                ("size", lambda: schemata.size_text(group), None),
            ]
        return {
            name: File(group, name, _READABLE if write is None else _WRITABLE, read, write)
            for name, read, write in rows
        }

    def make(self, parent: Directory, name: str) -> None:
        """Make a directory in `parent`, where there is none of this name yet: a group.

        Raises:
            OSError: EINVAL for a newline, EPERM where no group can be, ENODEV below `info` and below a group that is
                gone, ENOSPC and EBUSY when ids run out.
        """
        if "\n" in name:
            raise RefusedError(errno.EINVAL)
        if parent.info or parent.group.deleted:
            raise RefusedError(errno.ENODEV)
        with self._resctrl.command():
            if parent.group is self._resctrl.root and not parent.path:
                self._resctrl.make_class(name)
            elif parent.path == "mon_groups" and name != "mon_groups":
                self._resctrl.make_monitored(parent.group, name)
            else:
                raise RefusedError(errno.EPERM)

    def remove(self, directory: Directory) -> None:
        """Remove a group by its directory. The kernel leaves `last_cmd_status` alone here.

        Raises:
            OSError: EPERM for a directory that is no group's own, and for the root.
        """
        if directory.info or directory.path or directory.group is self._resctrl.root:
            raise RefusedError(errno.EPERM)
        self._resctrl.remove(directory.group)

    def rename(self, source: File | Directory, parent: File | Directory, name: str) -> None:
        """Rename a MON group, perhaps into another class. A newline in the name is accepted, unlike in `make`.

        Raises:
            OSError: EPERM for anything but a MON group and a `mon_groups`, ENOENT with `info`, EEXIST.
        """
        if source.path.startswith("info") or parent.path.startswith("info"):
            raise RefusedError(errno.ENOENT)
        with self._resctrl.command():
            if isinstance(source, File) or isinstance(parent, File):
                raise RefusedError(errno.EPERM, "Source and destination must be directories")
            if source.path or source.group.parent is None:
                raise RefusedError(errno.EPERM, "Source must be a MON group")
            if parent.path != "mon_groups" or name == "mon_groups":
                raise RefusedError(errno.EPERM, "Destination must be a mon_groups subdirectory")
            self._resctrl.rename(source.group, parent.group, name)

    def names(self, directory: Directory) -> Iterable[str]:
        """The names that are in a directory now, `.` and `..` first; of a group that is gone, nothing else."""
        names = [".", ".."]
        if directory.group.deleted:
            return names
        here = directory if directory.info else self._find_below(directory.group, _parts(directory.path))
        return names + list(here.entries) if isinstance(here, Directory) else names


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
