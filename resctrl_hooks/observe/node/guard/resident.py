"""The guard as a resident of the sampling process, and the restoration of the values that an ended guard changed."""

import posix
import time

from ....core.node.errors import HookError
from ....core.node.host.instance import RunningError
from ....core.node.host.topology_sysfs import find_topology
from ....core.node.log import ERROR, NOTICE, WARNING
from ....core.node.resctrl.absence import why_no_monitoring
from ..resident import Moment, Resident
from .guard import STAGE, Guard
from .lease import GUARD
from .recovery import become_owner, restore_ended, restore_left
from .section import ACT, OFF, section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.node.context import Context
    from ....core.node.restored import Restored


class GuardResident(Resident):
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


def start(context: "Context") -> "GuardResident | None":
    """Restore the leftovers of an earlier guard, whose values would pass for declared ones, and start.

    Raises:
        HookError: another guard runs, a value could not be restored, or resctrl is not mounted.
    """
    settings = section(context.settings)
    if settings["mode"] == OFF:
        return None  # the process itself restores what others leave
    missing = why_no_monitoring(context.monitor.resctrl)
    if missing is not None:
        context.log(NOTICE, f"guard: off: {missing}", stage=STAGE, reason=missing.reason)
        return None
    try:
        lock = become_owner(context.settings.state_dir, GUARD)
    except RunningError as error:
        raise HookError(f"{error}; its end restores all values") from None
    try:
        _restore_leftovers(context)
        guard = Guard(context, find_topology(context.settings.sys_path), posix.getpid(), time.monotonic())
    except BaseException:
        posix.close(lock)
        raise
    if guard.mode == ACT:
        context.log(NOTICE, "guard: mode act is experimental", stage=STAGE)
    return GuardResident(guard, float(settings["interval"]), lock)


def _restore_leftovers(context: "Context") -> None:
    result = restore_left(context.monitor.resctrl, context.settings.state_dir, context.proc)
    if not log_restored(context, result):
        raise HookError(f"the values that {result.owner} changed are not all restored")


def restore_values(context: "Context") -> bool:
    """Restore the values of an owner that has ended, or whose lease has; return whether all could be restored.

    Raises:
        HookError: the owner works.
        LeaseError: the lease cannot be read. It stays.
    """
    try:
        return log_restored(context, restore_ended(context))
    except RunningError as error:
        raise HookError(f"{error}; its end restores all values, or the deadline of its lease") from None


def log_restored(context: "Context", result: "Restored", stage: str = STAGE) -> bool:
    """Log a restoration; return whether all values could be restored."""
    for line in result.done:
        context.log(NOTICE, f"{stage}: restored {line}; {result.owner} had changed it", stage=stage)
    for line in result.foreign:
        context.log(WARNING, f"{stage}: {line}", stage=stage)
    for line in result.failed:
        context.log(ERROR, f"{stage}: cannot restore {line}", stage=stage)
    return not result.failed
