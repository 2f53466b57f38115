"""The createRuntime stage: plan a workload's steps and apply them before it runs, each feature independently.

A failure is logged and the container starts without the feature; under the policy ``fail``, all steps are undone.
"""

from .. import errors
from ..container.oci import CREATE_RUNTIME
from ..context import set_deadline
from ..feature import SKIP, describe
from ..feature_table import FEATURES
from ..log import DEBUG
from ..registry import features_in_use, plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..container.workload import Workload
    from ..context import Context
    from ..feature import Container, Feature, Step
    from ..records import MemberRecord
    from ..resctrl.locked_key import LockedKey

_MORE_TIME = 0.1  # of the deadline after a late plan or step, half of that after the next: an NRI event is killed soon
LATE_PLAN, LATE_STEP = "its plan took", "applying it took"
_UNREAD_ANNOTATIONS = ("-policy.nri.io", "epc-limit.nri.io")  # a part of each of `unread_annotations`


def create_runtime(workload: "Workload", context: "Context", earlier: "str | None" = None) -> str:
    """Apply the steps of every feature to a workload whose process waits to be started; return a summary.

    The summary is empty if no step applies, as for each container of a node without resctrl, which is only recorded.

    ``earlier`` is the key under which the container is recorded already, as `Ledger.key_of` returns it, if known.

    Raises:
        HookError: a step failed whose feature's policy is ``fail``, the ledger is unusable, or the deadline has passed.
            If the error ``refuses`` the container, all steps are undone; otherwise reconcile does the remainder.
    """
    todo: "list[tuple[Feature, Step]]" = []
    results: "dict[int, errors.HookError | None]" = {}  # of the complete steps, by their places in `todo`
    try:
        earlier = context.ledger.key_of(workload.id) if earlier is None else earlier
        if earlier == workload.key and _is_known_better(workload, context):
            return "its record by NRI has the pod's labels and annotations"
        if workload.bundle.takes_rmid:
            context.ledger.wake()  # reconcile keeps another RMID free for the next container of such a runtime
        unmet: "dict[str, str]" = {}
        steps = planned(workload, context, features_in_use(context.settings, workload), unmet)
        foreign = {step.feature: step.foreign for _, step in steps if step.foreign}
        if foreign:
            from .notes import log_foreign  # few containers have such values

            log_foreign(workload, foreign, context)
        todo += [(feature, step) for feature, step in steps if step.action != SKIP]
        if not todo and not _is_noted(steps, workload, context):
            return ""
        if earlier and earlier != workload.key:
            from ..lifecycle import forget  # only where something ends

            forget(workload.id, earlier, context)
        details: MemberRecord = {**workload.details(), "steps": [step.as_record() for _, step in todo]}
        if earlier:
            details["again"] = True
        if foreign:
            details["kept"] = foreign
        if unmet:
            details["unmet"] = unmet
            details["unplanned"] = list(unmet)
        with context.monitor.hold(workload.key) as locked:
            _apply(todo, workload, locked, context, details, results)
            _keep(steps, workload, locked)
    except Exception as caught:  # an internal error too must leave nothing half done
        set_deadline(0)
        if getattr(caught, "refuses", False):
            raise  # a feature's failure: everything is undone by now
        from .failures import concluded, leave

        done = [number for number, problem in results.items() if problem is None or not problem.refuses]
        error = concluded(caught, [step.feature for n, (_, step) in enumerate(todo) if n not in done], context)
        leave(error, workload, context)
        raise error from error.__cause__
    return "; ".join(str(results[number] or step.why) for number, (_, step) in enumerate(todo))


def _is_noted(steps: "list[tuple[Feature, Step]]", workload: "Workload", context: "Context") -> bool:
    """Return whether a container without an effective step is recorded; log the reasons for its lack of steps."""
    why = "; ".join(step.why for _, step in steps) or "no feature applies"
    fields = {"stage": CREATE_RUNTIME, "key": workload.key, "container": workload.id}
    context.log(DEBUG, f"{CREATE_RUNTIME} of {workload}: {why}", **fields)
    return any(step.noted for _, step in steps)


def _keep(steps: "list[tuple[Feature, Step]]", workload: "Workload", locked: "LockedKey") -> None:
    """Record the key of a container that has no group and is recorded all the same."""
    if not locked.tracked and any(step.noted for _, step in steps):
        describe(workload, locked)
        locked.save()


def _apply(
    steps: "list[tuple[Feature, Step]]",
    workload: "Workload",
    locked: "LockedKey",
    context: "Context",
    details: "MemberRecord",
    results: "dict[int, errors.HookError | None]",
) -> None:
    """Record a container with its steps, and apply them; ``results`` receives each step's failure, None for none.

    Raises:
        RefusedError: a step failed whose feature's policy is ``fail``; all are undone.
    """
    was_tracked, classes = locked.tracked, set(locked.origins)
    if "again" in details and locked.member(workload.id) is not None:
        from ..lifecycle import release_container  # a restart under the same id whose poststop has not arrived

        release_container(locked, workload.id, context)
    locked.add_member(workload.id, details, workload.pid)

    def on_step(number: int, error: "errors.HookError | None") -> None:
        name = steps[number][1].feature
        results[number] = None if error is None else _trouble(name, error, workload, context, LATE_STEP)

    apply_steps(steps, workload, locked, context, on_step)
    names = " ".join(workload.annotations)
    if any(mark in names for mark in _UNREAD_ANNOTATIONS):
        from .notes import note_unread  # few pods have such annotations

        note_unread(workload, locked, context)
    for problem in results.values():
        if problem is not None and problem.refuses:
            from .failures import take_back

            take_back(locked, workload.id, context, classes=classes, was_tracked=was_tracked)
            raise problem


def planned(
    workload: "Workload",
    context: "Context",
    features: "list[Feature] | None" = None,
    unmet: "dict[str, str] | None" = None,
) -> "list[tuple[Feature, Step]]":
    """Return the steps of features, by default all in use, in order.

    A feature whose plan fails gets no step; ``unmet`` receives the reason, unless the feature adopts containers itself
    and so plans again. A deadline during a plan is such a failure: other features, and the steps, get a little more
    time.

    Raises:
        RefusedError: a feature whose policy is ``fail`` cannot plan.
    """
    found: "list[tuple[Feature, Step]]" = []
    for feature in features_in_use(context.settings) if features is None else features:
        try:
            steps = plan(feature, workload, context, [step for _, step in found])
            if workload.dropped is not None:
                from ..failure_policies import report_dropped  # few containers have wishes that are dropped

                report_dropped(feature.name, workload, context)
            found += [(feature, step) for step in steps]
        except Exception as caught:
            trouble = _trouble(feature.name, caught, workload, context, LATE_PLAN)
            if trouble.refuses:
                raise trouble from caught
            if unmet is not None and not FEATURES[feature.name].adopts:
                unmet[feature.name] = str(trouble)
    return found


def _trouble(name: str, caught: Exception, workload: "Workload", context: "Context", late: str) -> "errors.HookError":
    if isinstance(caught, errors.DeadlineError):
        set_deadline(context.settings.deadline * _MORE_TIME / 2 ** context.failures.count(caught.reason))
    from .failures import trouble  # only when something went wrong

    return trouble(name, caught, workload, context, late)


def _is_known_better(workload: "Workload", context: "Context") -> bool:
    """Return whether a container's record has its pod's labels and annotations, and this call does not."""
    record = context.ledger.read_member(workload.key, workload.id)
    if record is None or "told" not in record or workload.labels is not None or record.get("pid") != workload.pid:
        return False
    from ..resctrl.locked_key import record_is_dead  # few containers are recorded by NRI before

    return not record_is_dead(record, context.monitor.boot, context.proc)


def apply_steps(
    steps: "list[tuple[Feature, Step]]",
    container: "Container",
    locked: "LockedKey",
    context: "Context",
    on_step: "Callable[[int, errors.HookError | None], None]",
    may_apply: "Callable[[int], bool] | None" = None,
) -> None:
    """Apply steps, each independently; the container's record has them already.

    Those that run programs come last, without the key's lock. The others of the pod may change the key meanwhile.
    ``on_step`` is called after each step with its number and its error, None for success. It raises the error to leave
    out the other steps, as after a `DeadlineError` without more time. A step that `may_apply` refuses just before it is
    left out.

    Raises:
        DeadlineError: another process holds the key for too long, or no time is left between two steps.
    """
    if container.leaf is not None and container.leaf.own_scope:
        from ..cgroup_settings.systemd_properties import collect  # only where systemd manages the container

        collect(steps, container, container.leaf, context)
    outside = [number for number, (feature, step) in enumerate(steps) if feature.runs_programs(step, context)]
    for number, (feature, step) in enumerate(steps):
        if number not in outside and (may_apply is None or may_apply(number)):
            on_step(number, _attempt(feature, step, container, locked, context, needs_key=True))
    if not outside:
        return
    from ..outside import Outside  # few containers have such steps

    try:
        with Outside(locked, container.id, context):
            for number in outside:
                feature, step = steps[number]
                if (context.ledger.read_member(locked.key, container.id) or {}).get("pid") != container.pid:
                    on_step(number, errors.TaskGoneError.of(container.pid))  # its end was served before
                elif may_apply is None or may_apply(number):
                    on_step(number, _attempt(feature, step, container, locked, context, needs_key=False))
    except errors.LockTimeoutError as error:
        raise errors.DeadlineError(str(error)) from error


def _attempt(
    feature: "Feature",
    step: "Step",
    container: "Container",
    locked: "LockedKey",
    context: "Context",
    *,
    needs_key: bool,
) -> "errors.HookError | None":
    """Apply a step, and return its error. Reconcile serves a key that waits for an RMID.

    Raises:
        DeadlineError: it lost the key, which the others need.
    """
    try:
        with_room(feature.apply, step, container, locked, context)
    except errors.HookError as error:
        if isinstance(error, errors.NoRMIDsError):
            context.ledger.wake()
        if needs_key and not locked.is_held and isinstance(error, errors.DeadlineError):
            raise
        return error
    except Exception as caught:  # noqa: BLE001  # a failure of one feature must not affect others
        from ..fault_report import as_hook_error  # only when something is broken

        return as_hook_error(caught)
    return None


def with_room(
    act: "Callable[[Step, Container, LockedKey, Context], None]",
    step: "Step",
    container: "Container",
    locked: "LockedKey",
    context: "Context",
) -> None:
    """Call a feature's ``act`` for a step; if no RMID is free, release dead keys and call it once more.

    All dead keys are searched if the container would be refused.

    Raises:
        NoRMIDsError: there is still none.
    """
    try:
        act(step, container, locked, context)
    except errors.NoRMIDsError:
        from ..class_needs import stop_waiting  # rarely needed, as the next ones
        from ..failure_policies import refuses
        from ..lifecycle import make_room

        locked.unlock()  # the end of a dead pod can take its time
        try:
            freed = make_room(context, locked.key, thorough=refuses(step.feature, context))
        finally:
            locked.lock_again(context.monitor.patience)
        if not freed:
            raise
        act(step, container, locked, context)
        stop_waiting(locked, context)  # marked by the first try
