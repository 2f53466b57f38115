"""Application of steps, the same for starting and running containers."""

from . import errors
from .ledger import WAITING
from .registry import failure_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from .context import Context
    from .feature import Container, Feature, Rest, Step
    from .resctrl.locked_key import LockedKey

    Result = TypeVar("Result")


def apply_steps(
    steps: "list[tuple[Feature, Step]]",
    container: "Container",
    locked: "LockedKey",
    context: "Context",
    on_step: "Callable[[int, errors.HookError | None], None]",
) -> None:
    """Apply steps in order, each independently; the container's record has them already.

    The rest of steps, such as checks, comes after `Context.answer`. ``on_step`` is called after each step with its
    number and its error, None for success, and again if its rest fails.

    Raises:
        DeadlineError: no time is left for the others.
    """
    if container.leaf is not None and container.leaf.own_scope:
        from .cgroup_settings.told import collect  # only where systemd manages the container

        collect(steps, container, container.leaf, context)
    rests: "list[tuple[int, Rest]]" = []

    def apply(number: int) -> None:
        rest = _apply(*steps[number], container, locked, context)
        if rest is not None:
            rests.append((number, rest))

    for number in range(len(steps)):
        on_step(number, _problem(apply, number))
    context.answer()
    for number, rest in rests:
        problem = _problem(rest)
        if problem is not None:
            on_step(number, problem)


def _problem(act: "Callable[..., object]", *arguments: int) -> "errors.HookError | None":
    """Return the error of ``act``; a failure of one feature must not affect others, but a timeout concerns all."""
    try:
        act(*arguments)
    except errors.DeadlineError:
        raise
    except errors.HookError as error:
        return error
    except Exception as caught:  # noqa: BLE001  # as above
        from .fault_report import as_hook_error  # only when something is broken

        return as_hook_error(caught)
    return None


def _apply(
    feature: "Feature", step: "Step", container: "Container", locked: "LockedKey", context: "Context"
) -> "Rest | None":
    """Apply a step and return its rest; reconcile serves a key that waits for an RMID."""
    try:
        return with_room(lambda: feature.apply(step, container, locked, context), step.feature, locked.key, context)
    except errors.NoRMIDsError:
        context.ledger.wake()
        raise


def with_room(act: "Callable[[], Result]", feature: str, key: str, context: "Context") -> "Result":
    """Call a feature's ``act`` and return its result; if no RMID is free, release dead keys and call it once more.

    ``key`` is locked. All dead keys are searched if the container would be refused.

    Raises:
        NoRMIDsError: there is still none.
    """
    try:
        return act()
    except errors.NoRMIDsError:
        from .lifecycle import make_room  # rarely needed

        if not make_room(context, key, thorough=failure_policy(feature, context.settings) == "fail"):
            raise
        result = act()
        context.ledger.unmark(WAITING, key)  # of the first try
        return result
