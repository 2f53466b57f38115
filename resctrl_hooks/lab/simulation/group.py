"""A resctrl group and its state."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Group:
    """A CTRL group (`parent` is None) or a MON group of one.

    Args:
        name: Its directory's name; empty for the root group.
        parent: The CTRL group that a MON group belongs to.
        closid: The class of a CTRL group; a MON group has its parent's.
        rmid: The RMID of its own tasks.
        cpus: Mask of its own CPUs.
        masks: Of a CTRL group, the mask of ways by cache resource and domain.
        mb: Of a CTRL group, the memory bandwidth by domain, in the units of `schemata`.
    """

    name: str
    parent: "Group | None"
    closid: int
    rmid: int
    cpus: int = 0
    mode: str = "shareable"
    masks: dict[str, dict[int, int]] = field(default_factory=dict)
    mb: dict[int, int] = field(default_factory=dict)
    monitored: dict[str, "Group"] = field(default_factory=dict)
    """The MON groups of a CTRL group, by name."""
    readings: dict[tuple[str, str], str] = field(default_factory=dict)
    """Fixed contents of counters, by domain directory and file."""
    assigned: set[tuple[str, int]] = field(default_factory=set)
    """The events that have an assignable counter, each with its domain."""
    attributes: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Changed permissions, owners and owning groups of files, by path below the group."""
    inodes: dict[str, int] = field(default_factory=dict)
    """The inode numbers in use of its directory and of the entries in it, by path below the group."""
    deleted: bool = False

    @property
    def ctrl(self) -> "Group":
        """The CTRL group that the group is or belongs to: its tasks' class."""
        return self.parent or self

    def family(self) -> Iterator["Group"]:
        """Yield the group and its MON groups."""
        yield self
        yield from self.monitored.values()
