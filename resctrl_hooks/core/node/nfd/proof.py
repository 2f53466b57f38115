"""The proof of this node's abilities: counters that read a number, and a class whose values change when written.

The processor's flags and resctrl's files exist on machines, virtual ones above all, where neither works.
"""

from ..errors import HookError, NoResctrlError
from ..resctrl.counter_files import layout, read_group
from ..resctrl.layouts import PERF
from ..resctrl.rmids import free_rmids, groups_by_class, total_closids, total_rmids
from ..resctrl.schemata import LOCK as CLASSES
from ..resctrl.schemata import MANAGED, parse_schemata, set_schemata
from ..sharing.runtimes import LOCK, PATIENCE, reserved
from .features import ALLOCATION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..resctrl.counters import Slot
    from ..resctrl.filesystem import Resctrl

CLASS = "resctrl-hooks-proof"
_BANDWIDTH = "mbm_"
_YES = "true"
_HEX = 16


def prove(context: "Context", before: "dict[str, str]") -> "dict[str, str]":
    """Return the proved facts by key.

    A class without tasks is created for it and removed again, if that leaves a CLOSID, and an RMID beside those that
    are kept for container runtimes. Otherwise the facts about allocation are those of ``before``, and so is that about
    a resource whose values cannot be changed now.

    Raises:
        HookError: resctrl is not mounted or not readable, or the class cannot be removed.
        OSError: as above.
    """
    resctrl = context.monitor.resctrl
    try:
        resctrl.classes()
    except NoResctrlError:
        return {}
    counting = _counting(resctrl.root)
    known = allocating = [key for key in before if key.startswith(ALLOCATION)]
    with context.ledger.lock_named(CLASSES, PATIENCE), context.ledger.lock_named(LOCK, PATIENCE):
        if _remove(resctrl) or _has_room(context, resctrl):
            try:
                resctrl.fs.mkdir(resctrl.class_folder(CLASS))
                counting += _counting(resctrl.class_folder(CLASS))
                allocating = _allocating(resctrl, known)
            except OSError:
                pass  # refused: no class is free now, or the kernel has none
            finally:
                _remove(resctrl)
    return {**_monitoring(counting), **dict.fromkeys(allocating, _YES), **_numbers(resctrl, counting)}


def _has_room(context: "Context", resctrl: "Resctrl") -> bool:
    free = free_rmids(resctrl, CLASS)
    closids = total_closids(resctrl) - len(groups_by_class(resctrl))
    # The freed RMID is in limbo for a moment, in which a runtime may need one.
    return closids > 1 and (free is None or free > 1 + reserved(context))


def _remove(resctrl: "Resctrl") -> bool:
    """Remove the class, which a killed proof may have left; return whether it existed."""
    try:
        resctrl.fs.rmdir(resctrl.class_folder(CLASS))
    except FileNotFoundError:
        return False
    return True


def _counting(folder: str) -> "list[Slot]":
    """Return the counters of a group that read a number."""
    slots = layout(f"{folder}/mon_data")
    try:
        values = read_group(folder, slots)[1]
    except OSError:
        return []
    return [slot for slot, value in zip(slots, values) if isinstance(value, (int, float))]


def _monitoring(counting: "list[Slot]") -> "dict[str, str]":
    found = {
        "monitoring": bool(counting),
        "bandwidth": any(slot.counter.name.startswith(_BANDWIDTH) for slot in counting),
        "energy": any(slot.domain.resource == PERF and slot.counter.unit == "J" for slot in counting),
    }
    return {key: _YES for key, proved in found.items() if proved}


def _allocating(resctrl: "Resctrl", known: "list[str]") -> "list[str]":
    """Return the keys of the managed resources whose values in the class are those written, or their rounding.

    A refused value proves nothing: another class may have the other bits of a mask for itself. Then ``known`` counts.
    """
    path = f"{resctrl.class_folder(CLASS)}/schemata"
    found = []
    for resource, values in parse_schemata(resctrl.fs.read(path).decode("ascii", "replace")).items():
        if resource not in MANAGED:
            continue
        is_mask = resctrl.fs.is_folder(f"{resctrl.root}/info/{resource}") and _is_mask(resctrl, resource)
        try:
            half = {number: _half(value, is_mask=is_mask) for number, value in values.items()}
            now = set_schemata(resctrl, CLASS, resource, half)
        except (HookError, ValueError):
            found += [key for key in (f"{ALLOCATION}.{resource}",) if key in known]
            continue
        if now and all(now[number].lstrip("0") != values[number].lstrip("0") for number in now):
            found.append(f"{ALLOCATION}.{resource}")
    return [ALLOCATION, *found] if found else []


def _is_mask(resctrl: "Resctrl", resource: str) -> bool:
    try:
        return bool(resctrl.fs.read(f"{resctrl.root}/info/{resource}/cbm_mask"))
    except OSError:
        return False


def _half(value: str, *, is_mask: bool) -> str:
    """Return about half of a value: a mask without its upper bit, or half of a bandwidth.

    The new mask has no bit that the old one lacks, which another class may have for itself.

    Raises:
        ValueError: the mask has one bit.
    """
    if not is_mask:
        return str(int(value) // 2)
    mask = int(value, _HEX)
    rest = mask & ~(1 << (mask.bit_length() - 1))
    if not rest:
        raise ValueError("the mask has one bit")
    return f"{rest:x}"


def _numbers(resctrl: "Resctrl", counting: "list[Slot]") -> "dict[str, str]":
    """Return the numbers of RMIDs, of CLOSIDs, and of the domains whose memory bandwidth is counted."""
    domains = {slot.domain for slot in counting if slot.counter.name.startswith(_BANDWIDTH)}
    parts = {domain for domain in domains if domain.node is not None}  # with SNC, beside the sum of each cache
    numbers = {
        "rmids": total_rmids(resctrl),
        "closids": total_closids(resctrl),
        "domains": len(parts or domains),
    }
    return {key: str(number) for key, number in numbers.items() if number}
