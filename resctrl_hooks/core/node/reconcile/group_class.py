"""The rename of a key's group into another RDT class: RMID, counts and tasks go with it."""

from ..errors import LockTimeoutError, ResctrlError
from ..resctrl.group import SHARED
from ..resctrl.group_moves import follow
from ..resctrl.renaming import rename
from ..resctrl.rmids import rmids_of_each_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..resctrl.locked_key import LockedKey


def move_group(locked: "LockedKey", context: "Context", old: str, new: str) -> bool:
    """Rename the group of class ``old`` into class ``new``, if that has none of the key; return whether it did.

    A rename changes the class of every task in the group. Linux before 6.5 cannot rename; both groups are kept then and
    counted together.
    """
    resctrl = context.monitor.resctrl
    if locked.origins.get(old, SHARED) == SHARED or new in locked.origins:
        return False
    # The kernel would keep a number that another group of the new class may have, and count both as one.
    if rmids_of_each_class(resctrl):
        return False
    name = locked.name_in(old)
    if not resctrl.exists(old, name) or resctrl.exists(new, locked.usual_name):
        return False
    locked.note_group(new, locked.origins[old])
    locked.save()  # before the rename, so that the group is ours in either class

    def rename_it() -> bool:
        return rename(context.monitor, old, name, new, locked.usual_name)

    try:
        moved = follow(context.monitor, locked.key, sorted({*locked.origins} - {new}), old, rename_it)
    except (LockTimeoutError, ResctrlError):  # such as of a reader that takes long: a second group counts at once
        moved = False
    locked.forget_groups(old if moved else new)
    since = locked.record.get("since", {})
    if moved and old in since:
        since[new] = since.pop(old)
    locked.save()
    return moved
