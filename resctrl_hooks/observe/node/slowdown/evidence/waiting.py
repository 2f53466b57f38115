"""The time that a pod loses while it waits, by cause, beside the time that it runs. Pure.

Pressure `full` is the part of wall time for which all of a pod's tasks on a CPU waited, as a mean over the CPUs that it
demanded (kernel, Documentation/accounting/psi.rst). A pod that rests demands no CPU, so what it loses is related to
the time that it ran, and not to the window: ``(ran + lost) / ran``.
"""

from typing import NamedTuple

from ..constants import LEAST_STILL, WAITED
from .disk_delay import disk_delay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .alone import Alone
    from .use import Use

_MOST_STILL = 0.95  # of a window: beyond, the ratio means nothing
_ALL_STILL = 0.999  # of a window of a pod that does little but wait for its disk
LIMIT, CPU, MEMORY, DISK = "limit", "cpu", "memory", "disk"


class Waiting(NamedTuple):
    """Seconds that a pod lost for each second that its tasks ran, by cause."""

    limit: float = 0.0
    """Its own CPU limit stopped it."""
    cpu: float = 0.0
    """It waited for CPUs that others used."""
    memory: float = 0.0
    """It waited for memory, or for a disk with what was reclaimed from it."""
    disk: float = 0.0
    """It waited for a disk that others used."""

    @property
    def stretch(self) -> float:
        """How many times as long its work takes as without waiting."""
        return 1.0 + sum(self)

    def factors(self) -> "dict[str, float]":
        """Return each cause's factor; their product is `stretch`. What is lost at once is divided by its parts."""
        whole = sum(self)
        return {name: self.stretch ** (part / whole) if whole else 1.0 for name, part in zip(self._fields, self)}


NOTHING = Waiting()


def waiting_of(uses: "Sequence[tuple[Use, float]]", alone: "Alone | None" = None) -> Waiting:
    """Return what a pod lost in some windows, each with its seconds.

    Nothing is lost below `LEAST_STILL`, and where the kernel does not count it. Reclaim also runs on the pod's CPUs,
    and the kernel reads again what it took: with ``alone`` all of that is counted, without it the least of it.
    """
    ran = _mean([(use.cpu, seconds) for use, seconds in uses])
    if not ran:
        return NOTHING
    known = [(use.lost, seconds) for use, seconds in uses if use.lost is not None]
    limit, cpu = [_mean([(getattr(lost, name), seconds) for lost, seconds in known]) for name in ("limited", "waited")]
    memory = _mean([(use.reclaimed_fully, seconds) for use, seconds in uses])
    reread = _mean([(use.again * float(use.blocked_fully or 0), seconds) for use, seconds in uses])
    blocked = _mean([(use.blocked_fully, seconds) for use, seconds in uses])
    # What its work takes with enough memory. The rest of what it ran was reclaim, and is in the pressure as well.
    needed = None
    if alone is not None and alone.by_user is not None and memory + reread >= WAITED:
        own_code = [(use.user, seconds) for use, seconds in uses if use.user is not None]
        needed = _mean(own_code) * alone.by_user if own_code else None
    reclaiming = 0.0 if needed is None else min(memory, max(0.0, ran - needed))
    stalled = max(reread, memory - reclaiming)
    # What stands still stands on as many CPUs as the pod wanted while it did not, and on one at least.
    still = min(_MOST_STILL, blocked - reread + stalled)
    cpus = max(1.0, (ran + limit + cpu) / (1.0 - still))
    active = ran + still * cpus
    delay = disk_delay(uses, alone)
    lacking = stalled * cpus
    disk = delay.lost * max(0.0, active - lacking) if delay else 0.0
    if needed is not None:
        lacking = max(lacking, active - disk - needed)
    base = max(active - lacking - disk, (1.0 - _MOST_STILL) * active)
    parts = [limit, cpu, lacking, disk]
    lost = sum(parts)
    if lost < LEAST_STILL * cpus:
        return NOTHING
    scale = min(1.0, base * _MOST_STILL / (1.0 - _MOST_STILL) / lost)
    return Waiting(*[part * scale / base for part in parts])


def time_taken(use: "Use") -> float:
    """Return the CPUs for whose time a pod ran or waited, also for its own operations on disks."""
    ran, blocked = use.cpu or 0.0, float(use.blocked_fully or 0)
    wanted = ran + (use.lost.limited + use.lost.waited if use.lost is not None else 0.0)
    still = min(_ALL_STILL, blocked * (1 - use.again) + max(blocked * use.again, float(use.reclaimed_fully or 0)))
    return wanted + still * max(1.0, wanted / (1.0 - still))


def _mean(parts: "Iterable[tuple[object, float]]") -> float:
    """Return the mean of known values, weighted by seconds; 0 without one."""
    total = whole = 0.0
    for value, seconds in parts:
        if value is not None:
            total += float(value) * seconds  # type: ignore[arg-type]  # a number of some unit
            whole += seconds
    return total / whole if whole else 0.0
