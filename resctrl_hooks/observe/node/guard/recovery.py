"""Who may change MB values, and the restoration of the values of an owner that has ended, is stopped or hangs.

There is one owner: it holds `LOCK`. A process that restores values holds `_RESTORING`, and no process becomes the owner
meanwhile. These restore the values of an owner that has ended: ``guard restore`` (``ExecStopPost`` of the unit), the
next owner (`resident`), `watch` in the sampling process and beside an experiment, each pass of reconcile, and
``release`` (``values`` in `observe.node.part`).
"""

import posix

from ....core.node.host.instance import RunningError, only_instance
from ....core.node.restored import Restored
from .changes import restore
from .lease import GUARD, LOCK, NAME, Lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.node.context import Context
    from ....core.node.resctrl.filesystem import Resctrl

_RESTORING = "guard-restore.lock"
_RESTORATION = "a restoration of MB values"


def become_owner(state_dir: str, owner: str) -> int:
    """Become the owner of MB values and return the descriptor that holds the lock.

    Raises:
        RunningError: another process is the owner, or restores values now.
        OSError: a lock's file cannot be opened.
    """
    lock = only_instance(f"{state_dir}/{LOCK}", owner)
    try:
        posix.close(only_instance(f"{state_dir}/{_RESTORING}", _RESTORATION))
    except BaseException:
        posix.close(lock)
        raise
    return lock


def restore_ended(context: "Context") -> Restored:
    """Restore the changes of an owner that has ended, or whose lease has: it is stopped or hangs.

    Raises:
        RunningError: the owner works, or another process restores its values now.
        LeaseError: the lease cannot be read. It stays.
        OSError: a lock's file cannot be opened.
    """
    resctrl, state_dir, proc = context.monitor.resctrl, context.settings.state_dir, context.proc
    try:
        posix.lstat(f"{state_dir}/{NAME}")
    except FileNotFoundError:
        return Restored(GUARD)  # most passes of reconcile
    restoring = only_instance(f"{state_dir}/{_RESTORING}", _RESTORATION)
    try:
        try:
            lock = only_instance(f"{state_dir}/{LOCK}", _RESTORATION)
        except RunningError as running:
            return _restore_over(resctrl, Lease(state_dir, proc), running)
        try:
            return restore_left(resctrl, state_dir, proc)
        finally:
            posix.close(lock)
    finally:
        posix.close(restoring)


def _restore_over(resctrl: "Resctrl", lease: Lease, running: RunningError) -> Restored:
    """Restore the values of a lease that is over, beside its live owner. The file stays until the owner ends.

    Raises:
        RunningError: the lease is not over, or not of this owner.
        LeaseError: the lease cannot be read.
    """
    try:
        if not lease.load() or lease.pid != running.pid or not lease.is_over:
            raise running
    except ValueError as error:
        raise running from error
    result = restore(resctrl, lease, keep=True)
    result.owner = f"{result.owner} (process {lease.pid}, stopped or hung)"
    return result


def restore_left(resctrl: "Resctrl", state_dir: str, proc: str) -> Restored:
    """Restore the changes of an earlier owner of this boot; the caller holds `LOCK`.

    Raises:
        LeaseError: the lease cannot be read. It stays.
    """
    lease, result = Lease(state_dir, proc), Restored(GUARD)
    try:
        if lease.load():
            return restore(resctrl, lease)
        lease.remove()  # of an earlier boot: resctrl has its own values again
    except ValueError as error:
        result.failed.append(
            f"the changed MB values: {lease.path} is damaged ({error}); "
            "compare the classes with `resctrl-hook rdt show`, correct them, then remove the file"
        )
    return result
