"""RMIDs that stay free for the groups and classes that container runtimes create, and the record of their number.

A runtime fails the start of a container whose group or class it cannot create (runtime-spec, config-linux.md,
"intelRdt"), so a group of ours must never take the RMID that it needs.
"""

import time

from ..errors import LedgerError, NoRMIDsError
from ..host.files import format_json, read_file, remove_file, write_file
from ..host.state_file import parse
from ..ledger import RUNTIMES
from ..resctrl.rmids import free_rmids, rmids_of_each_class, total_rmids
from ..shapes import Count, NotRequired, Text, TypedDict
from .decision import may_take

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..context import Context
    from ..ledger import Ledger
    from ..resctrl.locked_key import LockedKey

_LIMIT = 1 << 16
_HOUR, _DAY = 3600, 24
_LEAST = 2
"""Times the RMIDs of one container: the next one may be created while those of the last one are in limbo."""
MOST = 4
"""A recorded reserve is at most this part of the RMIDs, here a quarter: authors of pods decide how large it gets."""
LOCK = "rmids"  # two parallel checks would both see the same free RMID
PATIENCE = 0.5  # seconds


class PeaksRecord(TypedDict):
    """The largest number of groups and classes of runtimes in each hour, by hour since 1970."""

    hours: dict[Text, Count]
    uptime: NotRequired[dict[Text, Count]]
    """By hour since boot. Not in version 0.2."""


class ReservedError(NoRMIDsError):
    """The free RMIDs are reserved for container runtimes."""

    reason = "reserved-for-runtimes"
    hint = "the pod waits; see monitoring.reserve.runtimes in the configuration"


def reserved(context: "Context") -> int:
    """Return how many RMIDs stay free for runtimes: the configured number, else as `note` recorded, within `MOST`."""
    fixed = (context.settings.groups.get("reserve") or {}).get("runtimes")
    if fixed is not None:
        return int(fixed)
    peak, resctrl = max(read_peaks(context.ledger).values(), default=0), context.monitor.resctrl
    if peak <= _LEAST:
        return peak
    return min(peak, max(_LEAST, (rmids_of_each_class(resctrl) or total_rmids(resctrl)) // MOST))


def take_free(
    locked: "LockedKey", rdt_class: str, context: "Context", create: "Callable[[], object]", priority: int = 0
) -> None:
    """Call ``create``, which creates the key's group in a class, unless it would take a reserved RMID.

    Raises:
        NoRMIDsError: the free RMIDs are reserved for container runtimes, or for pods of higher priority.
        ResctrlError, HookError: as ``create``.
    """
    resctrl = context.monitor.resctrl
    reserve: "dict[str, Any]" = context.settings.groups.get("reserve") or {}
    above, reserved_rmids = int(reserve.get("above", 0)), int(reserve.get("rmids", 0))
    runtimes = reserved(context) if "runtimes" in reserve or context.ledger.flagged(RUNTIMES) else 0
    # A foreign group of its name needs no other RMID.
    if not (runtimes or (reserved_rmids and priority <= above)) or resctrl.exists(rdt_class, locked.name_in(rdt_class)):
        create()
        return
    with context.ledger.lock_named(LOCK, PATIENCE):
        free = free_rmids(resctrl, rdt_class)
        if not may_take(free, priority, reserved=reserved_rmids, above=above, runtimes=runtimes):
            if free is not None and free <= runtimes:
                raise ReservedError(f"{runtimes} RMIDs stay free for container runtimes")
            raise NoRMIDsError(
                f"the free RMIDs are reserved for pods with priorities above {above}",
                hint="see monitoring.reserve in the configuration",
            )
        create()


def read_peaks(ledger: "Ledger") -> "dict[int, int]":
    """Return the largest number of groups and classes of runtimes in each hour of the last day, by hour since boot.

    A damaged record stands for one container in this hour, and one of version 0.2, which has hours of the wall clock,
    for its largest number.

    Raises:
        LedgerError: the record cannot be read. Without it, a pod would take the RMID that a runtime needs next.
    """
    try:
        record = parse(read_file(f"{ledger.folder}/{RUNTIMES}", _LIMIT), PeaksRecord)
    except FileNotFoundError:
        return {}
    except ValueError:
        return {_hour(): _LEAST}
    except OSError as error:
        raise LedgerError.of_file(error, f"{ledger.folder}/{RUNTIMES}") from error
    now = _hour()
    if "uptime" not in record:
        wall = int(time.time()) // _HOUR
        hours = [(int(hour), peak) for hour, peak in record["hours"].items() if hour.isdecimal()]
        peaks = [peak for hour, peak in hours if abs(wall - hour) < _DAY]
        return {now: max(peaks)} if peaks else {}
    found = record["uptime"].items()
    return {int(hour): peak for hour, peak in found if hour.isdecimal() and 0 <= now - int(hour) < _DAY}


def note(ledger: "Ledger", number: "int | None", one: int = 1) -> None:
    """Record the present number of groups and classes of runtimes; None if no container may have one.

    ``one`` is the largest number of one container: a class and a group in it are two.
    """
    peaks = read_peaks(ledger)
    if number is not None:
        # One for a container that asks for Intel RDT although it needs no RMID now: the next of its kind may.
        peaks[_hour()] = max(peaks.get(_hour(), 0), number, _LEAST * one if number else 1)
    path = f"{ledger.folder}/{RUNTIMES}"
    if peaks:
        ledger.prepare()  # the first container of this boot may need no record
        earlier = {str(int(time.time()) // _HOUR): max(peaks.values())}  # as version 0.2 reads it
        write_file(path, format_json({"hours": earlier, "uptime": {str(hour): peak for hour, peak in peaks.items()}}))
    else:
        remove_file(path)


def _hour() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME)) // _HOUR
