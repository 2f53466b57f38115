"""Use by one pod in one window of time."""

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..units import WallPart
    from .cpu.lost_time import Lost
    from .disks import DiskWork


class Use(NamedTuple):
    """A pod in one window. None: unknown."""

    method: str
    cost: "float | None"
    """Cycles (reference cycles where counted), or seconds of CPU time for `TRAFFIC`."""
    work: "float | None"
    """Instructions, micro-operations, or GB for `TRAFFIC`."""
    cpu: "float | None"
    """CPUs in use."""
    traffic: "dict[int, float] | None"
    """Bytes per second by memory domain."""
    occupancy: "dict[int, float]"
    """Bytes by L3 domain."""
    missed: "float | None" = None
    """Bytes from memory by unit of work."""
    clock: "float | None" = None
    """Cycles by reference cycle."""
    throttled: "WallPart | None" = None
    """Of `Waits`, as all until ``memory_events``: parts of the window, and counts in it."""
    waited: "WallPart | None" = None
    stood: "WallPart | None" = None
    reclaimed: "WallPart | None" = None
    reclaimed_fully: "WallPart | None" = None
    throttles: "int | None" = None
    memory_events: "int | None" = None
    cpus: int = 0
    cycles: float = 0.0
    """As counted, for the metrics; 0 for `TRAFFIC`."""
    blocked: "WallPart | None" = None
    """Some task waited for a disk."""
    blocked_fully: "WallPart | None" = None
    lost: "Lost | None" = None
    """The CPUs that it used and lost."""
    again: float = 0.0
    """The part of its disk traffic that it reads again because it was reclaimed."""
    disk: "DiskWork | None" = None
    """What it does on its disk; None: not read, because no pod waits for a disk."""
    user: "float | None" = None
    """CPUs that its own code used, without the kernel's work for it."""

    @property
    def price(self) -> "float | None":
        """The cost of a unit of work."""
        return self.cost / self.work if self.cost and self.work else None
