"""The poststop stage: undo createRuntime's work for a container."""

from ..lifecycle import is_of_earlier_run, release_container, release_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context


def poststop(container: str, key: str, context: "Context") -> str:
    """Undo the recorded steps of a container of ``key``.

    Returns a short description.

    Raises:
        HookError: the ledger or resctrl is unusable.
    """
    with context.monitor.hold(key) as locked:
        if is_of_earlier_run(locked.member(container), context):
            return "ignored: late poststop of an earlier run"
        release_container(locked, container, context)
        return f"released {key}" if release_key(locked, context) else f"left {key}"
