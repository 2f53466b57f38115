"""What is done on each event: what an OCI hook would do, and what only a runtime's own word makes possible.

StartContainer is createRuntime: the process waits in its final cgroup and class. StopContainer is poststop. When
RemovePodSandbox comes, the pod has ended, although its cgroup is still there. CreateContainer is the one place where
every runtime obeys a refusal, so what can be known there is refused there.
"""

import time

from ..node.container.oci import State
from ..node.errors import DeadlineError, HookError, LedgerError
from ..node.fault_report import as_hook_error
from ..node.feature_table import FEATURES
from ..node.features.monitoring import NAME as MONITORING
from ..node.features.monitoring import ensure_group
from ..node.features.placement.specified import specified
from ..node.features.registry import concerns, failure_policy
from ..node.features.step import SKIP
from ..node.hook.create_runtime import create_runtime, give_up, planned
from ..node.hook.deadline import set_deadline
from ..node.hook.poststop import poststop
from ..node.host.cgroup import read_value
from ..node.host.procfs import start_time
from ..node.lifecycle import reap, release_container
from ..node.log import ERROR, INFO, WARNING
from ..node.names import canonical_pod_uid, pod_uid_validator
from ..node.refusals import REASON, RefusedError, record_refusal
from ..node.resctrl.errors import NoRMIDsError
from ..node.resctrl.locked_key import record_is_dead
from . import ttrpc
from .adjustments import adjustment
from .cpusets import changes, cpus_of, forget, is_specified, learn, note, with_cpuset, without_cpuset
from .protobuf import WireError, decode, encode
from .workload import workload_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..node.container.workload import Workload
    from ..node.context import Context
    from ..node.features.step import Step
    from ..node.settings import Settings

    Handler = Callable[["Event", Context], tuple[str, bytes]]

_TIME_TO_FORGET = 0.1  # seconds for a lock, after the deadline and well before the child is killed
_PLACEMENT = "placement"
_POD_EVENTS = ("RemovePodSandbox",)
_STARTS, _ENDS = ("StartContainer",), ("StopContainer", "RemoveContainer", *_POD_EVENTS)
STATE_CHANGE = ":StateChange"


class Event:
    """One event, read: its name, the pod and container that it tells of, the runtime's name and its version of NRI."""

    def __init__(self, name: str, payload: bytes, runtime: str, version: str) -> None:
        self.name, _, dialect = name.partition(":")
        self.runtime = runtime
        self.version = version
        kind = "StateChangeEvent" if dialect else "PodEvent" if self.name in _POD_EVENTS else "ContainerEvent"
        try:
            message = decode(kind, payload)
        except WireError as error:
            raise HookError(f"the runtime's {self.name} can't be read: {error}") from error
        self.pod: "dict[str, Any]" = message.get("pod", {})
        self.container: "dict[str, Any]" = message.get("container", {})
        self.key = ""

    @property
    def id(self) -> str:
        """The container's id."""
        found: str = self.container.get("id", "")
        return found

    def names(self) -> "dict[str, str]":
        """What the container is called, as far as that is known."""
        of = {"namespace": self.pod.get("namespace"), "pod": self.pod.get("name")}
        found = {"id": self.id, "key": self.key, **of, "container": self.container.get("name")}
        return {name: value for name, value in found.items() if value}

    def __str__(self) -> str:
        words = (self.pod.get("namespace"), self.pod.get("name"), self.container.get("name"))
        return "/".join(word for word in words if word) or self.id[:12] or "an unknown pod"


def start_container(event: Event, context: "Context") -> "tuple[str, bytes]":
    """Does for a process that waits to be started what createRuntime does, unless that has been done."""
    lenient(context.settings)  # CRI-O starts a container that is refused here, so nothing is undone for that
    workload = workload_of(event.pod, event.container, event.runtime, context.settings)
    event.key = workload.key
    if is_done(workload.id, workload.pid, context):
        return "", b""  # by a hook
    try:
        summary = create_runtime(workload, context)
    except Exception as error:
        give_up(error, workload, context)
        raise
    idle = context.ledger.marked("idle")
    if idle:
        reap(context, idle)
    return summary, b""


def is_done(container: str, pid: int, context: "Context") -> bool:
    """Whether a container is recorded with this very process."""
    key = context.ledger.key_of(container)
    record = context.ledger.read_member(key, container) if key else None
    if record is None or not pid or record.get("pid") != pid:
        return False
    return bool(record.get("start")) and record["start"] == start_time(context.proc, pid)


def lenient(settings: "Settings") -> None:
    """Lets nothing be refused: where that would not be obeyed, what can be done is done."""
    settings.failure_policy = "ignore"
    for name in FEATURES:
        getattr(settings, name)["failurePolicy"] = "ignore"


def stop_container(event: Event, context: "Context") -> "tuple[str, bytes]":
    """Takes back what was done for a container that has ended; RemoveContainer again, in case Stop never came."""
    state = State(event.id, "stopped", 0, "", {})
    return poststop(state, context), b""


def remove_pod(event: Event, context: "Context") -> "tuple[str, bytes]":
    """Ends the pod's groups: its cgroup is still there, and nothing will come in it any more.

    Unless something lives in it: a pod whose sandbox has died gets a new one, and then the old one is removed.
    """
    uid = event.pod.get("uid", "")
    if not pod_uid_validator(uid):
        return "", b""
    key = event.key = canonical_pod_uid(uid)
    if context.ledger.read_pod(key) is None:
        return "", b""
    with context.monitor.hold(key) as locked:
        for member in locked.members():
            if not record_is_dead(locked.member(member), context.monitor.boot, context.proc):
                return f"{key} stays: container {member[:12]} still runs", b""
            release_container(locked, member, context)
        if "populated 1" in read_value(locked.record.get("cgroup", ""), "cgroup.events"):
            context.ledger.mark("idle", key)
            return f"{key} stays: another sandbox of the pod lives", b""
        removed = locked.release()
    if context.ledger.marked("waiting"):
        context.ledger.wake()  # somebody may have the RMID that this has freed
    return f"released {key} with {len(removed)} groups", b""


def create_container(event: Event, context: "Context") -> "tuple[str, bytes]":
    """Refuses what can be known to fail, for features whose policy is to refuse; adjusts what may be adjusted.

    Raises:
        RefusedError: a feature can't do its part, and its policy is ``fail``.
    """
    workload = workload_of(event.pod, event.container, event.runtime, context.settings)
    event.key = workload.key
    steps = planned(workload, context)
    for _, step in steps:
        if (
            step.feature == MONITORING
            and step.action != SKIP
            and failure_policy(MONITORING, context.settings) == "fail"
        ):
            reserve_group(workload, step, context)
    wanted = [placed(step, workload, context) for _, step in steps]
    try:
        adjusted = adjustment(workload, wanted, context.settings, event.version)
    except HookError as error:
        if context.settings.failure_policy == "fail":
            raise RefusedError(f"nri: {error.message}", hint=error.hint, errno=error.errno) from error
        raise
    cpu = adjusted.get("linux", {}).get("resources", {}).get("cpu")
    if cpu and not is_noted(workload.id, cpu["cpus"], context):
        adjusted = without_cpuset(adjusted)
    if not adjusted:
        return "", b""
    linux = adjusted.get("linux", {})
    what = ", ".join(sorted({*adjusted, *linux} - {"linux"}))
    return f"adjusted {what}", encode("CreateContainerResponse", {"adjust": adjusted})


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
        RefusedError: there is no RMID, or none that could be had in time.
    """
    if not context.settings.rdt["enabled"] and concerns("rdt", workload, context.settings):
        return
    new = False
    try:
        new = context.ledger.read_pod(workload.key) is None
        _make_group(workload, step.parameters["class"], context)
    except (NoRMIDsError, DeadlineError, LedgerError) as error:
        set_deadline(0)  # the alarm would rise again, and a refusal that is lost is none
        if new:
            _stop_waiting(workload.key, context)
        raise RefusedError(f"{MONITORING}: {error.message}", errno=error.errno, kernel=error.kernel) from error


def _make_group(workload: "Workload", rdt_class: str, context: "Context") -> None:
    for last in (False, True):
        try:
            with context.monitor.hold(workload.key) as locked:
                if not locked.tracked:
                    locked.record.update(cgroup=workload.pod_cgroup, namespace=workload.namespace, pod=workload.pod)
                ensure_group(workload, rdt_class, locked, context)
            return
        except NoRMIDsError:
            if last or not reap(context, context.ledger.keys(), but=workload.key):
                raise


def _stop_waiting(key: str, context: "Context") -> None:
    """Lets a pod that nobody knew before its container was refused not wait for an RMID; tried again, it waits anew."""
    try:
        with context.monitor.hold(key, _TIME_TO_FORGET) as locked:
            if locked.tracked and not locked.how and not locked.members():
                locked.release()
    except HookError as error:
        context.log(WARNING, f"{key} waits for an RMID until it ends: {error}", key=key, reason=error.reason)


HANDLERS: "dict[str, Handler]" = {
    "CreateContainer": create_container,
    "StartContainer": start_container,
    "StopContainer": stop_container,
    "RemoveContainer": stop_container,
    "RemovePodSandbox": remove_pod,
}


def follow_up(event: Event, context: "Context") -> bytes:
    """What the runtime is to update in other containers once it has its answer, as `UpdateContainers` says it."""
    if not is_specified(context.settings) or event.name not in (*_STARTS, *_ENDS):
        return b""
    if event.name in _ENDS and event.id:
        forget({event.id}, context)
    return updates(event.id if event.name in _STARTS else "", context)


def updates(started: str, context: "Context") -> bytes:
    """`UpdateContainers` for all whose cpuset is another than their specification says; empty for nobody."""
    found = changes(started, context)
    if not found:
        return b""
    context.log(INFO, f"the runtime is told of the cpusets of {len(found)} containers", stage=_PLACEMENT)
    return encode("UpdateContainersRequest", {"update": found})


def serve(name: str, payload: bytes, runtime: "tuple[str, str]", context: "Context") -> "tuple[int, bytes, bytes]":
    """Serves one event within the deadline; logs and counts it.

    A status code, the answer or why it is refused, and what is to be updated in other containers afterwards.
    ``runtime`` is its name and its version of NRI.
    """
    begun = time.monotonic()
    event: "Event | None" = None
    stage = name.partition(":")[0]
    code, answer, others = ttrpc.OK, b"", b""
    reasons: "list[str]" = []
    try:
        set_deadline(context.settings.deadline)
        try:
            event = Event(name, payload, *runtime)
            summary, answer = HANDLERS[stage](event, context)
            others = follow_up(event, context)
        finally:
            set_deadline(0)
        reasons = context.failures
        if summary:
            took = int((time.monotonic() - begun) * 1e6)
            message = f"{stage} of {event}: {summary}"
            context.log(INFO, message, stage=stage, key=event.key, container=event.id, duration_usec=took)
    except Exception as caught:  # noqa: BLE001  # a container's start must not depend on our having no bugs
        error = as_hook_error(caught)
        refused = stage == "CreateContainer" and isinstance(error, RefusedError)
        reasons = context.failures or [error.reason]
        outcome = (
            "the container is refused" if refused else f"the {'pod' if stage in _POD_EVENTS else 'container'} goes on"
        )
        fields = {"key": event.key, "container": event.id} if event is not None else {}
        message = f"{stage} of {event or 'an unknown pod'}: {error}; {outcome}"
        context.log(ERROR, message, stage=stage, reason=error.reason, errno=error.errno, kernel=error.kernel, **fields)
        if refused:
            code, answer = ttrpc.UNKNOWN, str(error).encode("utf-8", "replace")
            record_refusal(context.settings.state_dir, event.names() if event is not None else {}, str(error))
            reasons = [*dict.fromkeys([*reasons, REASON])]
    context.ledger.tally(stage, time.monotonic() - begun, reasons, event.key if event is not None else "")
    return code, answer, others


def synchronize(parts: "list[bytes]", runtime: str, context: "Context") -> "tuple[int, bytes, bytes]":
    """Takes in what ran before this plugin was connected, then reconciles; returns what `serve` does."""
    from ..node.reconcile.reconcile import reconcile
    from ..node.reconcile.report import Options

    begun = time.monotonic()
    placed_before = set(specified(context))  # before anybody can be created who isn't listed
    pods: "dict[str, dict[str, Any]]" = {}
    containers: "list[dict[str, Any]]" = []
    for part in parts:
        message = decode("SynchronizeRequest", part)
        pods.update((pod.get("id", ""), pod) for pod in message.get("pods", []))
        containers += message.get("containers", [])
    lenient(context.settings)
    taken_in = 0
    for container in containers:
        pid, id_ = container.get("pid", 0), container.get("id", "")
        if not pid or not start_time(context.proc, pid) or is_done(id_, pid, context):
            continue
        try:
            workload = workload_of(
                pods.get(container.get("pod_sandbox_id", ""), {}), container, runtime, context.settings
            )
            create_runtime(workload, context)
            taken_in += 1
        except Exception as caught:  # noqa: BLE001  # one container's trouble is no other's
            error = as_hook_error(caught)
            context.log(WARNING, f"Synchronize: container {id_[:12]}: {error}", container=id_, reason=error.reason)
    report = reconcile(context, Options())
    others = b""
    if is_specified(context.settings):
        learn({container.get("id", ""): cpus_of(container) for container in containers}, placed_before, context)
        others = updates("", context)
    context.log(INFO, f"Synchronize: {len(containers)} containers, {taken_in} that started before were taken in")
    context.ledger.tally("Synchronize", time.monotonic() - begun, sorted(set(report.reasons)))
    return ttrpc.OK, b"", others
