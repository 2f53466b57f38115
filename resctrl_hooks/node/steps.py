"""Application of steps, the same for starting and running containers."""

from . import errors
from .feature import stop_waiting
from .registry import refuses

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
    """Apply steps in order, each independently; the container's record has them already.

    ``on_step`` is called after each step with its number and its error, None for success.

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
        except Exception as caught:  # noqa: BLE001  # a failure of one feature must not affect others
            from .fault_report import as_hook_error  # only when something is broken

            problem = as_hook_error(caught)
        on_step(number, problem)


def _apply(feature: "Feature", step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
    """Apply a step; reconcile serves a key that waits for an RMID."""
    try:
        with_room(lambda: feature.apply(step, container, locked, context), step.feature, locked, context)
    except errors.NoRMIDsError:
        context.ledger.wake()
        raise


def with_room(act: "Callable[[], None]", feature: str, locked: "LockedKey", context: "Context") -> None:
    """Call a feature's ``act`` for a key; if no RMID is free, release dead keys and call it once more.

    All dead keys are searched if the container would be refused.

    Raises:
        NoRMIDsError: there is still none.
    """
    try:
        act()
    except errors.NoRMIDsError:
        from .lifecycle import make_room  # rarely needed

        if not make_room(context, locked.key, thorough=refuses(feature, context)):
            raise
        act()
        stop_waiting(locked, context)  # marked by the first try
