"""Renaming of a key's groups after a change of the prefix of group names: reconcile gives them the present prefix."""

from ..errors import ResctrlError
from ..flags import set_flag
from .group import PREFIX, SHARED
from .group_moves import follow
from .renaming import can_rename, rename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .locked_key import LockedKey
    from .monitor import Monitor


def use_present_prefix(locked: "LockedKey", monitor: "Monitor") -> "list[str]":
    """Rename a key's groups that have a former prefix; return their classes.

    The record has both names meanwhile, so that a kill leaves a known group, and no read of counters finds a record
    without its group. A shared group keeps its name, and so does a group whose new name is taken.

    Raises:
        HookError: the ledger is unusable, or a reader of counters took too long.
    """
    resctrl, new = monitor.resctrl, locked.usual_name
    renamed = []
    for rdt_class, old in sorted(locked.names().items()):
        if old == new or locked.origins[rdt_class] == SHARED or not can_rename(monitor):
            continue
        if not resctrl.exists(rdt_class, old) or resctrl.exists(rdt_class, new):
            continue
        for name in (old, new):
            set_flag(monitor.ledger, f"{PREFIX}{name[: -len(locked.key)]}", on=True)

        def move(rdt_class: str = rdt_class) -> bool:
            return _rename(locked, monitor, rdt_class)

        if follow(monitor, locked.key, sorted(locked.origins), rdt_class, move):
            renamed.append(rdt_class)
    return renamed


def _rename(locked: "LockedKey", monitor: "Monitor", rdt_class: str) -> bool:
    locked.record["renaming"] = {rdt_class: locked.usual_name}
    locked.save()
    try:
        moved = rename(monitor, rdt_class, locked.name_in(rdt_class), rdt_class, locked.usual_name)
    except ResctrlError:
        moved = False  # the group has just gone, or its new name was taken
    del locked.record["renaming"]
    if moved:
        locked.note_group(rdt_class, locked.origins[rdt_class])
    locked.save()
    return moved
