"""Renaming of groups, which keep their RMID, their counts and their tasks: to another key, class or prefix.

Source: kernel, Documentation/filesystems/resctrl.rst ("mon_groups" and rename); Linux 6.5 and later can rename. A
refusal may concern one group only: one that monitors CPUs stays in its class.
"""

import errno

from ..host.files import read_file, write_file
from .filesystem import MON_GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .filesystem import Resctrl
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
