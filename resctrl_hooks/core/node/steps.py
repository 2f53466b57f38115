"""Application of steps, the same for starting and running containers."""

from . import errors

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
    is_wanted: "Callable[[int], bool] | None" = None,
) -> None:
    """Apply steps, each independently; the container's record has them already.

    Those that run programs come last, without the key's lock. The others of the pod may change the key meanwhile.
    ``on_step`` is called after each step with its number and its error, None for success. It raises the error to leave
    out the other steps, as after a `DeadlineError` without more time. A step that `is_wanted` refuses just before it is
    left out.

    Raises:
        DeadlineError: another process holds the key for too long, or no time is left between two steps.
    """
    if container.leaf is not None and container.leaf.own_scope:
        from .cgroup_settings.told import collect  # only where systemd manages the container

        collect(steps, container, container.leaf, context)
    outside = [number for number, (feature, step) in enumerate(steps) if feature.runs_programs(step, context)]
    for number, (feature, step) in enumerate(steps):
        if number not in outside and (is_wanted is None or is_wanted(number)):
            on_step(number, _problem_of(feature, step, container, locked, context, needs_key=True))
    if not outside:
        return
    from .outside import Outside  # few containers have such steps

    try:
        with Outside(locked, container.id, context):
            for number in outside:
                feature, step = steps[number]
                if (context.ledger.read_member(locked.key, container.id) or {}).get("pid") != container.pid:
                    on_step(number, errors.TaskGoneError.of(container.pid))  # its end was served before
                elif is_wanted is None or is_wanted(number):
                    on_step(number, _problem_of(feature, step, container, locked, context, needs_key=False))
    except errors.LockTimeoutError as error:
        raise errors.DeadlineError(str(error)) from error


def _problem_of(
    feature: "Feature",
    step: "Step",
    container: "Container",
    locked: "LockedKey",
    context: "Context",
    *,
    needs_key: bool,
) -> "errors.HookError | None":
    """Apply a step, and return its error.

    Raises:
        DeadlineError: it lost the key, which the others need.
    """
    try:
        _apply(feature, step, container, locked, context)
    except errors.HookError as error:
        if needs_key and not locked.is_held and isinstance(error, errors.DeadlineError):
            raise
        return error
    except Exception as caught:  # noqa: BLE001  # a failure of one feature must not affect others
        from .fault_report import as_hook_error  # only when something is broken

        return as_hook_error(caught)
    return None


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
        from .class_needs import stop_waiting  # rarely needed, as the next ones
        from .failure_policies import refuses
        from .lifecycle import make_room

        locked.unlock()  # the end of a dead pod can take its time
        try:
            freed = make_room(context, locked.key, thorough=refuses(feature, context))
        finally:
            locked.lock_again(context.monitor.patience)
        if not freed:
            raise
        act()
        stop_waiting(locked, context)  # marked by the first try
