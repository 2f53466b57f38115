"""Changes of groups by this project, under the lock of the totals, so that no scrape intervenes.

Each function here reads a key's groups, notes the change, saves, and then changes the groups. Take a key's lock first.
"""

from .carried import Carried
from .counter_files import read_group
from .group import name_of
from .key_counts import class_of, group_of
from .looks import look_at, see
from .totals_file import LOCK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .carried import Counted
    from .sources import Found

_PATIENCE = 0.5  # seconds to wait for a scrape to end: a container's start may wait for it


def settle(
    monitor: "Counted",
    giver: "tuple[str, str]",
    classes: "list[str]",
    taker: "tuple[str, str]",
    rename: "Callable[[], bool]",
) -> bool:
    """Hand a group over: save the giver's counts, start the taker's at the group's present values, and rename it.

    ``giver`` and ``taker`` are a key and a class each, ``classes`` all in which the giver has groups. Return whether
    ``rename`` has succeeded; it is not called if a group cannot be read.

    Raises:
        LedgerError, LockTimeoutError: the state directory is unusable; nothing was renamed.
    """
    key, rdt_class = giver
    with monitor.ledger.lock_totals(LOCK, _PATIENCE):
        carried, found = _last_read(monitor, key, classes)
        if not found or rdt_class not in found:
            return False
        carried.leave(key, classes)
        carried.inherit(*taker, *found[rdt_class])
        carried.save()
        return rename()


def follow(monitor: "Counted", key: str, classes: "list[str]", old: str, rename: "Callable[[], bool]") -> bool:
    """Count a key's group in class ``old`` until now, and ``rename`` it; return whether that has succeeded.

    ``classes`` are all in which the key has groups. ``rename`` is not called if a group cannot be read.

    Raises:
        LedgerError, LockTimeoutError: the state directory is unusable; nothing was renamed.
    """
    with monitor.ledger.lock_totals(LOCK, _PATIENCE):
        carried, found = _last_read(monitor, key, classes)
        if not found or old not in found:
            return False
        carried.save()
        return rename()


def part_with(monitor: "Counted", key: str, classes: "list[str]", remove: "Callable[[], None]") -> bool:
    """Count a key's groups in these classes for the last time, and ``remove`` them; return whether they could be read.

    Raises:
        LedgerError, LockTimeoutError: the state directory is unusable; nothing was removed.
    """
    with monitor.ledger.lock_totals(LOCK, _PATIENCE):
        carried, found = _last_read(monitor, key, classes)
        if found is None:
            return False
        carried.leave(key, classes)
        carried.save()
        remove()
        return True


def _last_read(monitor: "Counted", key: str, classes: "list[str]") -> "tuple[Carried, Found | None]":
    """Read all groups of a key, which has some in these classes; None if one cannot be read now."""
    resctrl, record, usual = monitor.resctrl, monitor.ledger.read_pod(key), monitor.group_prefix + key
    carried = Carried(monitor)
    carried.check_mount(resctrl.root)
    own = dict.fromkeys([*classes, *(record["groups"] if record else ())])
    places = {name: resctrl.group_folder(name, name_of(record, name, usual)) for name in own}
    for folder in (resctrl.root, *places.values()):
        if not carried.seen:
            see(resctrl, carried, folder)
    others = carried.others(key)
    places.update((name, resctrl.group_folder(class_of(name), group_of(name))) for name in others)
    found, hidden = look_at(places, carried.slots, read_group)
    carried.update(key, found, hidden=True)  # other programs may have made more groups of the key
    return carried, None if hidden else found
