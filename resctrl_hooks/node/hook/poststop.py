"""The poststop stage: undo createRuntime's work for a container."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.oci import State
    from ..context import Context


def poststop(state: "State", context: "Context") -> str:
    """Undo the recorded steps of a container; the state may have less data than createRuntime's.

    Returns a short description.

    Raises:
        HookError: the ledger or resctrl is unusable.
    """
    key = context.ledger.key_of(state.id)
    if not key:
        return ""
    from ..lifecycle import is_of_earlier_run, release_container, release_key  # createRuntime does not need it

    with context.monitor.hold(key) as locked:
        if is_of_earlier_run(locked.member(state.id), context):
            return "ignored: late poststop of an earlier run"
        release_container(locked, state.id, context)
        return f"released {key}" if release_key(locked, context) else f"left {key}"
