"""The paths of a resctrl filesystem, and the commands on its directories.

Directories implement mkdir, rmdir and rename here, because the kernel decides by a directory's place. The VFS decides
the rest itself (existing names, files in place of directories).
"""

import errno
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from .counters import domain_folders
from .errors import RefusedError
from .files import File, counter_file, group_files, info_files
from .group import Group
from .model import Resctrl


@dataclass(frozen=True, slots=True, eq=False)
class Directory:
    """A directory.

    Args:
        group: Its group.
        path: Its path below the group, "" for the group's own.
        entries: Names in it and whether each is a directory.
        mode: Its initial type and permissions.
        info: Whether it belongs to `info`, which has no group.
    """

    group: Group
    path: str
    entries: dict[str, bool]
    mode: int
    info: bool = False


class Tree:
    """The paths of a simulation."""

    def __init__(self, resctrl: Resctrl) -> None:
        self._resctrl = resctrl
        self._folders = domain_folders(resctrl.machine)
        self._info = info_files(resctrl)

    def find(self, path: str) -> File | Directory:
        """Return the file or directory at a path.

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
            return Directory(group, name, {path: True for path in self._folders if "/" not in path}, folder_mode)
        if name == "mon_data":
            return self._find_data(group, "/".join(rest), folder_mode)
        if name == "mon_groups" and not rest and group.parent is None:
            return Directory(group, name, dict.fromkeys(group.monitored, True), folder_mode)
        return group_files(self._resctrl, group).get(name) if not rest else None

    def _find_data(self, group: Group, path: str, mode: int) -> File | Directory | None:
        place = self._folders.get(path)
        if place is not None:
            entries = dict.fromkeys(place.events, False) | dict.fromkeys(place.below, True)
            return Directory(group, f"mon_data/{path}", entries, mode)
        folder, _, event = path.rpartition("/")
        if folder in self._folders and event in self._folders[folder].events:
            return counter_file(self._resctrl, group, folder, event)
        return None

    def _group_entries(self, group: Group) -> dict[str, bool]:
        entries = dict.fromkeys(group_files(self._resctrl, group), False) | {"mon_data": True}
        if group.parent is None:
            entries["mon_groups"] = True
        if group is self._resctrl.root:
            entries["info"] = True
            entries |= dict.fromkeys(self._resctrl.classes, True)
        return entries

    def make(self, parent: Directory, name: str) -> None:
        """Create a group by a directory in `parent`, which has no entry of this name.

        Raises:
            OSError: EINVAL for a newline, EPERM where no group is possible, ENODEV below `info` and below a removed
                group, ENOSPC and EBUSY when ids run out.
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
        """Remove a group by its directory. The kernel leaves `last_cmd_status` unchanged here.

        Raises:
            OSError: EPERM for the root, and for a directory that is not a group's own.
        """
        if directory.info or directory.path or directory.group is self._resctrl.root:
            raise RefusedError(errno.EPERM)
        self._resctrl.remove(directory.group)

    def rename(self, source: File | Directory, parent: File | Directory, name: str) -> None:
        """Rename a MON group, also into another class. A newline in the name is accepted, unlike in `make`.

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

    def place(self, directory: Directory, name: str) -> tuple[Group, str]:
        """Return the group of a directory's entry, and its path below that group."""
        group = directory.group
        if name in (".", ".."):
            return group, directory.path
        if directory.path == "mon_groups" and name in group.monitored:
            return group.monitored[name], ""
        if group is self._resctrl.root and not directory.path and name in self._resctrl.classes:
            return self._resctrl.classes[name], ""
        return group, f"{directory.path}/{name}".lstrip("/")

    def names(self, directory: Directory) -> Iterable[str]:
        """Return the names in a directory, `.` and `..` first; a removed group has only these."""
        names = [".", ".."]
        if directory.group.deleted:
            return names
        here = directory if directory.info else self._find_below(directory.group, _parts(directory.path))
        return names + list(here.entries) if isinstance(here, Directory) else names


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
