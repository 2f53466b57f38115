"""Reading of resctrl, the ledger and the processes into reports. Read-only; takes no locks."""

import os
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from resctrl_hooks.core.node.container.names import short_id
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.cgroup_tasks import threads_of_container
from resctrl_hooks.core.node.host.procfs import groups_of_process
from resctrl_hooks.core.node.names import name_text
from resctrl_hooks.core.node.reconcile.tasks import outside
from resctrl_hooks.core.node.refusals import recent_refusals
from resctrl_hooks.core.node.resctrl.absence import why_no_monitoring, why_no_resctrl
from resctrl_hooks.core.node.resctrl.group import name_of
from resctrl_hooks.core.node.resctrl.group_names import current_name
from resctrl_hooks.core.node.resctrl.locked_key import record_is_dead
from resctrl_hooks.core.node.resctrl.rmids import foreign_classes, groups_by_class, rmids_of_each_class, total_rmids
from resctrl_hooks.core.node.sharing.limits import limit_of
from resctrl_hooks.core.node.sharing.runtimes_group import group_name

from .account import Account
from .base import class_text
from .coverage import bandwidth_counters, counted_state, free_counters
from .details import details_of
from .foreign import GroupName, foreign_group
from .models import Container, Group, Inventory, Outside, Pod, Refusal, Rmids, State
from .owners import account
from .pod_fields import pod_fields
from .podman import RUNTIME as PODMAN
from .podman import podman_names
from .records import members_of, recorded

if TYPE_CHECKING:
    from resctrl_hooks.core.node.records import MemberRecord
    from resctrl_hooks.core.node.resctrl.filesystem import Resctrl

_MISSING = "missing"
_OF_RUNTIME = "runtime"
_LACKING = ("waiting", "partly")  # a mark may outlive its wait until the next reconcile


def gather(context: Context) -> Inventory:
    """Return the whole inventory: pods, foreign groups, waiting pods, RMIDs.

    Raises:
        HookError: the state directory is unreadable.
    """
    resctrl = context.monitor.resctrl
    found = Inventory(resctrl=resctrl.root)
    waiting = set(context.ledger.marked("waiting"))
    pods = (pod_of(context, key, waiting) for key in sorted(recorded(context)))
    found.pods = [pod for pod in pods if pod is not None]
    lacking = _lacking(found.pods, waiting)
    found.waiting = [pod.key for pod in lacking]
    found.refusals = refusals(context)
    try:
        found.account = account(context, {pod.key: pod.name for pod in found.pods}, waiting=bool(lacking))
    except HookError as error:
        found.problem = str(error)
        return found
    found.impossible = bool(why_no_resctrl(resctrl.root, context.proc))
    ours = {group.path for pod in found.pods for group in pod.groups}
    for one in found.account.owners:
        name = GroupName(one.rdt_class, one.group)
        if one.group and f"{resctrl.root}/{name.shown}" not in ours:
            found.foreign.append(foreign_group(context, name, by_runtime=one.owner == "runtimes"))
    found.rmids = rmids_in(found.account)
    for field in pod_fields():
        value = field.read(context, {})
        for pod in found.pods:
            setattr(pod, field.name, value(pod))
    found.bandwidth_counters = free_counters(context)
    return found


def waiting_keys(context: Context) -> list[str]:
    """Return the keys that wait for an RMID: a hook or reconcile has marked them, and they still lack it."""
    return [pod.key for pod in waiting_pods(context)]


def waiting_pods(context: Context) -> list[Pod]:
    """Return the pods of `waiting_keys`."""
    marked = set(context.ledger.marked("waiting"))
    pods = (pod_of(context, key, marked) for key in sorted(marked))
    return _lacking([pod for pod in pods if pod is not None], marked)


def _lacking(pods: list[Pod], marked: Collection[str]) -> list[Pod]:
    return [pod for pod in pods if pod.key in marked and pod.state in _LACKING]


def queued_pods(context: Context, waiting: list[Pod]) -> list[Pod]:
    """Return the waiting pods that a rule of the operator keeps waiting: sharing rules, or their namespace's limit."""
    if context.settings.shares_rmids or not context.settings.groups.get("limits"):
        return waiting if context.settings.shares_rmids else []
    held: Counter[str] = Counter()
    keys = context.ledger.keys()
    for key in keys:
        record = context.ledger.read_pod(key) or {}
        held[record.get("namespace", "")] += len(record.get("groups", {}))
    most = {pod.namespace: limit_of(pod.namespace, context) for pod in waiting}
    return [
        pod
        for pod in waiting
        if not pod.groups and (limit := most[pod.namespace]) is not None and held[pod.namespace] >= limit
    ]


def refusals(context: Context) -> list[Refusal]:
    """Return recently refused containers, the latest last."""
    return [Refusal.model_validate(one) for one in recent_refusals(context.ledger.folder)]


def refused_pod(context: Context, key: str) -> Pod | None:
    """Return a pod that is known only by its refusals; None if this key has none."""
    found = [one for one in refusals(context) if one.key == key]
    if not key or not found:
        return None
    last = found[-1]
    return Pod(key=key, namespace=last.namespace, pod=last.pod, state="refused", since=found[0].time)


def rmids_in(found: Account) -> Rmids | None:
    """Return the numbers of used and free RMIDs of an account; None without monitoring."""
    total = sum(found.rmids.values())
    return Rmids(total=total, used=len(found.owners), free_by_class=found.free_by_class) if total else None


def rmids_of(resctrl: "Resctrl", used: int) -> Rmids | None:
    """Return the same as `rmids_in` for a caller that knows only the RMIDs used by the classes of `Resctrl.classes`."""
    try:
        total = total_rmids(resctrl)
        each = rmids_of_each_class(resctrl)
        groups = sorted(groups_by_class(resctrl).items()) if each else ()
        by_class = {class_text(name): max(each - 1 - len(names), 0) for name, names in groups}
        used += sum(1 + len(names) for names in foreign_classes(resctrl).values())
    except (OSError, HookError):
        return None
    return Rmids(total=total, used=used, free_by_class=by_class) if total else None


def pod_of(context: Context, key: str, all_waiting: Collection[str] | None = None) -> Pod | None:
    """Return the pod of one key; None if no record belongs to the current boot.

    ``all_waiting`` saves reading the waiting keys again.
    """
    record = context.ledger.read_pod(key)
    waiting = key in (context.ledger.marked("waiting") if all_waiting is None else all_waiting)
    found = sorted(members_of(context, key).items())
    members = {id_: member for id_, member in found if member.get("boot") == context.monitor.boot}
    if record is None or record.get("boot") != context.monitor.boot:
        if not waiting and not members:
            return None
        record = {}
    usual = context.monitor.group_prefix + key
    names = {rdt_class: name_of(record, rdt_class, usual) for rdt_class in sorted(record.get("groups", {}))}
    groups = [_group(context, rdt_class, name, record["groups"][rdt_class]) for rdt_class, name in names.items()]
    groups += _of_runtimes(context, key, members)
    pod = Pod(
        key=key,
        namespace=record.get("namespace", ""),
        pod=record.get("pod", ""),
        cgroup=record.get("cgroup", ""),
        groups=groups,
        state="assigned",
        priority=record.get("claim", {}).get("priority"),
        unread=list(record.get("unread") or []),
    )
    for id_, member in members.items():
        pod.containers.append(_container(context, pod, id_, member))
        pod.namespace = pod.namespace or member.get("namespace", "")
        pod.pod = pod.pod or member.get("pod", "")
    pod.since = min((one.since for one in pod.containers if one.since), default=_made(context, key))
    pod.bandwidth_counters = bandwidth_counters(context, [group.path for group in groups if group.origin != _MISSING])
    pod.state = state_of(pod, waiting=waiting)
    if pod.state == "unmonitored" and context.settings.groups["enabled"] and why_no_monitoring(context.monitor.resctrl):
        pod.state = "no-rdt"
    if pod.state == "assigned":
        pod.state = counted_state(context, pod.bandwidth_counters)
    return pod


def name_podmans(pods: list[Pod]) -> None:
    """Give containers and pods of Podman their Podman names; ask Podman only if there are any."""
    theirs = [pod for pod in pods if any(one.runtime == PODMAN and not one.name for one in pod.containers)]
    names = podman_names() if theirs else None
    for pod in theirs if names else ():
        assert names is not None
        pod.pod = pod.pod or names.pods.get(pod.key, "")
        for one in pod.containers:
            one.name = one.name or names.containers.get(one.id, "")
    for pod in pods:
        for one in pod.containers:
            if one.runtime == PODMAN and one.id == pod.key:  # container outside a pod; metrics use this name too
                pod.pod = pod.pod or one.name


def state_of(pod: Pod, *, waiting: bool) -> State:
    """Return the pod's state as one word."""
    alive = [container for container in pod.containers if container.alive]
    if not pod.groups and not waiting and pod.containers and not any(one.monitored for one in pod.containers):
        return "unmonitored"
    missing = not pod.groups or any(group.origin == _MISSING for group in pod.groups)
    if waiting and missing:
        return "waiting"
    # A key without members and without a pod's cgroup belongs to another program, which alone can judge it.
    if (pod.containers or pod.cgroup) and not alive:
        return "idle"
    return "partly" if missing or any(container.outside for container in alive) else "assigned"


def _group(context: Context, rdt_class: str, name: str, origin: str) -> Group:
    resctrl = context.monitor.resctrl
    try:
        there = resctrl.exists(rdt_class, name)
        tasks = len(resctrl.tasks(rdt_class, name))
    except HookError:
        there, tasks = False, 0
    text = name_text(name)
    path = resctrl.group_folder(rdt_class, text)
    return Group(rdt_class=rdt_class, name=text, path=path, origin=origin if there else _MISSING, tasks=tasks)


def _container(context: Context, pod: Pod, id_: str, record: "MemberRecord") -> Container:
    pid = int(record.get("pid", 0))
    alive = not record_is_dead(record, context.monitor.boot, context.proc)
    found = Container(
        id=id_,
        name=record.get("container", ""),
        runtime=record.get("runtime", ""),
        pid=pid,
        alive=alive,
        rdt_class=None,
        outside=0,
        since=record.get("time", 0),
        cgroup=record.get("cgroup", ""),
        details=details_of(record),
        # A member that a program added through the library has no steps; it only uses the group.
        monitored="steps" not in record or _recorded_class(record) is not None,
    )
    if not alive or not pid:
        return found
    own = {group.rdt_class: group.name for group in pod.groups if group.origin not in (_MISSING, _OF_RUNTIME)}
    of_runtime = {group.rdt_class: group.name for group in pod.groups if group.name == id_}
    try:
        where = groups_of_process(context.proc, pid)
        found.rdt_class = where[0] if where is not None else _recorded_class(record)
        found.threads = len(threads_of_container(context.proc, found.cgroup, pid))
        astray = outside(context, of_runtime or own, found.cgroup, pid) if found.monitored else []
    except ProcessLookupError:
        found.alive = False
        return found
    except HookError as error:
        pod.problems.append(f"container {found.name or short_id(id_)}: {error}")
        return found
    found.outside = len(astray)
    found.outside_threads = [Outside(thread=tid, rdt_class=rdt_class, group=group) for tid, rdt_class, group in astray]
    return found


def _of_runtimes(context: Context, key: str, members: "dict[str, MemberRecord]") -> list[Group]:
    """Return the groups that runtimes have created for containers of a pod."""
    found = []
    for id_, record in members.items():
        rdt_class = _recorded_class(record) or ""
        own = current_name(context.monitor, key, rdt_class)
        try:
            name = group_name(context, own, id_, rdt_class, asks=bool(record.get("runtimeGroup")))
        except HookError:
            continue  # without resctrl
        if name != own:
            found.append(_group(context, rdt_class, name, _OF_RUNTIME))
    return found


def _recorded_class(record: "MemberRecord") -> str | None:
    for step in record.get("steps") or []:
        if "class" in (step.get("needs") or {}) and step.get("feature") == "monitoring":
            return str(step["needs"]["class"])
    return None


def _made(context: Context, key: str) -> int:
    try:
        return int(os.stat(f"{context.ledger.folder}/pods/{key}/pod").st_mtime)
    except OSError:
        return 0
