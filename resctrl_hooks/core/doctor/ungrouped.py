"""The reason why a pod of this node has no group, and the next command: for `explain POD`.

The sources are the records, the refusals, the runtimes' state, the active settings and the runtimes' hook directories.
"""

import json
import os
import time
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from resctrl_hooks.core.install.directories import RUNTIMES, RuntimeConfigError, directories
from resctrl_hooks.core.install.paths import HOOK_NAME, UNITS
from resctrl_hooks.core.install.unit import Unit
from resctrl_hooks.core.install.unit_files import SERVER
from resctrl_hooks.core.install.watching import LOOKS_PAST, looks_past
from resctrl_hooks.core.inventory.attention import state_problem
from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.core.inventory.find import ForeignGroupError, NoSuchPodError, SeveralPodsError, find, similar
from resctrl_hooks.core.inventory.gather import name_podmans, pod_of, refusals
from resctrl_hooks.core.inventory.models import Pod, meaning
from resctrl_hooks.core.inventory.podman import RUNTIME as PODMAN
from resctrl_hooks.core.inventory.records import is_known
from resctrl_hooks.core.node.container.names import short_id
from resctrl_hooks.core.node.container.recorded import recorded_workload
from resctrl_hooks.core.node.container.runtimes import Found
from resctrl_hooks.core.node.container.workload import Workload
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.features.monitoring import why_not
from resctrl_hooks.core.node.names import namespace_in_words
from resctrl_hooks.core.node.reconcile.vanished import read_vanished
from resctrl_hooks.core.node.resctrl.absence import why_no_monitoring

from .host import Host
from .running import Running, chosen, running_containers
from .runtimes import installed

Reason = Literal[
    "grouped",
    "waiting",
    "incomplete",
    "refused",
    "no-resctrl",
    "state-directory",
    "not-selected",
    "started-before-installation",
    "hook-not-called",
    "no-record",
]

_NAMES = {"cri-o": "crio"}  # runtimes as `install --runtime` has them, where they differ
_LOG = "journalctl -t resctrl-hook"
_DOCTOR = "resctrl-hook doctor"
_RECONCILE = "resctrl-hook reconcile"
_CONFIG = "resctrl-hook config show"


class PodExplanation(Record):
    """Why a pod is grouped or not: a stable word, a sentence, and the next command."""

    namespace: str
    pod: str
    key: str
    runtime: str = ""
    reason: Reason
    text: str
    next_command: str = Field(default="", serialization_alias="next")

    @property
    def name(self) -> str:
        """The pod as `list` names it."""
        return "/".join(filter(None, (self.namespace, self.pod))) or short_id(self.key)


def explain_pod(host: Host, what: str) -> PodExplanation:
    """Explain the group of the pod ``what``: its name, ``NAMESPACE/POD``, or the start of its key or a container id.

    Raises:
        NoSuchPodError: nothing on this node has that name, several pods have it, or it is that of a foreign group.
        HookError: a state directory is unreadable.
    """
    try:
        key = find(host.context, what)
    except SeveralPodsError:
        raise
    except NoSuchPodError as unknown:
        running = running_containers(host)
        key = chosen(running, what)
        if not key and (isinstance(unknown, ForeignGroupError) or not what):
            raise
        if not key:
            also = similar(what, [one.names for one in running])
            text = f"unknown pod {what!r}: no container of it runs on this node, and no record names it{also}"
            raise NoSuchPodError(text, hint=_where_to_look(host)) from unknown
        if not is_known(host.context, key):
            return _without_record(host, next(one for one in running if one.workload.key == key))
    pod = pod_of(host.context, key)
    if pod is None:
        return _refused(host, key)
    name_podmans([pod])
    return _recorded(host, pod)


def _where_to_look(host: Host) -> str:
    only_podman = [runtime.name for runtime in installed(host)] == [PODMAN]
    return "`podman ps --all` lists all containers" if only_podman else "`kubectl get pod -o wide` shows a pod's node"


def _recorded(host: Host, pod: Pod) -> PodExplanation:
    resctrl = _resctrl_problem(host)
    text = meaning(pod.state, resctrl=not resctrl)
    reason: Reason
    if pod.state in ("unmonitored", "no-rdt"):
        return _not_selected(host, pod)
    if resctrl and (pod.state != "idle" or not pod.groups):
        return _made(pod, "no-resctrl", resctrl, _DOCTOR)
    if pod.state == "waiting":
        reason, after = "waiting", "resctrl-hook list --demand"
    elif pod.state in ("assigned", "idle"):
        reason, after = "grouped", f"resctrl-hook show {pod.name}"
    else:
        reason, after = "incomplete", _RECONCILE
        if all(group.origin == "missing" for group in pod.groups) and pod.groups:
            text, after = _removed(host, pod)
    lacking = [f"without {name}: {why}" for one in pod.containers for name, why in one.without.items()]
    return _made(pod, reason, "; ".join(dict.fromkeys([text, *lacking])), after)


def _removed(host: Host, pod: Pod) -> tuple[str, str]:
    """Return what happened to a pod without its group, and the next command."""
    text = "another program removed the pod's group; reconcile creates the group again"
    _, _, until = read_vanished(host.settings.state_dir)["pods"].get(pod.key, (0, 0.0, 0.0))
    wait = until - time.time()
    return (f"{text} in {wait:.0f} s", _DOCTOR) if wait > 0 else (text, _RECONCILE)


def _not_selected(host: Host, pod: Pod) -> PodExplanation:
    """Explain why a recorded pod is not monitored; its record has the decision of its start, which stays."""
    one = next(iter(pod.living or pod.containers))
    record = host.context.ledger.read_member(pod.key, one.id) or {}
    try:
        excluded = _excluded(host, recorded_workload(one.id, one.pid, record, host.settings))
    except (HookError, ProcessLookupError) as error:
        excluded = f"not selected for monitoring when it started; whether it is now is unknown: {error}"
    if excluded:
        return _made(pod, "not-selected", excluded, _CONFIG)
    if problem := _resctrl_problem(host):
        return _made(pod, "no-resctrl", problem, _DOCTOR)
    text = "excluded when it started; the present configuration selects it: restart the pod to monitor it"
    return _made(pod, "not-selected", text, f"podman restart {one.name}" if one.runtime == PODMAN and one.name else "")


def _refused(host: Host, key: str) -> PodExplanation:
    found = [one for one in refusals(host.context) if one.key == key]
    if not found:
        raise NoSuchPodError(f"pod {short_id(key)} has ended")  # meanwhile
    last = found[-1]
    pod = Pod(key=key, namespace=last.namespace, pod=last.pod, state="refused")
    return _made(pod, "refused", f"container {last.container or last.id[:12]} was rejected: {last.why}", _LOG)


def _without_record(host: Host, one: Running) -> PodExplanation:
    found, workload = one.found, one.workload
    runtime = _NAMES.get(workload.runtime, workload.runtime)
    pod = Pod(key=workload.key, namespace=workload.namespace, pod=workload.pod, state="unmonitored")
    if excluded := _excluded(host, workload):
        return _made(pod, "not-selected", excluded, _CONFIG, runtime)
    if problem := _resctrl_problem(host):
        return _made(pod, "no-resctrl", problem, _DOCTOR, runtime)
    if problem := state_problem(host.settings.state_dir):
        return _made(pod, "state-directory", problem, _DOCTOR, runtime)
    try:
        registration, read = _registration(host, runtime)
    except (OSError, RuntimeConfigError) as error:
        return _made(pod, "hook-not-called", f"cannot read {runtime}'s configuration: {error}", _DOCTOR, runtime)
    if not registration:
        folders = ", ".join(read)
        none = f"{SERVER.serves} is not installed" if SERVER else f"{runtime or 'the runtime'} calls no hooks"
        where = f"{runtime} reads hooks in {folders}; none has {HOOK_NAME}" if read else none
        after = f"resctrl-hook install --runtime {runtime}" if runtime in RUNTIMES else "resctrl-hook install"
        return _made(pod, "hook-not-called", where, after, runtime)
    if _started_before(host, found, registration):
        text = f"the container started before {registration} was installed"
        return _made(pod, "started-before-installation", text, _RECONCILE, runtime)
    folder = os.path.dirname(registration)
    if runtime in RUNTIMES and read and looks_past(RUNTIMES[runtime], host.tree, folder):
        text = LOOKS_PAST.format(name=runtime, folder=folder)
        return _made(pod, "hook-not-called", text, RUNTIMES[runtime].restart, runtime)
    caller = runtime or "the runtime"
    text = (
        f"{registration} exists, but no record: the hook failed, {caller} did not call it, or the settings excluded it"
    )
    return _made(pod, "no-record", text, f"{_LOG}; then {_RECONCILE}", runtime)


def _excluded(host: Host, workload: Workload) -> str:
    if not host.settings.monitoring["enabled"]:
        return "`monitoring.enabled` is false"
    if host.settings.selects(workload.namespace):
        none = "" if workload.namespace else ' (`""`)'
        what = f"{namespace_in_words(workload.namespace)}{none}"
        return f"`namespaces: {json.dumps(host.settings.namespaces)}` excludes {what}"
    try:
        reason = why_not(workload, host.context)
    except HookError as error:
        return str(error)
    return f"`labelSelector` excludes it: {reason}" if reason else ""


def _resctrl_problem(host: Host) -> str:
    resctrl = host.context.monitor.resctrl
    if (missing := why_no_monitoring(resctrl)) is not None:
        return str(missing)
    try:
        resctrl.classes()
    except HookError as error:
        return str(error)
    return ""


def _registration(host: Host, runtime: str) -> tuple[str, Iterable[str]]:
    """Return the file by which a runtime calls this program (empty for none), and its hook directories.

    Raises:
        OSError, RuntimeConfigError: the runtime's configuration is unreadable.
    """
    known = RUNTIMES.get(runtime)
    if SERVER and (host.tree.exists(unit := f"{UNITS}/{SERVER.name}") or _has_run(SERVER, host)):
        return unit, ()
    if known is None or known.house:
        return "", ()
    read = directories(known, host.tree.root)
    return next((path for folder in read if host.tree.exists(path := f"{folder}/{HOOK_NAME}")), ""), read


def _has_run(unit: Unit, host: Host) -> bool:
    return unit.status is not None and unit.status(host.settings.state_dir) is not None


def _started_before(host: Host, found: Found, registration: str) -> bool:
    """Return whether a container's process started before a file was written; false if unknown."""
    fields = [line.split() for line in host.proc("stat").splitlines() if line.startswith("btime ")]
    try:
        started = int(fields[0][1]) + found.start / os.sysconf("SC_CLK_TCK")
        return started < os.stat(host.tree.real(registration)).st_mtime
    except (IndexError, ValueError, OSError):
        return False


def _made(pod: Pod, reason: Reason, text: str, after: str, runtime: str = "") -> PodExplanation:
    return PodExplanation(
        namespace=pod.namespace, pod=pod.pod, key=pod.key, runtime=runtime, reason=reason, text=text, next_command=after
    )
