"""The work for each event: that of an OCI hook, and work that needs data from the runtime.

StartContainer is createRuntime: the process waits in its final cgroup and class. StopContainer is poststop, and
RemovePodSandbox ends the pod although its cgroup still exists; CreateContainer is the only event at which every runtime
obeys a refusal.
"""

import time

from ...core.node.container.recorded import lacks_labels
from ...core.node.context import set_deadline
from ...core.node.errors import InputError
from ...core.node.fault_report import as_hook_error
from ...core.node.hook.call import answer, stopped
from ...core.node.hook.create_runtime import create_runtime
from ...core.node.host.cgroup import read_value
from ...core.node.host.procfs import lives, start_time
from ...core.node.lifecycle import reap_some, release_container, release_key
from ...core.node.log import INFO, WARNING
from ...core.node.names import pod_key
from ...core.node.resctrl.group import SHARED
from ...core.node.resctrl.locked_key import record_is_dead
from . import ttrpc
from .event import CREATE_CONTAINER, ENDS, LATE_START, START, STARTS, Event
from .protobuf import decode, encode
from .requested import specified_by
from .worker import NOT_YET, pack
from .workload import READ, resources_of, workload_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...core.node.container.workload import Workload
    from ...core.node.context import Context
    from ...core.node.records import MemberRecord
    from .worker import Reply

    Handler = Callable[[Event, Context], tuple[str, bytes]]

_GONE = "RemoveContainer"
_UNFIT = {"deadline", "fault"}
"""Reasons after which a process serves no other event."""
LATE = "late"
"""The reason that is counted where a container is served only after its start."""


class NoProcessError(Exception):
    """A StartContainer names no process, so there is nothing yet that could be served."""


def create_container(event: "Event", context: "Context") -> "tuple[str, bytes]":
    """Serve CreateContainer as `creation.create_container` does."""
    from .creation import create_container as create  # `NodePlugin` has imported it if creations need work

    return create(event, context)


def start_container(event: Event, context: "Context") -> "tuple[str, bytes]":
    """Do createRuntime's work for a process that waits to be started, unless it is done already.

    Nothing is refused or undone: CRI-O starts a container despite a refusal here.

    Raises:
        NoProcessError: the message has no process.
    """
    if not event.container.get("pid"):
        raise NoProcessError
    workload = workload_of(event.pod, event.container, event.runtime, context.settings)
    event.key = workload.key
    key = context.ledger.key_of(workload.id)
    record = record_of(key, workload.id, workload.pid, context)
    if record is not None:  # by a hook, or by a pass of reconcile
        return complete(workload, record, context), b""
    return create_runtime(workload, context, key), b""


def late_start(event: Event, context: "Context") -> "tuple[str, bytes]":
    """Serve a container whose StartContainer had no process; its threads may have run before."""
    try:
        summary, answer = start_container(event, context)
    except NoProcessError:
        raise InputError("the runtime sent no pid of the container in StartContainer and PostStartContainer") from None
    if summary:
        context.failures.append(LATE)
        context.ledger.wake()  # reconcile moves the process's existing children
        summary = f"served late, because StartContainer has no pid: {summary}"
    return summary, answer


def record_of(key: str, container: str, pid: int, context: "Context") -> "MemberRecord | None":
    """Return a container's record under a key, empty for none, if it is of this very process."""
    record = context.ledger.read_member(key, container) if key else None
    if record is None or record.get("pid") != pid or not lives(context.proc, pid, record.get("start")):
        return None
    return record


def complete(workload: "Workload", record: "MemberRecord", context: "Context") -> str:
    """Do what a hook or reconcile left out, because it did not see the pod's labels and annotations.

    The summary is empty if nothing was applied.
    Reconcile does the work, as for each container in Synchronize, and tries again what fails now.
    """
    if not lacks_labels(record):
        return ""
    from ...core.node.reconcile.completion import complete_record  # only where a hook runs too, or an event came late

    report = complete_record(workload, record, context)
    context.failures += report.reasons
    context.ledger.wake()  # it moves children, and places a container that was adopted
    return f"completed by labels and annotations: {', '.join(report.applied)}" if report.applied else ""


def stop_container(event: Event, context: "Context") -> "tuple[str, bytes]":
    """Undo the steps of an ended container; RemoveContainer repeats it in case Stop never came."""
    return stopped(event.id, context), b""


def remove_pod(event: Event, context: "Context") -> "tuple[str, bytes]":
    """End the pod's groups: its cgroup is still there, and nothing will come in it any more.

    Unless something lives in it: a pod whose sandbox has died gets a new one, and then the old one is removed.
    """
    key = event.key = pod_key(event.pod.get("uid", ""))
    if not key or context.ledger.read_pod(key) is None:
        return "", b""
    with context.monitor.hold(key) as locked:
        for member in locked.members():
            if not record_is_dead(locked.member(member), context.monitor.boot, context.proc):
                return f"{key} stays: container {member[:12]} is running", b""
            release_container(locked, member, context)
        if locked.members():
            return f"{key} stays: a container has started", b""
        if "populated 1" in read_value(locked.record.get("cgroup", ""), "cgroup.events"):
            context.ledger.mark("idle", key)
            return f"{key} stays: another sandbox of the pod is running", b""
        groups = sum(origin != SHARED for origin in locked.origins.values())
        release_key(locked, context, ended=True)
    return f"released {key} with {groups} groups", b""


HANDLERS: "dict[str, Handler]" = {
    CREATE_CONTAINER: create_container,
    START: start_container,
    LATE_START: late_start,
    "StopContainer": stop_container,
    "RemoveContainer": stop_container,
    "RemovePodSandbox": remove_pod,
}


def follow_up(event: Event, context: "Context") -> bytes:
    """Return the updates of other containers that the runtime applies after its answer, as in `UpdateContainers`."""
    if event.stage not in (*STARTS, *ENDS):
        return b""
    if event.stage == _GONE:  # an ended container may be started again with its specification
        for one in specified_by(context.settings):
            one.forget({event.id}, context)
    return updates(event.id if event.stage in STARTS else "", context)


def updates(started: str, context: "Context") -> bytes:
    """Return `UpdateContainers` for all whose values differ from their specification; empty for none."""
    found: "list[dict[str, Any]]" = []
    for one in specified_by(context.settings):
        changed = one.changes(started, context)
        for id_, value in changed.items():
            linux = {"resources": {one.RESOURCE: value}}
            found.append({"container_id": id_, "linux": linux, "ignore_failure": True})
        if changed:
            context.log(INFO, f"sent the {one.VALUE}s of {len(changed)} containers to the runtime", stage=one.NAME)
    return encode("UpdateContainersRequest", {"update": found}) if found else b""


def serve(name: str, payload: bytes, runtime: "tuple[str, str]", context: "Context", reply: "Reply") -> bool:
    """Serve one event within the deadline; reply, then log and count it.

    The reply is a status code and, encoded by `pack`, the answer or the reason of a refusal, with later updates of
    other containers. ``runtime`` is its name and its version of NRI. Returns whether the process can serve another
    event: after a timeout or an internal error it cannot.
    """
    event = Event(name, b"", *runtime)
    code, answered, others = ttrpc.OK, b"", b""

    def work(context: "Context") -> str:
        nonlocal code, answered, others
        try:
            event.read(payload)
            summary, answered = HANDLERS[event.stage](event, context)
            others = follow_up(event, context)
        except NoProcessError:
            code, summary = NOT_YET, ""
            what = f"{event.stage} of {event} has no pid; waiting for {LATE_START}"
            context.log(WARNING, what, stage=event.stage)
        except Exception as caught:  # noqa: BLE001  # a container's start must not depend on our having no bugs
            error = as_hook_error(caught)
            raise error from error.__cause__
        return summary

    def reply_first(refusal: str) -> None:
        if refusal:
            reply(ttrpc.UNKNOWN, pack(refusal.encode("utf-8", "replace"), b""))
        else:
            reply(code, pack(answered, others))

    answer(event, work, context, reply_first)
    return _tidy(event.stage, context) and not _UNFIT & set(event.reasons)


def _tidy(stage: str, context: "Context") -> bool:
    """After a start, ends some pods that others left idle; returns whether that came to an end in time."""
    if stage not in STARTS:
        return True
    try:
        set_deadline(context.settings.deadline)
        try:
            reap_some(context)
        finally:
            set_deadline(0)
    except Exception as caught:  # noqa: BLE001  # the runtime has its answer
        context.log(WARNING, f"groups of ended pods left to reconcile: {as_hook_error(caught)}", stage=stage)
        return False
    return True


def adopt(context: "Context") -> bytes:
    """Adopt running containers that the node itself shows, without data from the runtime; return nothing to update."""
    from ...core.node.reconcile.reconcile import reconcile
    from ...core.node.reconcile.report import Options

    reconcile(context, Options())
    return b""


def synchronize(parts: "list[bytes]", runtime: str, context: "Context") -> bytes:
    """Reconcile with the runtime's list of containers; return an UpdateContainers, or nothing."""
    from ...core.node.reconcile.reconcile import reconcile
    from ...core.node.reconcile.report import Options

    begun = time.monotonic()
    specified = [
        (one, one.noted(context)) for one in specified_by(context.settings)
    ]  # before an unlisted container can be created
    pods: "dict[str, dict[str, Any]]" = {}
    containers: "list[dict[str, Any]]" = []
    for part in parts:
        message = decode("SynchronizeRequest", part)
        pods.update((pod.get("id", ""), pod) for pod in message.get("pods", []))
        for container in message.get("containers", []):
            container["env"] = [one for one in container.get("env", ()) if one.startswith(READ)]  # they may be millions
            containers.append(container)
    listed: "dict[str, Workload]" = {}
    for container in containers:
        pid, id_ = container.get("pid", 0), container.get("id", "")
        if not pid or not start_time(context.proc, pid):
            continue
        try:
            pod = pods.get(container.get("pod_sandbox_id", ""), {})
            listed[id_] = workload_of(pod, container, runtime, context.settings)
        except Exception as caught:  # noqa: BLE001  # one container's trouble is no other's
            error = as_hook_error(caught)
            context.log(WARNING, f"Synchronize: container {id_[:12]}: {error}", container=id_, reason=error.reason)
    report = reconcile(context, Options(), listed)
    for one, before in specified:
        resources = {each.get("id", ""): resources_of(each.get("linux", {})) for each in containers}
        one.learn({id_: found.get(one.RESOURCE, {}) for id_, found in resources.items()}, before, context)
    others = updates("", context)
    context.log(
        INFO, f"Synchronize: {len(containers)} containers, {report.number('adopted')} that started earlier were adopted"
    )
    context.ledger.count_call("Synchronize", time.monotonic() - begun, sorted(set(report.reasons)))
    return others
