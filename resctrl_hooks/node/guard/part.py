"""The guard as a part of the resident process, and the restoration of the values that an ended guard changed."""

import posix
import time

from ..errors import HookError
from ..host.instance import RunningError, only_instance
from ..host.topology_sysfs import find_topology
from ..log import ERROR, NOTICE, WARNING
from ..part import Moment, Part
from .guard import STAGE, Guard
from .lease import LOCK, restore_left
from .section import ACT, OFF, section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context


class GuardPart(Part):
    """A guard that holds the lock of this node's lease."""

    name = STAGE

    def __init__(self, guard: Guard, interval: float, lock: int) -> None:
        self.interval = interval
        self.status = f"mode {guard.mode}"
        self._guard = guard
        self._lock = lock

    def sample(self, moment: Moment) -> None:
        """Sample all memory domains, and apply the law's changes."""
        self._guard.sample(moment.when)

    def close(self) -> None:
        """Restore every value.

        Raises:
            HookError: a value could not be restored; the lease keeps it.
        """
        try:
            if not self._guard.end():
                raise HookError("not all values are restored", hint="run `resctrl-hook guard restore`")
        finally:
            posix.close(self._lock)


def start(context: "Context") -> "GuardPart | None":
    """Restore the leftovers of an earlier guard, whose values would pass for declared ones, and start.

    Raises:
        HookError: another guard runs, a value could not be restored, or resctrl is not mounted.
    """
    settings = section(context.settings)
    lock = hold(context)
    try:
        _restore_leftovers(context)
        if settings["mode"] != OFF:
            guard = Guard(context, find_topology(context.settings.sys_path), posix.getpid(), time.monotonic())
            if guard.mode == ACT:
                context.log(NOTICE, "guard: mode act is experimental", stage=STAGE)
            return GuardPart(guard, float(settings["interval"]), lock)
    except BaseException:
        posix.close(lock)
        raise
    posix.close(lock)
    return None


def hold(context: "Context") -> int:
    """Take the lock of the node's lease and return its descriptor.

    Raises:
        HookError: another guard, or an experiment, holds it.
    """
    try:
        return only_instance(f"{context.settings.state_dir}/{LOCK}")
    except RunningError as error:
        raise HookError(f"{error}; its end restores all values") from None


def give_back(context: "Context") -> bool:
    """Restore the values of an existing lease; return whether all could be restored.

    Raises:
        LeaseError: the lease cannot be read. It stays.
    """
    result = restore_left(context.monitor.resctrl, context.settings.state_dir, context.proc)
    for line in result.done:
        context.log(NOTICE, f"guard: restored {line}", stage=STAGE)
    for line in result.foreign:
        context.log(WARNING, f"guard: {line}", stage=STAGE)
    for line in result.failed:
        context.log(ERROR, f"guard: cannot restore {line}", stage=STAGE)
    return not result.failed


def _restore_leftovers(context: "Context") -> None:
    if not give_back(context):
        raise HookError("the values of an earlier guard are not all restored")
