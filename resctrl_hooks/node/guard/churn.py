"""The mon_groups behind a class's counters: what those that vanished had counted.

A class's file is the sum of its own tasks and its mon_groups, so it loses the bytes of a removed group, and gains those
of a group that is renamed into it. An author of pods who ends them every second would blind the guard. So each group is
known by its inode, which a rename keeps, with the values of its last reading: a group that vanished counts with these,
a lower bound, and one that changed its class takes them along.
"""

import posix

from ..resctrl.filesystem import MON_GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..resctrl.filesystem import Resctrl

    Values = dict[int, tuple["int | None", "int | None"]]  # by L3 domain: total and local bytes

AFTER = 120
"""Looks for which the groups of a class are read after one has left it. On a quiet node none is read."""
YOUNG, MOST = 120, 64
"""A group is read in each of its first so many looks, and so many of these in one look: churn is of groups that do not
get old. Others take turns, one in each look."""


class Group:
    """A mon_group: its class and name, its last values (None before the first reading), and how often it was read."""

    __slots__ = ("name", "rdt_class", "readings", "values")

    def __init__(self, rdt_class: str, name: str) -> None:
        self.rdt_class = rdt_class
        self.name = name
        self.values: "Values | None" = None
        self.readings = 0


class Groups:
    """All mon_groups of the classes, and what left each class with them.

    ``read`` returns the counters of a group's folder by L3 domain.
    """

    def __init__(self, resctrl: "Resctrl", read: "Callable[[str], Values]") -> None:
        self._resctrl = resctrl
        self._read = read
        self._known: "dict[int, Group]" = {}
        self._turn = 0
        self._watched: "dict[str, int]" = {}  # looks for which a class's groups are still read
        self.left: "dict[str, dict[int, tuple[int, int]]]" = {}
        """By class and L3 domain: total and local bytes of groups that left it, less those of groups that came."""

    def present(self, classes: "Sequence[str]") -> "dict[int, tuple[str, str]]":
        """Return class and name of each mon_group by inode. A class that is gone has none."""
        found: "dict[int, tuple[str, str]]" = {}
        for name in classes:
            try:
                with posix.scandir(f"{self._resctrl.class_folder(name)}/{MON_GROUPS}") as entries:
                    found.update((entry.inode(), (name, entry.name)) for entry in entries)
            except OSError:
                continue
        return found

    def links(self, classes: "Sequence[str]") -> "dict[str, int]":
        """Return a number for each class that changes as groups come and go."""
        found = {}
        for name in classes:
            try:
                found[name] = posix.stat(f"{self._resctrl.class_folder(name)}/{MON_GROUPS}").st_nlink
            except OSError:
                found[name] = 0
        return found

    def follow(self, now: "dict[int, tuple[str, str]]") -> "set[str]":
        """Take note of the groups that exist now, and read some; return classes whose sums jumped by unknown amounts.

        Such a class got a group that was never read. One that lost such a group has a lower sum.
        """
        unknown: "set[str]" = set()
        for inode in [one for one in self._known if one not in now]:
            self._leaves(self._known.pop(inode))
        for inode, (rdt_class, name) in now.items():
            found = self._known.get(inode)
            if found is None:
                self._known[inode] = Group(rdt_class, name)
                continue
            found.name = name
            if found.rdt_class != rdt_class:
                if not self._leaves(found, to=rdt_class):
                    unknown.add(rdt_class)
                found.rdt_class = rdt_class
        self._read_some()
        return unknown

    def _leaves(self, group: Group, to: "str | None" = None) -> bool:
        """Count a group's last values for the class that it leaves, and against the one that it joins."""
        self._watched[group.rdt_class] = AFTER
        for number, (total, local) in (group.values or {}).items():
            for name, sign in ((group.rdt_class, 1), (to, -1)):
                if name is not None:
                    of = self.left.setdefault(name, {})
                    old_total, old_local = of.get(number, (0, 0))
                    of[number] = (old_total + sign * (total or 0), old_local + sign * (local or 0))
        return group.values is not None

    def _read_some(self) -> None:
        """Read the values of young groups of the classes that groups left lately, and of one other in turn."""
        if not self._watched:
            return
        watched = [group for group in self._known.values() if group.rdt_class in self._watched]
        young = sorted((one for one in watched if one.readings < YOUNG), key=lambda group: group.readings)
        others = [*young[MOST:], *(group for group in watched if group.readings >= YOUNG)]
        if others:
            self._turn += 1
            young = [*young[:MOST], others[self._turn % len(others)]]
        for group in young:
            folder = self._resctrl.group_folder(group.rdt_class, group.name)
            values = self._read(folder)
            if all(total is not None for total, _ in values.values()):  # else it has just ended, or has no counter
                if _fell(group.values or {}, values):  # another group with the inode of one that vanished
                    self._leaves(group)
                group.values = values
            group.readings += 1
        self._watched = {name: looks - 1 for name, looks in self._watched.items() if looks > 1}


def _fell(old: "Values", new: "Values") -> bool:
    """Return whether a value is lower than it was."""
    return any((new.get(number, (0, 0))[0] or 0) < (total or 0) for number, (total, _) in old.items())
