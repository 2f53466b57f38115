"""A change of ``stateDir``: the new path leads to the present state directory, which exists until the next boot.

So running hooks and services, which use the old path until they end, and new ones share all records and locks.
"""

import os

from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.host.durable import replace_file
from resctrl_hooks.core.node.host.links import PATHS
from resctrl_hooks.core.node.ledger import Ledger

_MODE = 0o600
_HINT = "choose a new path on the same file system, or apply it without pods, for example after a drain"


def lead_to_present(before: str, after: str, *, dry_run: bool = False) -> None:
    """Make ``after`` a link to the state directory ``before`` if there is one.

    If that is not possible, a directory without records of pods is left behind.

    Raises:
        SettingsError: the new path exists, or is on another file system, where a link could outlive the records.
        OSError: from the kernel.
    """
    present = os.path.realpath(before)
    if os.path.realpath(after) == present or not os.path.isdir(f"{present}/pods"):
        return
    obstacle = _obstacle(present, after)
    if obstacle:
        ledger = Ledger(present)
        pods = len([key for key in ledger.keys() if ledger.read_pod(key)])  # noqa: SIM118  # it is no dictionary
        if pods:
            what = f"stateDir: {before} has the records of {pods} pod{'' if pods == 1 else 's'}, and {after}"
            raise SettingsError(f"{what} {obstacle}", hint=_HINT)
    if dry_run or obstacle:
        return
    if os.path.isdir(after):
        os.rmdir(after)
    os.makedirs(os.path.dirname(after), exist_ok=True)
    known = _links_to(present)
    replace_file(f"{present}/{PATHS}", "".join(f"{path}\n" for path in {**known, after: None}).encode(), _MODE)
    os.symlink(present, after)


def _obstacle(present: str, after: str) -> str:
    """Return why a path cannot become a link to the present directory; empty if it can."""
    if os.path.lexists(after) and (os.path.islink(after) or not os.path.isdir(after) or os.listdir(after)):
        return "exists, too"
    parent = os.path.dirname(after)
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    return "" if os.stat(parent).st_dev == os.stat(present).st_dev else "is on another file system"


def _links_to(folder: str) -> dict[str, None]:
    try:
        with open(f"{folder}/{PATHS}", encoding="utf-8") as file:
            return dict.fromkeys(file.read().splitlines())
    except FileNotFoundError:
        return {}
