"""Steps, applied: the same for a container that is about to start and for one that runs."""

from . import errors
from .registry import failure_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .context import Context
    from .feature import Container, Feature, Step
    from .resctrl.locked_key import LockedKey


def apply_steps(
    steps: "list[tuple[Feature, Step]]",
    container: "Container",
    locked: "LockedKey",
    context: "Context",
    on_step: "Callable[[int, errors.HookError | None], None]",
) -> None:
    """Apply steps in their order, each apart from the others; the container's record has them by now.

    ``on_step`` is called after each step with its number and what went wrong with it, None for nothing.

    Raises:
        DeadlineError: no time is left for the others.
    """
    if container.leaf is not None and container.leaf.own_scope:
        from .cgroup_settings.told import collect  # only where systemd manages the container

        collect(steps, container, container.leaf, context)
    for number, (feature, step) in enumerate(steps):
        problem = None
        try:
            _apply(feature, step, container, locked, context)
        except errors.DeadlineError:
            raise
        except errors.HookError as error:
            problem = error
        except Exception as caught:  # noqa: BLE001  # no feature's trouble is another's
            from .fault_report import as_hook_error  # only when something is broken

            problem = as_hook_error(caught)
        on_step(number, problem)


def _apply(feature: "Feature", step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
    """Apply a step; a key for which no RMID is free waits for reconcile."""
    try:
        with_room(lambda: feature.apply(step, container, locked, context), step.feature, locked.key, context)
    except errors.ResctrlError as error:
        if is_without_rmid(error):
            context.ledger.mark("waiting", locked.key)
            context.ledger.wake()
        raise


def with_room(act: "Callable[[], None]", feature: str, key: str, context: "Context") -> None:
    """Call ``act``, of a feature; where that finds no RMID free, end what is dead and call it once more.

    ``key`` is locked. All dead keys are looked for where the container would be refused.

    Raises:
        NoRMIDsError: there is still none.
    """
    try:
        act()
    except errors.ResctrlError as error:
        if not is_without_rmid(error):
            raise
        from .lifecycle import make_room  # few hooks find none

        if not make_room(context, key, thorough=failure_policy(feature, context.settings) == "fail"):
            raise
        act()


def is_without_rmid(error: Exception) -> bool:
    """Return whether an error says that no RMID is free."""
    from .resctrl.errors import NoRMIDsError  # only when something went wrong

    return isinstance(error, NoRMIDsError)
