"""How many times as long a pod's work takes because others use its disk. Pure.

An operation with others' operations before it takes longer. What it takes alone is known from earlier windows
(`alone.py`). Otherwise it follows from the disk's own work, if the disk is full: it works on one operation at a time,
so without others the pod would wait for its own part of the disk's time, and never do more than the whole disk does
now. For a disk of many units, which serves some as fast as one, that is an upper bound only.
"""

from typing import NamedTuple

from ..constants import BESIDE, WAITED
from .alone import all_wait, time_on_disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .alone import Alone
    from .use import Use

_BUSY = 0.5  # of the time
_LEAST_FREE = 0.05  # of the time: beyond, a ratio means nothing


class DiskDelay(NamedTuple):
    """A pod that shares its disk."""

    factor: float
    """1 if it is not known."""
    most: float
    """Its upper bound."""
    is_known: bool
    is_measured: bool
    """Whether earlier windows tell what its operations take alone; otherwise the factor is an upper bound, except for
    one head."""
    lost: float
    """The part lost of the time for which it ran or waited for a disk, in all windows."""


def disk_delay(uses: "Sequence[tuple[Use, float]]", alone: "Alone | None") -> "DiskDelay | None":
    """Return the delay in the windows with a shared disk, each with its seconds; None without such a window.

    Args:
        uses: the pod in some windows.
        alone: what it needs without others.
    """
    shared = [(use, use.disk, seconds) for use, seconds in uses if use.disk is not None and _is_shared(use)]
    if not shared:
        return None
    time = own = ran = some = wholly = active = operations = size = 0.0
    for use, disk, seconds in shared:
        cpu, waits, stood = use.cpu or 0.0, float(use.blocked or 0), float(use.blocked_fully or 0) * (1 - use.again)
        time += time_on_disk(use) * seconds
        own += disk.part * disk.busy * seconds
        ran += cpu * seconds
        some += waits * (1 - use.again) * seconds
        wholly += stood * seconds
        active += _active(use) * seconds
        operations += disk.operations * seconds
        size += disk.size * disk.operations * seconds
    full = sum([seconds for _, disk, seconds in shared if disk.is_full])
    whole = sum([seconds for _, _, seconds in shared])
    # Its tasks wait for no more than the time in which some do; what is written later is in the queue without a wait.
    bound = max((ran + some) / ran if ran else 1.0, 1 / max(_LEAST_FREE, 1 - some / whole))
    serial = max(1.0, min(time / (ran + own), whole / own if own else bound, bound))
    known = None
    if alone is not None and operations:
        place = shared[-1][1].name, size / operations
        known = alone.in_turn(*place) if all_wait(some, wholly) else None
        if known:  # its part of the queue is a guess, and others' operations may take longer than its own
            time = ran + some
        known = known or alone.by_operation(*place)
    if known:
        factor = most = max(1.0, min(time / (operations * known), bound))
    else:
        factor, most = serial if 2 * full >= whole else 1.0, serial
    # A first window of waiting has no disk: it is as the others (`node_counts`).
    told = [_active(use) * seconds for use, seconds in uses if use.disk or float(use.blocked or 0) < WAITED]
    lost = (1 - 1 / factor) * active / max(active, sum(told)) if active else 0.0
    return DiskDelay(factor, most, bool(known) or 2 * full >= whole, bool(known), lost)


def _active(use: "Use") -> float:
    """Return the CPUs on which a pod ran or stood still for a disk."""
    cpu, stood = use.cpu or 0.0, float(use.blocked_fully or 0) * (1 - use.again)
    return cpu + stood * max(1.0, cpu / (1 - min(stood, 0.95)))


def _is_shared(use: "Use") -> bool:
    return use.disk is not None and use.disk.part < 1 - BESIDE and use.disk.busy >= _BUSY
