"""CreateContainer: refusal of foreseeable failures, and adjustments of the specification.

Only at this event does every runtime obey a refusal. So any failure to complete it, including timeouts and internal
errors, refuses a container with a pending feature whose policy is ``fail``.
"""

from copy import copy

from ...core.node.context import set_deadline
from ...core.node.errors import BadClassError, DeadlineError, HookError
from ...core.node.failure_policies import incomplete_refuses, refuses
from ...core.node.fault_report import as_hook_error
from ...core.node.feature import SKIP
from ...core.node.feature_table import MONITORING, RDT
from ...core.node.hook.create_runtime import planned, with_room
from ...core.node.hook.failures import concluded
from ...core.node.log import ERROR, WARNING, silent
from ...core.node.refusals import RefusedError
from ...core.node.registry import concerns, is_in_use
from .adjustments import adjustment, respecting
from .event import CREATE_CONTAINER
from .protobuf import encode
from .requested import specified_by, strict_features
from .workload import workload_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...core.node.container.workload import Workload
    from ...core.node.context import Context
    from ...core.node.feature import Feature, Resources, Specifications, Step
    from .adjustments import Steps
    from .event import Event

CONFLICT = "conflict"
"""The reason that is counted where a value is left out because another program has set a different one."""
_TIME_TO_FORGET = 0.1  # seconds for a lock, after the deadline and well before the child is killed


def create_container(event: "Event", context: "Context") -> "tuple[str, bytes]":
    """Refuse foreseeable failures of features whose policy is to refuse; return the adjustments.

    Raises:
        HookError: it ``refuses`` the container if a feature whose policy is ``fail`` cannot be applied in time.
    """
    workload = workload_of(event.pod, event.container, event.runtime, context.settings)
    event.key = workload.key
    pending = strict_features(context.settings, workload.namespace, workload)
    try:
        steps = planned_silently(workload, context)
        strict = [one for one in steps if one[1].action != SKIP and refuses(one[0].name, context)]
        pending = [feature.name for feature, _ in strict]
        decided = [(feature, previewed(feature, step, workload, context)) for feature, step in steps]
        adjusted = adjusted_by(decided, workload, event, context)
        for feature, step in strict:
            if feature.name == MONITORING:
                reserve(feature, step, workload, context)  # the last that may refuse, so a refusal leaves nothing
    except Exception as caught:  # noqa: BLE001  # internal errors refuse too
        error = concluded(caught, pending, context)
        raise error from error.__cause__
    resources = adjusted.get("linux", {}).get("resources", {})
    for one in specified_by(context.settings):
        if one.RESOURCE in resources and not is_noted(one, workload.id, resources[one.RESOURCE], context):
            del resources[one.RESOURCE]
            adjusted, _ = respecting(adjusted, {})
    if not adjusted:
        return "", b""
    linux = adjusted.get("linux", {})
    what = ", ".join(sorted({*adjusted, *linux} - {"linux"}))
    return f"adjusted {what}", encode("CreateContainerResponse", {"adjust": adjusted})


def planned_silently(workload: "Workload", context: "Context") -> "list[tuple[Feature, Step]]":
    """Return the steps without reports of problems: the start of the container plans again, and reports them.

    Raises:
        RefusedError: as `planned`; its reasons are counted.
    """
    silenced = copy(context)
    silenced.log, silenced.failures = silent, []
    try:
        return planned(workload, silenced)
    except BaseException:
        context.failures += silenced.failures
        raise


def adjusted_by(steps: "Steps", workload: "Workload", event: "Event", context: "Context") -> "dict[str, Any]":
    """Return the changes to a container; none, with a log line, if they are impossible.

    Raises:
        RefusedError: they are impossible, and the general policy is ``fail``.
    """
    try:
        found, differing = adjustment(workload, steps, context.settings, event.version, event.container)
        differing = [*(value for _, step in steps for value in step.foreign), *differing]
        if differing:
            context.failures.append(CONFLICT)
            what = f"{CREATE_CONTAINER} of {event}: already set by an earlier NRI plugin or the runtime's client"
            fields = {"key": event.key, "container": event.id}
            context.log(WARNING, f"{what}; left unchanged: {'; '.join(differing)}", stage=CREATE_CONTAINER, **fields)
        return found
    except DeadlineError:
        raise
    except Exception as caught:
        error = as_hook_error(caught)
        if incomplete_refuses(context):
            raise RefusedError.of("nri", error) from caught
        context.failures.append(error.reason)
        message = f"{CREATE_CONTAINER} of {event}: {error}; container not changed"
        fields = {"key": event.key, "container": event.id}
        context.log(ERROR, message, stage=CREATE_CONTAINER, **error.fields(), **fields)
        return {}


def previewed(feature: "Feature", step: "Step", workload: "Workload", context: "Context") -> "Step":
    """Return the step with its present decision, if it may refuse the container or adjust its specification.

    Raises:
        RefusedError: the step is impossible, and its feature's policy is ``fail``.
    """
    strict = refuses(feature.name, context)
    if not (strict or feature.name in (context.settings.sections["nri"].get("adjust") or [])):
        return step
    try:
        return feature.preview(step, workload, context)
    except DeadlineError:
        raise
    except HookError as error:
        if strict:
            raise RefusedError.of(feature.name, error) from error
        return step


def is_noted(of: "Specifications", container: str, value: "Resources", context: "Context") -> bool:
    """Record a feature's value in a specification; return false if that fails or takes too long."""
    try:
        of.note(container, value, context)
    except (HookError, OSError) as caught:
        set_deadline(0)  # the alarm would rise again, and nothing else of the answer may be lost
        error = as_hook_error(caught)
        message = f"container {container[:12]} gets its {of.VALUE} only at its start: {error}"
        context.log(WARNING, message, stage=of.NAME, container=container, **error.fields())
        return False
    return True


def reserve(feature: "Feature", step: "Step", workload: "Workload", context: "Context") -> None:
    """Create the pod's group before its container, so that an RMID is reserved for the start.

    If the runtime chooses the class and does not pass it, the group's class is unknown.

    Raises:
        RefusedError: no RMID was available in time, or resctrl is missing.
    """
    if not is_in_use(RDT, context.settings) and concerns(RDT, workload, context.settings):
        return
    new = False
    try:
        new = context.ledger.read_pod(workload.key) is None
        with context.monitor.hold(workload.key) as locked:
            with_room(feature.reserve, step, workload, locked, context)
    except BadClassError:
        return  # the runtime may make it together with the container
    except (HookError, OSError) as caught:
        set_deadline(0)  # the alarm would be raised again, and a lost refusal has no effect
        if new:
            _stop_waiting(workload.key, context)
        raise RefusedError.of(feature.name, as_hook_error(caught)) from caught


def _stop_waiting(key: str, context: "Context") -> None:
    """Let a pod whose first container was refused not wait for an RMID; another try waits again."""
    try:
        with context.monitor.hold(key, _TIME_TO_FORGET) as locked:
            if not locked.origins and not locked.members():
                locked.release()
    except HookError as error:
        context.log(WARNING, f"cannot take {key} out of the queue for an RMID: {error}", key=key, reason=error.reason)
