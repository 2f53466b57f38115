"""Conditions of the whole node that need attention at once: an unwritable state directory, a late reconcile."""

import os
import time
from typing import Final

from resctrl_hooks.core.node import call_metrics
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError

RECONCILE: Final = "reconcile"
LATE: Final = 180
"""Seconds since the last pass of reconcile after which it is late; its timer starts it every 30 seconds."""
LEAST_BYTES: Final = 64 << 10
"""Free bytes of the state directory below which records may not be written: a record has up to some kilobytes."""


def warnings_of(context: Context) -> list[str]:
    """Return the conditions of a node that need attention, as sentences."""
    folder = context.settings.state_dir
    if free_bytes(folder) is None:
        return []  # nothing has run here, and reading must not create the directory
    problem = state_problem(folder)
    found = [problem] if problem else []
    age = reconcile_age(context)
    if age is not None and age > LATE:
        found.append(f"reconcile last completed a pass {age:.0f} s ago: pods that wait for an RMID keep waiting")
    return found


def state_problem(folder: str) -> str:
    """Return why records cannot be written to a state directory; empty if they can, or if it does not exist yet."""
    free = free_bytes(folder)
    if free is None:
        return ""  # the next read of records reports an error
    there = os.path.exists(folder)
    if there and not os.path.isdir(folder):
        what = f"{folder} is not a directory"
    elif there and os.geteuid() == 0 and not os.access(folder, os.W_OK):
        what = f"the file system of {folder} is read-only"
    elif free < LEAST_BYTES:
        what = f"the file system of {folder} is full"
    else:
        return ""
    return f"{what}: new containers start without monitoring"


def free_bytes(folder: str) -> int | None:
    """Return what root can still write to a folder's file system, 0 if it has no inode left; None if unknown."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return None
    return 0 if room.f_files and not room.f_ffree else room.f_bfree * room.f_frsize


def reconcile_age(context: Context) -> float | None:
    """Return how many seconds ago reconcile completed its last pass; None if it never did, or if that is unknown."""
    try:
        return age_of(call_metrics.read(context.ledger))
    except HookError:
        return None


def age_of(calls: call_metrics.CallMetrics) -> float | None:
    """Return the age of reconcile's last pass in seconds; None without one."""
    last = calls.stage(RECONCILE).last
    return max(time.time() - last, 0.0) if last else None
