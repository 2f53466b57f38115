"""Start a program in a group before its first instruction.

A thread that forks passes its own group to the child (kernel: the task's CLOSID and RMID are copied). So the calling
thread enters the group, starts the program, and returns to its place: there is no code between fork and exec, which is
unsafe beside other threads, and no launcher, whose errors would replace the program's. Only this one thread moves.
"""

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

from resctrl_hooks.core.node.errors import ClassMismatchError, HookError, ResctrlError
from resctrl_hooks.core.node.host.procfs import resctrl_groups_of
from resctrl_hooks.core.node.log import WARNING
from resctrl_hooks.core.node.resctrl.filesystem import Resctrl
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.resctrl.monitor import Monitor

_Place = tuple[str, str]  # RDT class and mon_group, as `Resctrl` names them


def start_in(
    monitor: Monitor, locked: LockedKey, rdt_class: str, argv: Any, options: dict[str, Any]
) -> subprocess.Popen[Any]:
    """Start a program in the held key's group in a class, created if missing.

    If that fails, a group that was created for it is removed.
    """
    is_new = rdt_class not in locked.origins
    group = locked.ensure_group(rdt_class)
    process = None
    try:
        with _thread_in(monitor, (rdt_class, group.name)):
            process = subprocess.Popen(argv, **options)
    except BaseException:
        if process is not None:
            with process:  # closes its pipes, and waits
                process.kill()
        with contextlib.suppress(HookError):  # the reason of the failure is more important
            if is_new:
                locked.remove_unused(rdt_class)
        raise
    return process


@contextlib.contextmanager
def _thread_in(monitor: Monitor, place: _Place) -> Iterator[None]:
    """Move this thread into a group, and back at the end."""
    resctrl, tid = monitor.resctrl, threading.get_native_id()
    home = _place_of(resctrl, tid)
    try:
        _move(resctrl, place, tid)
        resctrl.check_arrival(*place, os.getpid(), {tid})
        yield
    finally:
        for back in (home, (home[0], ""), ("", "")):  # its group or class may have ended meanwhile
            try:
                _move(resctrl, back, tid)
                break
            except ResctrlError as error:
                monitor.log(WARNING, f"cannot move a thread back after the start of a program: {error}")


def _move(resctrl: Resctrl, place: _Place, tid: int) -> None:
    """Move a thread into a group, or with an empty name into the class itself, also from another class."""
    rdt_class, name = place
    try:
        resctrl.add_tasks(rdt_class, name, [tid])
    except ClassMismatchError:
        if not name:
            raise
        resctrl.add_tasks(rdt_class, "", [tid])
        resctrl.add_tasks(rdt_class, name, [tid])


def _place_of(resctrl: Resctrl, tid: int) -> _Place:
    """Return the class and group of a thread: of /proc, else of the group that lists it, as in a simulation."""
    try:
        found = resctrl_groups_of(resctrl.proc, os.getpid(), tid)
    except ProcessLookupError:
        found = None  # another PID namespace's /proc
    if found is not None:
        return found
    places = [(rdt_class, name) for rdt_class in ("", *resctrl.classes()) for name in (*resctrl.groups(rdt_class), "")]
    return next((place for place in places if tid in resctrl.tasks(*place)), ("", ""))
