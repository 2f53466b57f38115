"""A change of ``stateDir``: the new path leads to the present state directory until the next boot.

So running hooks and services, which use the old path until they end, and new ones share all records and locks.
"""

import os

from resctrl_hooks.node.errors import SettingsError
from resctrl_hooks.node.ledger import Ledger


def lead_to_present(before: str, after: str, *, dry_run: bool = False) -> None:
    """Make ``after`` a link to the state directory ``before`` if there is one.

    Raises:
        SettingsError: both have records.
        OSError: from the kernel.
    """
    present = os.path.realpath(before)
    if os.path.realpath(after) == present or not os.path.isdir(present):
        return
    if os.path.isdir(after) and (os.path.islink(after) or os.listdir(after)):
        pods = len(Ledger(present).keys())
        if not pods:
            return
        raise SettingsError(
            f"stateDir: {before} has the records of {pods} pod{'' if pods == 1 else 's'}, and {after} exists too",
            hint="choose a path that does not exist",
        )
    if dry_run:
        return
    if os.path.isdir(after):
        os.rmdir(after)
    elif os.path.islink(after):
        os.unlink(after)  # it led to the directory of an earlier boot
    os.makedirs(os.path.dirname(after), exist_ok=True)
    os.symlink(present, after)
