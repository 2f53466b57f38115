"""CreateContainer: refuses what can be known to fail, and adjusts what may be adjusted.

It is the one event where every runtime obeys a refusal. So whatever keeps it from its end, time that has run out or a
fault of our own too, refuses a container for which a feature is still to be asked whose policy is ``fail``.
"""

from ..node.errors import DeadlineError, HookError
from ..node.fault_report import as_hook_error
from ..node.feature import SKIP
from ..node.features.monitoring import NAME as MONITORING
from ..node.features.monitoring import ensure_group
from ..node.hook.create_runtime import planned
from ..node.hook.deadline import set_deadline
from ..node.lifecycle import reap
from ..node.log import ERROR, WARNING
from ..node.refusals import RefusedError
from ..node.registry import concerns, failure_policy, features_in_use, serves
from ..node.resctrl.errors import BadClassError, NoRMIDsError
from .adjustments import adjustment
from .cpusets import is_specified, note, with_cpuset, without_cpuset
from .protobuf import encode
from .workload import workload_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..node.container.workload import Workload
    from ..node.context import Context
    from ..node.feature import Step
    from .event import Event

CREATE_CONTAINER = "CreateContainer"
_TIME_TO_FORGET = 0.1  # seconds for a lock, after the deadline and well before the child is killed
_PLACEMENT = "placement"


def create_container(event: "Event", context: "Context") -> "tuple[str, bytes]":
    """Refuses what can be known to fail, for features whose policy is to refuse; adjusts what may be adjusted.

    ``context.strict`` says at each step whether a container is refused if this comes to no end.

    Raises:
        RefusedError: a feature can't do its part, and its policy is ``fail``.
    """
    settings = context.settings
    workload = workload_of(event.pod, event.container, event.runtime, settings)
    event.key = workload.key
    context.strict = any(
        failure_policy(name, settings) == "fail" and serves(name, workload.namespace, settings)
        for name, _ in features_in_use(settings, workload)
    )
    steps = [step for _, step in planned(workload, context)]
    strict = [step for step in steps if step.action != SKIP and failure_policy(step.feature, settings) == "fail"]
    context.strict = bool(strict)
    adjusted = adjusted_by([placed(step, workload, context) for step in steps], workload, event, context)
    for step in strict:
        if step.feature == MONITORING:
            reserve_group(workload, step, context)  # the last that may refuse, so it leaves nothing of who is refused
    context.strict = False
    cpu = adjusted.get("linux", {}).get("resources", {}).get("cpu")
    if cpu and not is_noted(workload.id, cpu["cpus"], context):
        adjusted = without_cpuset(adjusted)
    if not adjusted:
        return "", b""
    linux = adjusted.get("linux", {})
    what = ", ".join(sorted({*adjusted, *linux} - {"linux"}))
    return f"adjusted {what}", encode("CreateContainerResponse", {"adjust": adjusted})


def adjusted_by(steps: "list[Step]", workload: "Workload", event: "Event", context: "Context") -> "dict[str, Any]":
    """What is to be changed in a container; nothing where that can't be done, which is in the log then.

    Raises:
        RefusedError: it can't be done, and the general policy is ``fail``.
    """
    try:
        return adjustment(workload, steps, context.settings, event.version)
    except DeadlineError:
        raise
    except Exception as caught:
        error = as_hook_error(caught)
        if context.settings.failure_policy == "fail":
            raise RefusedError(f"nri: {error.message}", hint=error.hint, errno=error.errno) from caught
        context.failures.append(error.reason)
        message = f"{CREATE_CONTAINER} of {event}: {error}; the container goes on as it is"
        fields = {"key": event.key, "container": event.id}
        context.log(ERROR, message, stage=CREATE_CONTAINER, reason=error.reason, errno=error.errno, **fields)
        return {}


def placed(step: "Step", workload: "Workload", context: "Context") -> "Step":
    """A step of placement with the cpuset that it would give now, where somebody wants to know; any other as it is.

    Raises:
        RefusedError: it can't be placed as it asks, and its policy is ``fail``.
    """
    refuses = failure_policy(_PLACEMENT, context.settings) == "fail"
    if step.feature != _PLACEMENT or not (refuses or is_specified(context.settings)):
        return step
    try:
        return with_cpuset(step, workload, context)
    except DeadlineError:
        raise
    except HookError as error:
        if refuses:
            raise RefusedError(f"{_PLACEMENT}: {error.message}", hint=error.hint, errno=error.errno) from error
        return step


def is_noted(container: str, cpus: str, context: "Context") -> bool:
    """Writes down the cpuset of a specification; false where that can't be done, or not in time."""
    try:
        note(container, cpus, context)
    except (HookError, OSError) as caught:
        set_deadline(0)  # the alarm would rise again, and nothing else of the answer may be lost
        error = as_hook_error(caught)
        message = f"container {container[:12]} gets its cpuset only when it starts: {error}"
        context.log(WARNING, message, stage=_PLACEMENT, container=container, reason=error.reason, errno=error.errno)
        return False
    return True


def reserve_group(workload: "Workload", step: "Step", context: "Context") -> None:
    """Makes the pod's group before its container, so that an RMID is there when that starts.

    Where the runtime chooses the class and doesn't say which, there is no telling in which one it is needed.

    Raises:
        RefusedError: there is no RMID, none that could be had in time, or no resctrl to have one from.
    """
    if not context.settings.rdt["enabled"] and concerns("rdt", workload, context.settings):
        return
    new = False
    try:
        new = context.ledger.read_pod(workload.key) is None
        _make_group(workload, step.parameters["class"], context)
    except BadClassError:
        return  # the runtime may make it together with the container
    except (HookError, OSError) as caught:
        error = as_hook_error(caught)
        set_deadline(0)  # the alarm would rise again, and a refusal that is lost is none
        if new:
            _stop_waiting(workload.key, context)
        message = f"{MONITORING}: {error.message}"
        raise RefusedError(message, hint=error.hint, errno=error.errno, kernel=error.kernel) from caught


def _make_group(workload: "Workload", rdt_class: str, context: "Context") -> None:
    for last in (False, True):
        try:
            with context.monitor.hold(workload.key) as locked:
                if not locked.tracked:
                    record = locked.record
                    record["cgroup"] = workload.pod_cgroup
                    record["namespace"], record["pod"] = workload.namespace, workload.pod
                ensure_group(workload, rdt_class, locked, context)
            return
        except NoRMIDsError:
            if last or not reap(context, context.ledger.keys(), but=workload.key):
                raise


def _stop_waiting(key: str, context: "Context") -> None:
    """Lets a pod that nobody knew before its container was refused not wait for an RMID; tried again, it waits anew."""
    try:
        with context.monitor.hold(key, _TIME_TO_FORGET) as locked:
            if locked.tracked and not locked.origins and not locked.members():
                locked.release()
    except HookError as error:
        context.log(WARNING, f"{key} waits for an RMID until it ends: {error}", key=key, reason=error.reason)
