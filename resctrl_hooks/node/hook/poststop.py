"""The poststop stage: takes back what createRuntime did for a container."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.oci import State
    from ..context import Context


def poststop(state: "State", context: "Context") -> str:
    """Take back what the ledger recorded of a container: the state may be poorer than createRuntime's was.

    Says in a few words what was done.

    Raises:
        HookError: the ledger or resctrl can't be used.
    """
    key = context.ledger.key_of(state.id)
    if not key:
        return ""
    from ..lifecycle import is_of_earlier_run, release_container, release_key  # createRuntime doesn't need it

    with context.monitor.hold(key) as locked:
        if is_of_earlier_run(locked.member(state.id), context):
            return "it was started again and lives, so this poststop is an earlier run's; nothing is done"
        release_container(locked, state.id, context)
        return f"released {key}" if release_key(locked, context) else f"left {key}"
