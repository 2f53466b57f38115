"""Memory that cgroups take in, and what the node and limits reclaim.

In a steady state a cgroup takes in as many pages as are reclaimed from it: both its growth and these count. Source:
kernel, Documentation/admin-guide/cgroup-v2.rst ("Memory Interface Files"), mm/vmscan.c: ``/proc/vmstat`` counts scans
for the whole node only, ``memory.stat`` also those for a limit.
"""

import posix
from typing import NamedTuple

from .....core.node.host.files import kernel_text
from .numbers import numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_SCANS = ("pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged", "pgscan_proactive")
_REFAULTS = ("workingset_refault", "workingset_refault_anon", "workingset_refault_file")
_PAGE = float(posix.sysconf("SC_PAGE_SIZE"))


class Memory(NamedTuple):
    """The memory of some cgroups at one time, in bytes; in a window, by second."""

    taken: float
    """Its size, and all that was reclaimed from it so far."""
    refaulted: float
    """What it read again after it was reclaimed."""


def read_memory(folders: "Sequence[str]") -> "Memory | None":
    """Return the memory of some cgroups; None where the ``memory`` controller is off."""
    taken = refaulted = 0.0
    is_known = False
    for folder in folders:
        size = kernel_text(f"{folder}/memory.current")
        if size.isdigit():
            stat = numbers(f"{folder}/memory.stat")
            is_known = True
            taken += int(size) + stat.get("pgsteal", 0) * _PAGE
            refaulted += sum([stat.get(name, 0) for name in _REFAULTS]) * _PAGE
    return Memory(taken, refaulted) if is_known else None


def memory_between(before: "Memory | None", after: "Memory | None", seconds: float) -> "Memory | None":
    """Return what cgroups took in and read again by second."""
    if before is None or after is None:
        return None
    return Memory(*[max(0.0, new - old) / seconds for new, old in zip(after, before)])


def read_scanned(proc: str) -> "int | None":
    """Return the pages that the kernel scanned so far because the node lacked memory; None if it does not count."""
    found = numbers(f"{proc}/vmstat")
    known = [found[name] for name in _SCANS if name in found]
    return sum(known) if known else None


def read_limit_events(folder: str) -> int:
    """Return how often a cgroup's own limit was reached, without those of its children."""
    found = numbers(f"{folder}/memory.events.local")
    return found.get("high", 0) + found.get("max", 0)
