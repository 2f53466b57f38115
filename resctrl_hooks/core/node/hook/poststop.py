"""The poststop stage: undo createRuntime's work for a container."""

from ..lifecycle import is_of_earlier_run, release_container, release_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context


def poststop(container: str, key: str, context: "Context") -> str:
    """Undo the recorded steps of a container of ``key``.

    Returns a short description; an empty one for a container that was only recorded.

    Raises:
        HookError: the ledger or resctrl is unusable.
    """
    with context.monitor.hold(key) as locked:
        record = locked.member(container)
        if is_of_earlier_run(record, context):
            return "ignored: late poststop of an earlier run"
        only_recorded = record is not None and not (record.get("steps") or locked.origins)
        release_container(locked, container, context)
        released = release_key(locked, context)
        return "" if only_recorded else f"{'released' if released else 'left'} {key}"
