"""One step, applied: the same for a container that is about to start and for one that runs."""

from . import errors
from .registry import failure_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .context import Context
    from .feature import Container, Feature, Step
    from .resctrl.locked_key import LockedKey


def apply_step(
    feature: "Feature", step: "Step", container: "Container", locked: "LockedKey", context: "Context"
) -> None:
    """Apply a step; a key for which no RMID is free waits for reconcile.

    Raises:
        HookError: as `Feature.apply`.
    """
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
