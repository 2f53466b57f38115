"""The paths of a resctrl filesystem, and the commands on its directories.

Directories implement mkdir, rmdir and rename here, because the kernel decides by a directory's place. The VFS decides
the rest itself (existing names, files in place of directories).
"""

import errno
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import RefusedError
from .files import File, class_files, counter_files, group_files, info_files
from .group import Group
from .model import Resctrl

Entry = File | Group | Mapping[str, "Entry"]
"""A file, a group's directory, or another directory with its entries by name."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A file or directory.

    Args:
        group: Its group; the root group for `info`.
        path: Its path below the group's directory, "" for that directory.
        entry: Its content.
    """

    group: Group
    path: str
    entry: Entry

    @property
    def file(self) -> File:
        """The file; the VFS refuses to open a directory as one."""
        assert isinstance(self.entry, File)
        return self.entry

    @property
    def mode(self) -> int:
        """Its initial type and permissions."""
        return self.entry.mode if isinstance(self.entry, File) else stat.S_IFDIR | (0o755 if self.group.name else 0o555)

    @property
    def in_info(self) -> bool:
        """Whether it is `info` or below it."""
        return self.path.partition("/")[0] == "info"

    def child(self, name: str, entry: Entry) -> "Node":
        """Return the node of one of its entries."""
        if isinstance(entry, Group):
            return Node(entry, "", entry)
        return Node(self.group, f"{self.path}/{name}".lstrip("/"), entry)


class Tree:
    """The paths of a simulation."""

    def __init__(self, resctrl: Resctrl) -> None:
        self._resctrl = resctrl
        self._in_group: dict[str, Entry] = {**group_files(resctrl), "mon_data": _nested(counter_files(resctrl))}
        self._in_class: dict[str, Entry] = {**self._in_group, **class_files(resctrl)}
        self._info = _nested(info_files(resctrl))

    def entries(self, node: Node) -> Mapping[str, Entry]:
        """Return what a directory contains now, by name; a removed group contains nothing."""
        if node.group.deleted or isinstance(node.entry, File):
            return {}
        if not isinstance(node.entry, Group):
            return node.entry
        if node.group.parent is not None:
            return self._in_group
        entries = {**self._in_class, "mon_groups": node.group.monitored}
        return entries if node.group.name else {**entries, "info": self._info, **self._resctrl.classes}

    def find(self, path: str) -> Node:
        """Return the file or directory at a path.

        Raises:
            OSError: ENOENT.
        """
        node = Node(self._resctrl.root, "", self._resctrl.root)
        for name in filter(None, path.split("/")):
            entry = self.entries(node).get(name)
            if entry is None:
                raise FileNotFoundError(errno.ENOENT, path)
            node = node.child(name, entry)
        return node

    def make(self, path: str) -> None:
        """Create a group by its directory, in a directory that has no entry of this name.

        Raises:
            OSError: EINVAL for a newline, EPERM where no group is possible, ENODEV below `info`, ENOSPC and EBUSY
                when ids run out.
        """
        above, _, name = path.rpartition("/")
        parent = self.find(above)
        if "\n" in name:
            raise RefusedError(errno.EINVAL)
        if parent.in_info:
            raise RefusedError(errno.ENODEV)
        with self._resctrl.command():
            if parent.group is self._resctrl.root and not parent.path:
                self._resctrl.make_class(name)
            elif parent.path == "mon_groups" and name != "mon_groups":
                self._resctrl.make_monitored(parent.group, name)
            else:
                raise RefusedError(errno.EPERM)

    def remove(self, path: str) -> None:
        """Remove a group by its directory. The kernel leaves `last_cmd_status` unchanged here.

        Raises:
            OSError: EPERM for the root, and for a directory that is not a group's own.
        """
        directory = self.find(path)
        if directory.path or directory.group is self._resctrl.root:
            raise RefusedError(errno.EPERM)
        self._resctrl.remove(directory.group)

    def rename(self, old: str, new: str) -> None:
        """Rename a MON group, also into another class. A newline in the name is accepted, unlike in `make`.

        Raises:
            OSError: EPERM for anything but a MON group and a `mon_groups`, ENOENT with `info`, EEXIST.
        """
        above, _, name = new.rpartition("/")
        source, parent = self.find(old), self.find(above)
        if source.in_info or parent.in_info:
            raise RefusedError(errno.ENOENT)
        with self._resctrl.command():
            if isinstance(source.entry, File) or isinstance(parent.entry, File):
                raise RefusedError(errno.EPERM, "Source and destination must be directories")
            if source.path or source.group.parent is None:
                raise RefusedError(errno.EPERM, "Source must be a MON group")
            if parent.path != "mon_groups" or name == "mon_groups":
                raise RefusedError(errno.EPERM, "Destination must be a mon_groups subdirectory")
            self._resctrl.rename(source.group, parent.group, name)


def _nested(files: Mapping[str, File]) -> dict[str, Entry]:
    """Return directories with files, which are given by their paths."""
    top: dict[str, Any] = {}
    for path, file in files.items():
        *above, name = path.split("/")
        folder = top
        for one in above:
            folder = folder.setdefault(one, {})
        folder[name] = file
    return top
