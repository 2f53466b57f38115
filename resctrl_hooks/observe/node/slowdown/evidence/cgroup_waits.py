"""The time for which a pod's tasks ran and waited, from its cgroup's files.

Source: kernel, Documentation/admin-guide/cgroup-v2.rst ("CPU Interface Files", "Memory Interface Files"),
accounting/psi.rst.
"""

from .....core.node.host.cpulist import parse_list
from .....core.node.host.files import kernel_text
from ..units import CpuTime, WallTime
from .numbers import numbers
from .window import Waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_MICRO = 1e-6
_PRESSURES = ("waited", "stood", "reclaimed", "reclaimed_fully", "blocked", "blocked_fully")


def read_waits(folders: "Sequence[str]") -> "Waits | None":
    """Return the sums over a pod's cgroups; pressure is the largest one's. None: its CPU time is unknown."""
    total = None
    for folder in folders:
        one = _read(folder)
        if one is None:
            return None
        total = one if total is None else _together(total, one)
    return total


def read_cpus(folders: "Sequence[str]") -> int:
    """Return the CPUs that a pod may use, as a set; 0 if unknown."""
    found = 0
    for folder in folders:
        try:
            found |= parse_list(kernel_text(f"{folder}/cpuset.cpus.effective"))
        except ValueError:
            return 0
    return found


def _read(folder: str) -> "Waits | None":
    stat, events = numbers(f"{folder}/cpu.stat"), numbers(f"{folder}/memory.events")
    used = stat.get("usage_usec")
    if used is None:
        return None
    cpu, memory, disk = [numbers(f"{folder}/{name}.pressure") for name in ("cpu", "memory", "io")]
    throttled, user = stat.get("throttled_usec"), stat.get("user_usec")
    return Waits(
        CpuTime(used * _MICRO),
        None if throttled is None else CpuTime(throttled * _MICRO),
        stat.get("nr_throttled"),
        _pressure(cpu.get("some")),
        _pressure(cpu.get("full")),
        _pressure(memory.get("some")),
        _pressure(memory.get("full")),
        events.get("high", 0) + events.get("max", 0) if events else None,
        _pressure(disk.get("some")),
        _pressure(disk.get("full")),
        None if user is None else CpuTime(user * _MICRO),
    )


def _pressure(microseconds: "int | None") -> "WallTime | None":
    return None if microseconds is None else WallTime(microseconds * _MICRO)


def _together(one: Waits, other: Waits) -> Waits:
    """Return the sum of times and counts, and the larger pressure: cgroups wait at the same time."""

    def both(name: str) -> "float | None":
        known = [value for value in (getattr(one, name), getattr(other, name)) if value is not None]
        return (max if name in _PRESSURES else sum)(known) if known else None

    return Waits(*map(both, Waits._fields))  # type: ignore[arg-type]  # the sum of whole numbers is one
