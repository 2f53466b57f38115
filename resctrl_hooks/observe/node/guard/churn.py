"""The mon_groups behind a class's counters: what those that vanished had counted.

A class's file is the sum of its own tasks and its mon_groups, so it loses the bytes of a removed group, and gains those
of a group that is renamed into it. An author of pods who ends them every second would blind the guard. So each group is
known by its inode, which a rename keeps, with the values of its last reading: a group that vanished counts with these,
a lower bound, and one that changed its class takes them along.
"""

import posix

from ....core.node.resctrl.filesystem import MON_GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ....core.node.resctrl.filesystem import Resctrl

    Values = dict[int, tuple["int | None", "int | None"]]  # by L3 domain: total and local bytes

FOR_EACH_LEFT = 32
"""The number of groups that a sample reads for each group that vanished in about the last ten samples."""
MOST_FILES = 2048
"""Counter files that are read in a sample at most: all groups of a node with two L3 domains, 64 groups with 16."""
_FADES = 0.9


class Group:
    """A mon_group: its class and name, its last values (None before the first reading).

    ``born`` and ``read`` are the samples in which it was first seen and last read.
    """

    __slots__ = ("born", "name", "rdt_class", "read", "values")

    def __init__(self, rdt_class: str, name: str, sample: int) -> None:
        self.rdt_class = rdt_class
        self.name = name
        self.values: "Values | None" = None
        self.born = self.read = sample

    def overdue(self, sample: int) -> float:
        """Return which part of its life a group was not read, so that this part of its bytes could be lost."""
        return 2.0 if self.values is None else (sample - self.read) / (sample - self.born + 1)


class Groups:
    """All mon_groups of the classes, and what left each class with them.

    ``read`` returns the counters of a group's folder for so many L3 ``domains``.
    """

    def __init__(self, resctrl: "Resctrl", read: "Callable[[str], Values]", domains: int) -> None:
        self._resctrl = resctrl
        self._read = read
        self._most = MOST_FILES // (2 * max(1, domains))
        self._known: "dict[int, Group]" = {}
        self._samples = 0
        self._ending: "dict[str, float]" = {}  # how many groups left a class lately
        self.left: "dict[str, dict[int, tuple[int, int]]]" = {}
        """By class and L3 domain: total and local bytes of groups that left it, less those of groups that came."""

    def present(self, classes: "Sequence[str]") -> "dict[int, tuple[str, str]]":
        """Return class and name of each mon_group by inode. A class that is gone has none.

        Raises:
            OSError: a class's groups cannot be listed, so it is unknown which are gone.
        """
        found: "dict[int, tuple[str, str]]" = {}
        for name in classes:
            try:
                with posix.scandir(f"{self._resctrl.class_folder(name)}/{MON_GROUPS}") as entries:
                    found.update((entry.inode(), (name, entry.name)) for entry in entries)
            except (FileNotFoundError, NotADirectoryError):
                continue
        return found

    def changed(self, since: "dict[int, tuple[str, str]]", classes: "Sequence[str]") -> "set[str]":
        """Return the classes whose mon_groups have other names now than in an earlier `present`."""
        before: "dict[str, set[str]]" = {name: set() for name in classes}
        for rdt_class, name in since.values():
            before[rdt_class].add(name)
        return {name for name, names in before.items() if names.symmetric_difference(self._resctrl.groups(name))}

    def follow(self, now: "dict[int, tuple[str, str]]") -> "set[str]":
        """Take note of the groups that exist now, and read some; return classes whose sums jumped by unknown amounts.

        Such a class got a group that was never read. One that lost such a group has a lower sum.
        """
        unknown: "set[str]" = set()
        self._samples += 1
        self._ending = {name: left * _FADES for name, left in self._ending.items() if left * FOR_EACH_LEFT > 1}
        for inode in [one for one in self._known if one not in now]:
            self._leaves(self._known.pop(inode))
        for inode, (rdt_class, name) in now.items():
            found = self._known.get(inode)
            if found is None:
                self._known[inode] = Group(rdt_class, name, self._samples)
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
        self._ending[group.rdt_class] = self._ending.get(group.rdt_class, 0.0) + 1
        for number, (total, local) in (group.values or {}).items():
            for name, sign in ((group.rdt_class, 1), (to, -1)):
                if name is not None:
                    of = self.left.setdefault(name, {})
                    old_total, old_local = of.get(number, (0, 0))
                    of[number] = (old_total + sign * (total or 0), old_local + sign * (local or 0))
        return group.values is not None

    def _read_some(self) -> None:
        """Read the values of the most overdue groups of the classes that groups left lately."""
        if not self._ending:
            return
        groups = [group for group in self._known.values() if group.rdt_class in self._ending]
        groups.sort(key=lambda group: group.overdue(self._samples), reverse=True)
        for group in groups[: min(self._most, int(FOR_EACH_LEFT * sum(self._ending.values())))]:
            values = self._read(self._resctrl.group_folder(group.rdt_class, group.name))
            if all(total is not None for total, _ in values.values()):  # else it has just ended, or has no counter
                if _fell(group.values or {}, values):  # another group with the inode of one that vanished
                    self._leaves(group)
                group.values = values
            group.read = self._samples


def _fell(old: "Values", new: "Values") -> bool:
    """Return whether a value is lower than it was."""
    return any((new.get(number, (0, 0))[0] or 0) < (total or 0) for number, (total, _) in old.items())
