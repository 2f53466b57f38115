"""A node in one window, beside what its pods used: processors, disks, reclaim, and the cgroups that use them."""

from types import MappingProxyType
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .cpu.processors import Processor
    from .cpu.shares import Group
    from .disks import DiskUse
    from .reclaim import Memory
    from .use import Use

_NOTHING: "Mapping[Any, Any]" = MappingProxyType({})


class NodeUse(NamedTuple):
    """A node in one window; None: not read, or unknown."""

    processors: "Mapping[int, Processor]" = _NOTHING
    groups: "tuple[Group, ...] | None" = None
    """The tree of cgroups with their use of CPUs."""
    disks: "Mapping[str, DiskUse] | None" = None
    memory: "Mapping[str, Memory] | None" = None
    """By pod's key or cgroup's path, in bytes by second."""
    scanned: "int | None" = None
    """Pages that were scanned because the node lacked memory."""
    limits: "Mapping[str, int]" = _NOTHING
    """How often the limit of a cgroup above pods was reached."""
    cores: "Sequence[int]" = ()
    """The CPUs of each core, as sets; empty: unknown."""

    def disk_of(self, key: str) -> "DiskUse | None":
        """Return the disk on which a pod has most operations."""
        own = [(one.moved[key].operations, one.name, one) for one in (self.disks or {}).values() if key in one.moved]
        return max(own, key=lambda one: one[:2])[2] if own else None

    def refaulted(self, key: str) -> float:
        """Return the part of a pod's disk traffic that it reads again because it was reclaimed."""
        moved = sum([one.moved[key].bytes for one in (self.disks or {}).values() if key in one.moved])
        memory = (self.memory or {}).get(key)
        return min(1.0, memory.refaulted / moved) if memory and moved else 0.0

    def explained(self, key: str, use: "Use") -> "Use":
        """Return a pod's use with what its waiting for a disk is made of."""
        disk = self.disk_of(key) if use.blocked else None
        if disk is None:
            return use
        return use._replace(again=self.refaulted(key), disk=disk.work_of(key))
