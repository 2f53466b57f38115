"""Renaming of groups, which keep their RMID, their counts and their tasks: to another key, class or prefix.

Source: kernel, Documentation/filesystems/resctrl.rst ("mon_groups" and rename); Linux 6.5 and later can rename. A
refusal may concern one group only: one that monitors CPUs stays in its class.
"""

import errno

from ..errors import ResctrlError
from ..host.files import read_file, write_file
from .filesystem import MON_GROUPS
from .group import PREFIX, SHARED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .filesystem import Resctrl
    from .locked_key import LockedKey
    from .monitor import Monitor

_CANNOT = "cannot-rename"  # a file of the state directory: the boot in which the kernel could not rename
_REFUSALS = (errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV)


def can_rename(monitor: "Monitor") -> bool:
    """Return whether this kernel may be able to rename groups; false once it has shown that it can rename none."""
    try:
        return read_file(f"{monitor.ledger.folder}/{_CANNOT}", 64).decode("ascii", "replace") != monitor.boot
    except OSError:
        return True


def rename(monitor: "Monitor", rdt_class: str, name: str, new_class: str, new_name: str) -> bool:
    """Give a group another class or name; return whether the kernel did, and remember if it can rename none.

    Raises:
        ResctrlError: the kernel refused, and can rename groups.
    """
    if monitor.resctrl.move(rdt_class, name, new_class, new_name):
        return True
    if not _renames(monitor.resctrl):
        write_file(f"{monitor.ledger.folder}/{_CANNOT}", monitor.boot.encode())
    return False


def _renames(resctrl: "Resctrl") -> bool:
    """Return whether the kernel can rename groups at all; this changes nothing.

    ``info`` is no group, so a kernel that looks for the group answers ENOENT, and one that cannot rename EPERM, as to
    every rename. Measured on Linux 6.1, 6.12 and 7.2.
    """
    try:
        resctrl.fs.rename(f"{resctrl.root}/info", f"{resctrl.root}/{MON_GROUPS}/info")
    except OSError as error:
        return error.errno not in _REFUSALS
    return True


def use_present_prefix(locked: "LockedKey", monitor: "Monitor") -> "list[str]":
    """Rename a key's groups that have a former prefix; return their classes.

    The record has both names meanwhile, so that a kill leaves a known group, and no read of counters finds a record
    without its group. A shared group keeps its name, and so does a group whose new name is taken.

    Raises:
        HookError: the ledger is unusable, or a reader of counters took too long.
    """
    from ..flags import set_flag  # hooks ask only whether the kernel can rename
    from .group_moves import follow

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
