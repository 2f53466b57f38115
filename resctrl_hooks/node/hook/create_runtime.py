"""The createRuntime stage: plan a workload's steps and apply them before it runs, each feature independently.

A failure is logged and the container starts without the feature; under the policy ``fail``, all steps are undone.
"""

from .. import errors
from ..container.oci import CREATE_RUNTIME
from ..feature import SKIP, needed_classes
from ..feature_table import NODE
from ..log import INFO, WARNING
from ..registry import failure_policy, features_in_use, kind_of, plan
from ..steps import apply_steps
from .deadline import TIME_TO_TAKE_BACK, set_deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.workload import Workload
    from ..context import Context
    from ..feature import Feature, Step
    from ..records import MemberRecord
    from ..refusals import RefusedError
    from ..resctrl.locked_key import LockedKey

_UNREAD = ("-policy.nri.io", "epc-limit.nri.io")  # a part of each annotation that `container.unread` finds


def create_runtime(workload: "Workload", context: "Context", earlier: "str | None" = None) -> str:
    """Apply the steps of every feature to a workload whose process waits to be started.

    ``earlier`` is the key under which the container is recorded already, as `Ledger.key_of` returns it, if known.

    Raises:
        RefusedError: a step failed whose feature's policy is ``fail``; all steps are undone.
        HookError: the ledger is unusable, or the deadline has passed.
    """
    unplanned: "dict[str, str]" = {}
    steps = planned(workload, context, features_in_use(context.settings, workload), unplanned)
    kept = {step.feature: step.kept for _, step in steps if step.kept}
    if kept:
        what = f"{workload}: set by an earlier NRI plugin or the runtime's client, left unchanged: {in_words(kept)}"
        context.log(INFO, what, stage=CREATE_RUNTIME, key=workload.key, container=workload.id)
    todo = [(feature, step) for feature, step in steps if step.action != SKIP]
    if not todo:
        return "; ".join(step.why for _, step in steps) or "no feature applies"
    context.strict = _strict(todo, context)
    earlier = context.ledger.key_of(workload.id) if earlier is None else earlier
    if earlier and earlier != workload.key:
        _forget(workload.id, earlier, context)
    with context.monitor.hold(workload.key) as locked:
        new, had = not locked.tracked, set(locked.origins)
        if earlier == workload.key:
            _release_in(locked, workload.id, context)  # a restart under the same id whose poststop has not arrived
        details: MemberRecord = {**workload.details(), "steps": [step.as_record() for _, step in todo]}
        if earlier:
            details["again"] = True
        if kept:
            details["kept"] = kept
        if unplanned:
            details["unmet"] = unplanned
            details["unplanned"] = list(unplanned)
        locked.add_member(workload.id, details, workload.pid)
        problems: "list[errors.HookError | None]" = []

        def on_step(number: int, error: "errors.HookError | None") -> None:
            name = todo[number][1].feature
            problems.append(None if error is None else _trouble(name, error, workload, context))
            context.strict = _strict(todo[number + 1 :], context)

        apply_steps(todo, workload, locked, context, on_step)
        names = " ".join(workload.annotations)
        if any(mark in names for mark in _UNREAD):
            _note_unread(workload, locked, context)
        refusal = next((problem for problem in problems if problem is not None and is_refusal(problem)), None)
        if refusal is not None:
            _release_in(locked, workload.id, context)
            if new and not locked.members():
                locked.release()
            else:
                locked.release_but(had | _classes_of_others(locked, workload.id))
            raise refusal
    return "; ".join(str(problem or step.why) for problem, (_, step) in zip(problems, todo))


def planned(
    workload: "Workload",
    context: "Context",
    features: "list[Feature] | None" = None,
    unplanned: "dict[str, str] | None" = None,
) -> "list[tuple[Feature, Step]]":
    """Return the steps of features, by default all in use, in order.

    A feature that cannot plan has none, or refuses; ``unplanned`` receives it with the reason, unless it adopts
    containers itself and so plans again.

    Raises:
        RefusedError: a feature whose policy is ``fail`` cannot plan.
    """
    found: "list[tuple[Feature, Step]]" = []
    for feature in features_in_use(context.settings) if features is None else features:
        try:
            steps = plan(feature, workload, context, [step for _, step in found])
            found += [(feature, step) for step in steps]
        except Exception as caught:
            trouble = _trouble(feature.name, caught, workload, context)
            if is_refusal(trouble):
                raise trouble from caught
            if unplanned is not None and kind_of(feature.name) != NODE:
                unplanned[feature.name] = str(trouble)
    return found


def in_words(kept: "dict[str, list[str]]") -> str:
    """Return foreign values that stay, by feature, as one text."""
    return "; ".join(f"{feature}: {', '.join(values)}" for feature, values in kept.items())


def _note_unread(workload: "Workload", locked: "LockedKey", context: "Context") -> None:
    """Record, and log once for a pod, annotations of NRI plugins that nothing reads."""
    from ..container.unread import are_missed, unread  # few pods have such annotations

    names = unread(workload.annotations)
    if not names or not locked.tracked or locked.record.get("unread") == names:
        return
    locked.record["unread"] = names
    locked.save()
    priority = WARNING if are_missed(context.settings) else INFO
    what = f"{workload}: annotations of NRI plugins are not read: {', '.join(names)}; see docs/comparison.md"
    context.log(priority, what, stage=CREATE_RUNTIME, key=workload.key, container=workload.id)


def refuses(context: "Context") -> bool:
    """Return whether a container is refused after a timeout, or with an unusable ledger."""
    return context.strict or context.settings.failure_policy == "fail"


def is_refusal(error: Exception) -> bool:
    """Return whether an error means that the container must not start."""
    from ..refusals import RefusedError  # only when something went wrong

    return isinstance(error, RefusedError)


def give_up(error: Exception, workload: "Workload", context: "Context") -> None:
    """Leave the remainder to reconcile, or undo everything under ``fail``: poststop may never come."""
    set_deadline(0)
    if is_refusal(error):
        return  # everything is undone by now
    if not refuses(context):
        if isinstance(error, (errors.DeadlineError, errors.LockTimeoutError)):
            context.ledger.wake()  # reconcile finds the container itself; it may need no RMID
    elif not isinstance(error, errors.LockTimeoutError):  # without the lock nothing was done
        try:
            set_deadline(TIME_TO_TAKE_BACK)
            _forget(workload.id, workload.key, context)
        except (errors.HookError, OSError):
            pass  # reconcile finds the remainder dead
        finally:
            set_deadline(0)


def _strict(todo: "list[tuple[Feature, Step]]", context: "Context") -> bool:
    return any(failure_policy(step.feature, context.settings) == "fail" for _, step in todo)


def _trouble(
    name: str, caught: Exception, workload: "Workload", context: "Context"
) -> "errors.HookError | RefusedError":
    """Return a feature's failure as a RefusedError if its policy is to refuse; otherwise log it.

    Features fail independently, but a timeout concerns all of them.
    """
    if isinstance(caught, errors.DeadlineError):
        raise caught
    if isinstance(caught, errors.HookError):
        error = caught
    else:
        from ..fault_report import as_hook_error  # only when something is broken

        error = as_hook_error(caught)
    context.failures.append(error.reason)
    if failure_policy(name, context.settings) == "fail":
        from ..refusals import RefusedError

        return RefusedError(f"{name}: {error.message}", hint=error.hint, errno=error.errno, kernel=error.kernel)
    context.log(
        WARNING,
        f"{name} of {workload}: {error}",
        stage=CREATE_RUNTIME,
        key=workload.key,
        container=workload.id,
        reason=error.reason,
        errno=error.errno,
        kernel=error.kernel,
    )
    return error


def _classes_of_others(locked: "LockedKey", container: str) -> "set[str]":
    """Return the classes in which the pod's other containers may have joined groups while the lock was released."""
    return needed_classes(locked, [name for name in locked.members() if name != container])


def _forget(container: str, key: str, context: "Context") -> None:
    from ..lifecycle import forget  # as below

    forget(container, key, context)


def _release_in(locked: "LockedKey", container: str, context: "Context") -> None:
    from ..lifecycle import release_container  # only where something ends

    release_container(locked, container, context)
