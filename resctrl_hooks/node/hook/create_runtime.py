"""The createRuntime stage: plan a workload's steps and apply them before it runs, each feature independently.

A failure is logged and the container starts without the feature; under the policy ``fail``, all steps are undone.
"""

from .. import errors
from ..container.oci import CREATE_RUNTIME
from ..feature import SKIP, needed_classes
from ..feature_table import NODE
from ..log import INFO, WARNING
from ..registry import features_in_use, incomplete_refuses, kind_of, plan, refuses, report_dropped
from ..steps import apply_steps
from .deadline import TIME_TO_TAKE_BACK, set_deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..container.workload import Workload
    from ..context import Context
    from ..feature import Feature, Step
    from ..records import MemberRecord
    from ..resctrl.locked_key import LockedKey

_MORE_TIME = 0.1  # of the deadline after a late plan, half of that after the next: an NRI event is killed soon after
_UNREAD = ("-policy.nri.io", "epc-limit.nri.io")  # a part of each annotation that `container.unread` finds


def create_runtime(workload: "Workload", context: "Context", earlier: "str | None" = None) -> str:
    """Apply the steps of every feature to a workload whose process waits to be started.

    ``earlier`` is the key under which the container is recorded already, as `Ledger.key_of` returns it, if known.

    Raises:
        HookError: a step failed whose feature's policy is ``fail``, the ledger is unusable, or the deadline has passed.
            If the error ``refuses`` the container, all steps are undone; otherwise reconcile does the remainder.
    """
    pending: "list[str]" = []
    try:
        earlier = context.ledger.key_of(workload.id) if earlier is None else earlier
        if earlier == workload.key and _is_known_better(workload, context):
            return "its record by NRI has the pod's labels and annotations"
        return _create_runtime(workload, context, earlier, pending)
    except Exception as caught:  # an internal error too must leave nothing half done
        set_deadline(0)
        if getattr(caught, "refuses", False):
            raise  # a feature's failure: everything is undone by now
        error = concluded(caught, pending, context)
        _leave(error, workload, context)
        raise error from error.__cause__


def _create_runtime(workload: "Workload", context: "Context", earlier: str, pending: "list[str]") -> str:
    """Do the work of `create_runtime`; ``pending`` lists the features of steps that are not complete."""
    _wake_for_runtimes(workload, context)
    unplanned: "dict[str, str]" = {}
    steps = planned(workload, context, features_in_use(context.settings, workload), unplanned)
    kept = {step.feature: step.kept for _, step in steps if step.kept}
    if kept:
        what = f"{workload}: set by an earlier NRI plugin or the runtime's client, left unchanged: {in_words(kept)}"
        context.log(INFO, what, stage=CREATE_RUNTIME, key=workload.key, container=workload.id)
    todo = [(feature, step) for feature, step in steps if step.action != SKIP]
    if not todo:
        return "; ".join(step.why for _, step in steps) or "no feature applies"
    pending += [step.feature for _, step in todo]
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
        problems: "dict[int, errors.HookError | None]" = {}

        def on_step(number: int, error: "errors.HookError | None") -> None:
            name = todo[number][1].feature
            problems[number] = None if error is None else _trouble(name, error, workload, context)
            pending.remove(name)

        apply_steps(todo, workload, locked, context, on_step)
        names = " ".join(workload.annotations)
        if any(mark in names for mark in _UNREAD):
            _note_unread(workload, locked, context)
        refusal = next((problem for problem in problems.values() if problem is not None and problem.refuses), None)
        if refusal is not None:
            _release_in(locked, workload.id, context)
            if new and not locked.members():
                locked.release()
            else:
                locked.release_but(had | _classes_of_others(locked, workload.id, context))
            raise refusal
    return "; ".join(str(problems[number] or step.why) for number, (_, step) in enumerate(todo))


def planned(
    workload: "Workload",
    context: "Context",
    features: "list[Feature] | None" = None,
    unplanned: "dict[str, str] | None" = None,
) -> "list[tuple[Feature, Step]]":
    """Return the steps of features, by default all in use, in order.

    A feature that cannot plan has none, or refuses; ``unplanned`` receives it with the reason, unless it adopts
    containers itself and so plans again. That includes a feature that is planning at the deadline: the others, and the
    steps, get a little more time.

    Raises:
        RefusedError: a feature whose policy is ``fail`` cannot plan.
    """
    found: "list[tuple[Feature, Step]]" = []
    more = context.settings.deadline * _MORE_TIME
    for feature in features_in_use(context.settings) if features is None else features:
        try:
            steps = plan(feature, workload, context, [step for _, step in found])
            if workload.dropped is not None:
                report_dropped(feature.name, workload, context)
            found += [(feature, step) for step in steps]
        except Exception as caught:
            error = caught
            if isinstance(caught, errors.DeadlineError):
                set_deadline(more)
                more /= 2
                error = _late(context)
            trouble = _trouble(feature.name, error, workload, context)
            if trouble.refuses:
                raise trouble from caught
            if unplanned is not None and kind_of(feature.name) != NODE:
                unplanned[feature.name] = str(trouble)
    return found


def _late(context: "Context") -> "errors.HookError":
    """Return the error of a feature that was planning at the deadline; reconcile plans it again soon."""
    error = errors.HookError("its plan took longer than the deadline of the hook", hint=errors.DeadlineError.hint)
    error.reason = errors.DeadlineError.reason
    context.ledger.wake()
    return error


def in_words(kept: "dict[str, list[str]]") -> str:
    """Return foreign values that stay, by feature, as one text."""
    return "; ".join(f"{feature}: {', '.join(values)}" for feature, values in kept.items())


def _wake_for_runtimes(workload: "Workload", context: "Context") -> None:
    """Start reconcile if the runtime has taken an RMID: it keeps another one free for the next such container."""
    if workload.bundle.takes_rmid:
        context.ledger.wake()


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


def concluded(caught: Exception, pending: "Iterable[str]", context: "Context") -> "errors.HookError":
    """Return the error that ends a call, which tells whether it ``refuses`` the container.

    ``pending`` is as in `incomplete_refuses`.
    """
    from ..fault_report import as_hook_error  # only when something went wrong

    error = as_hook_error(caught)
    error.refuses = error.refuses or incomplete_refuses(context, pending)
    return error


def _leave(error: "errors.HookError", workload: "Workload", context: "Context") -> None:
    """Leave the remainder to reconcile, or undo everything under ``fail``: poststop may never come."""
    if not error.refuses:
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


def _trouble(name: str, caught: Exception, workload: "Workload", context: "Context") -> "errors.HookError":
    """Return a feature's failure as a RefusedError if its policy is to refuse; otherwise log it.

    Features fail independently, but a timeout concerns all of them.
    """
    if isinstance(caught, errors.DeadlineError):
        raise caught
    from ..fault_report import as_hook_error  # only when something went wrong

    error = as_hook_error(caught)
    context.failures.append(error.reason)
    if refuses(name, context):
        from ..refusals import RefusedError

        return RefusedError.of(name, error)
    context.log(
        WARNING,
        f"{name} of {workload}: {error}",
        stage=CREATE_RUNTIME,
        key=workload.key,
        container=workload.id,
        **error.fields(),
    )
    return error


def _classes_of_others(locked: "LockedKey", container: str, context: "Context") -> "set[str]":
    """Return the classes in which the pod's other containers may have joined groups while the lock was released."""
    return needed_classes(locked, [name for name in locked.members() if name != container], context)


def _forget(container: str, key: str, context: "Context") -> None:
    from ..lifecycle import forget  # as below

    forget(container, key, context)


def _is_known_better(workload: "Workload", context: "Context") -> bool:
    """Return whether a container's record has its pod's labels and annotations, and this call does not."""
    record = context.ledger.read_member(workload.key, workload.id)
    if record is None or "told" not in record or workload.labels is not None or record.get("pid") != workload.pid:
        return False
    from ..resctrl.locked_key import record_is_dead  # as below

    return not record_is_dead(record, context.monitor.boot, context.proc)


def _release_in(locked: "LockedKey", container: str, context: "Context") -> None:
    from ..lifecycle import release_container  # only where something ends

    release_container(locked, container, context)
