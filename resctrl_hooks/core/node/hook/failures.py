"""What a failure in createRuntime does: the container starts without the feature, or is refused and all is undone.

Only a call in which something fails imports this module.
"""

from .. import errors
from ..class_needs import needed_classes
from ..container.oci import CREATE_RUNTIME
from ..context import TIME_TO_TAKE_BACK, set_deadline
from ..failure_policies import incomplete_refuses, refuses
from ..fault_report import as_hook_error
from ..log import DEBUG, WARNING
from ..refusals import RefusedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..container.workload import Workload
    from ..context import Context
    from ..resctrl.locked_key import LockedKey


def trouble(name: str, caught: Exception, workload: "Workload", context: "Context", late: str) -> "errors.HookError":
    """Return a feature's failure as a RefusedError if its policy is to refuse; otherwise log it.

    Features fail independently, also one that is at work at the deadline; ``late`` then names what took so long.
    """
    error = _late(late, context) if isinstance(caught, errors.DeadlineError) else as_hook_error(caught)
    context.failures.append(error.reason)
    if refuses(name, context):
        return RefusedError.of(name, error)
    priority = WARNING
    if isinstance(error, errors.NotMountedError):
        from ..once import is_new

        priority = WARNING if is_new(context.ledger, context.monitor.boot, error.reason) else DEBUG
    context.log(
        priority,
        f"{name} of {workload}: {error}",
        stage=CREATE_RUNTIME,
        key=workload.key,
        container=workload.id,
        **error.fields(),
    )
    return error


def _late(what: str, context: "Context") -> "errors.HookError":
    """Return the error of a feature that was at work at the deadline; reconcile serves it again soon."""
    error = errors.HookError(f"{what} longer than the deadline of the hook", hint=errors.DeadlineError.hint)
    error.reason = errors.DeadlineError.reason
    context.ledger.wake()
    return error


def concluded(caught: Exception, pending: "Iterable[str]", context: "Context") -> "errors.HookError":
    """Return the error that ends a call; its ``refuses`` is whether the container is rejected.

    ``pending`` is as in `incomplete_refuses`.
    """
    error = as_hook_error(caught)
    error.refuses = error.refuses or incomplete_refuses(context, pending)
    return error


def leave(error: "errors.HookError", workload: "Workload", context: "Context") -> None:
    """Leave the remainder to reconcile, or undo everything under ``fail``: poststop may never come."""
    if not error.refuses:
        if isinstance(error, (errors.DeadlineError, errors.LockTimeoutError)):
            context.ledger.wake()  # reconcile finds the container itself; it may need no RMID
    elif not isinstance(error, errors.LockTimeoutError):  # without the lock nothing was done
        try:
            set_deadline(TIME_TO_TAKE_BACK)
            from ..lifecycle import forget  # its import can take longer than the deadline left

            forget(workload.id, workload.key, context)
        except (errors.HookError, OSError):
            pass  # reconcile finds the remainder dead
        finally:
            set_deadline(0)


def take_back(
    locked: "LockedKey", container: str, context: "Context", *, classes: "set[str]", was_tracked: bool
) -> None:
    """Release a refused container, and the groups that were created for it.

    Args:
        locked: its key.
        container: its id.
        context: the node.
        classes: the classes in which the key had groups before.
        was_tracked: whether the key had a record before.
    """
    from ..lifecycle import release_container  # as above

    release_container(locked, container, context)
    others = [name for name in locked.members() if name != container]
    if not was_tracked and not others:
        locked.release()
    else:  # the pod's other containers may have joined groups while the lock was released
        locked.release_but(classes | needed_classes(locked, others, context))
