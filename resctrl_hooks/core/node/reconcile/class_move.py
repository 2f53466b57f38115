"""Moves a running pod into another RDT class, and back: its group, all threads, and the classes in its records.

A group is renamed, so it keeps its RMID and its counts; where the kernel cannot do that, a second group counts on.
`RecordedGroups.limited_to` is then the class of all that starts or enters later, for hooks, NRI, watch and reconcile.
"""

from ..container.names import short_id
from ..errors import HookError, NoRMIDsError
from ..feature import obtain_group
from ..feature_table import MONITORING, RDT
from ..host.cgroup_tasks import threads_of_container
from ..host.procfs import groups_of_process, resctrl_groups_of
from ..ledger import CHANGING
from ..resctrl.group_moves import part_with
from ..resctrl.locked_key import record_is_dead
from .forks import await_forks
from .group_class import move_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..context import Context
    from ..records import MemberRecord, StepRecord
    from ..resctrl.locked_key import LockedKey

_MOST_ROUNDS = 100


class PodClassError(HookError):
    """A pod cannot be moved to a class."""

    reason = "rdt-class"


def classes_now(context: "Context", key: str) -> "dict[str, str] | None":
    """Return the class of each living container of a pod, by its init process; None without one.

    Raises:
        HookError: resctrl is not mounted.
    """
    record = context.ledger.read_pod(key)
    if record is None or record.get("boot") != context.monitor.boot:
        return None
    return _classes(context, _living(context, key)) or None


def _classes(context: "Context", members: "Mapping[str, MemberRecord]") -> "dict[str, str]":
    found: "dict[str, str]" = {}
    for name, member in members.items():
        try:
            where = groups_of_process(context.proc, member["pid"])
        except OSError:
            continue  # it has just ended
        found[name] = where[0] if where is not None else _listed(context, member["pid"])
    return found


def _listed(context: "Context", pid: int) -> str:
    """Return the class of a process where /proc has none: in a simulation."""
    resctrl = context.monitor.resctrl
    return next((name for name in resctrl.classes() if pid in _tasks(context, name)), "")


def _tasks(context: "Context", name: str) -> "set[int]":
    """Return the tasks of a class and of its groups, which only the kernel's own ``tasks`` of a class has all."""
    resctrl = context.monitor.resctrl
    return resctrl.tasks(name, "").union(*(resctrl.tasks(name, group) for group in resctrl.groups(name)))


def _living(context: "Context", key: str) -> "dict[str, MemberRecord]":
    found = ((name, context.ledger.read_member(key, name)) for name in context.ledger.members(key))
    monitor = context.monitor
    return {
        name: one
        for name, one in found
        if one is not None and one.get("pid") and not record_is_dead(one, monitor.boot, context.proc)
    }


def limit_pod(context: "Context", key: str, rdt_class: str) -> None:
    """Move a pod to a class, in which it is kept until `return_pod`.

    Raises:
        PodClassError: the class does not exist, or the pod's runtime has created its groups.
        NoRMIDsError: the kernel cannot rename groups, and no RMID is free for a second one.
        HookError: the kernel refuses.
    """
    with context.monitor.hold(key) as locked:
        if not locked.tracked:
            return
        members = _living(context, key)
        if not _exists(context, rdt_class):
            raise PodClassError(
                f"cannot move pod {key}: there is no RDT class {rdt_class}",
                hint="`resctrl-hook rdt show` lists the classes",
            )
        if any(one.get("runtimeGroup") for one in members.values()):
            raise PodClassError(
                f"the runtime of pod {key} has created a group for it, which cannot change its class",
                hint="set the class in the container's specification (linux.intelRdt)",
            )
        before = locked.record.get("limitedTo")
        homes = locked.record.setdefault("limitedFrom", {})
        homes.update((name, one) for name, one in _classes(context, members).items() if name not in homes)
        locked.record["limitedTo"] = rdt_class
        locked.save()
        try:
            _move(locked, context, members, dict.fromkeys(members, rdt_class))
        except NoRMIDsError:
            forget(locked)
            if before is not None:
                locked.record.update({"limitedTo": before, "limitedFrom": homes})
            locked.save()
            raise


def return_pod(context: "Context", key: str, classes: "Mapping[str, str]", rest: str, left: "set[str]") -> "list[str]":
    """Move a pod back to the classes of its containers; it is not kept in a class any more.

    A container that another program has moved since stays. Of classes that were removed meanwhile, the kernel has moved
    the tasks to the root class, which replaces them.

    Args:
        context: the node.
        key: the pod.
        classes: the classes by container.
        rest: the class of containers that have none there and started before they could be limited.
        left: the classes in which it was kept, where empty groups of the pod are removed.

    Returns:
        Lines on the containers that another program has moved.

    Raises:
        HookError: the kernel refuses, or the key is held.
    """
    with context.monitor.hold(key) as locked:
        if not locked.tracked:
            return []
        locked.record.pop("limitedTo", None)
        locked.save()
        members = _living(context, key)
        homes = {**locked.record.get("limitedFrom", {}), **classes}
        ours = left if all(_exists(context, one) for one in (*homes.values(), *left)) else {*left, ""}
        now = _classes(context, members)
        stay = {name: one for name, one in now.items() if one not in (*ours, homes.get(name))}
        wanted = {name: stay.get(name, homes.get(name, _own_class(one, rest))) for name, one in members.items()}
        goals = {name: one if _exists(context, one) else "" for name, one in wanted.items()}
        _move(locked, context, members, goals)
        for one in left - {*goals.values()}:
            if one in locked.origins:
                _leave(locked, context, one)
        forget(locked)
        locked.save()
    return [
        f"container {short_id(name)} of pod {key} is in RDT class {one or '/'}"
        for name, one in stay.items()
        if name in homes
    ]


def _leave(locked: "LockedKey", context: "Context", left: str) -> None:
    """Remove the empty group in a class that the pod has left, and keep its counts."""
    if not context.monitor.resctrl.tasks(left, locked.name_in(left)):
        others = [name for name in locked.origins if name != left]
        part_with(context.monitor, locked.key, [left], lambda: locked.release_but(others))


def forget(locked: "LockedKey") -> None:
    """Drop the class in which a pod is kept; the caller saves."""
    locked.record.pop("limitedTo", None)
    locked.record.pop("limitedFrom", None)


def _exists(context: "Context", rdt_class: str) -> bool:
    resctrl = context.monitor.resctrl
    return not rdt_class or resctrl.fs.is_folder(resctrl.class_folder(rdt_class))


def _own_class(member: "MemberRecord", rest: str) -> str:
    steps = [step for step in member.get("steps", []) if step["feature"] == RDT and step["needs"].get("class")]
    return steps[0]["needs"]["class"] if steps else rest


def _move(
    locked: "LockedKey", context: "Context", members: "Mapping[str, MemberRecord]", wanted: "Mapping[str, str]"
) -> None:
    resctrl = context.monitor.resctrl
    context.ledger.mark(CHANGING, locked.key)  # a killed move is not another program that removes groups
    goals = set(wanted.values())
    has_groups = bool(locked.origins)
    _forget_missing(locked, context)
    used = [name for name in locked.origins if resctrl.tasks(name, locked.name_in(name))]
    if len(goals) == len(used) == 1 and goals.isdisjoint(used):
        move_group(locked, context, used[0], *goals)
    monitored = {name for name, member in members.items() if _group_step(member) or "steps" not in member}
    for rdt_class in {wanted[name] for name in monitored} - locked.origins.keys() if has_groups else ():
        obtain_group(locked, rdt_class, context)
    groups = {
        name: locked.name_in(rdt_class) if name in monitored and rdt_class in locked.origins else ""
        for name, rdt_class in wanted.items()
    }

    def move_all() -> "list[int]":
        moved = (_move_threads(context, one, wanted[name], groups[name]) for name, one in members.items())
        return [tid for tids in moved for tid in tids]

    move_all()
    for name, member in members.items():
        rdt_class, step = wanted[name], _group_step(member)
        if step is not None and step["needs"]["class"] != rdt_class:
            now: "StepRecord" = {**step, "needs": {**step["needs"], "class": rdt_class}}
            steps = [now if one is step else one for one in member["steps"]]
            locked.add_member(name, {**member, "steps": steps}, member["pid"])
    tids = (threads_of_container(context.proc, one.get("cgroup", ""), one["pid"]) for one in members.values())
    await_forks(context.proc, [tid for of_one in tids for tid in of_one], move_all)
    context.ledger.unmark(CHANGING, locked.key)


def _forget_missing(locked: "LockedKey", context: "Context") -> None:
    """Drop groups from the record that a killed program had not created or had renamed, or that ended with a class."""

    def missing() -> "list[str]":
        return [name for name in locked.origins if not context.monitor.resctrl.exists(name, locked.name_in(name))]

    if missing():
        locked.find_again()
        locked.forget_groups(*missing())


def _move_threads(context: "Context", member: "MemberRecord", rdt_class: str, group: str) -> "list[int]":
    """Move all threads of a container, its init process last: `classes_now` looks at that; return those that moved."""
    resctrl = context.monitor.resctrl
    moved: "list[int]" = []
    for _ in range(_MOST_ROUNDS):
        tids = threads_of_container(context.proc, member.get("cgroup", ""), member["pid"])
        outside = sorted(_outside(context, tids, rdt_class, group), key=member["pid"].__eq__)
        if not outside:
            break
        moved += outside
        resctrl.add_tasks(rdt_class, "", outside)
        if group:
            resctrl.add_tasks(rdt_class, group, outside)
    return moved


def _outside(context: "Context", tids: "list[int]", rdt_class: str, group: str) -> "list[int]":
    """Return the threads that are in another class, or outside a group in it.

    The list of a group also has threads with its RMID in another class: children of forks that a rename has met.
    """
    found, inside = [], None
    for tid in tids:
        try:
            where = resctrl_groups_of(context.proc, tid)
        except ProcessLookupError:
            continue
        if where is not None:
            is_inside = where[0] == rdt_class and group in ("", where[1])
        else:
            if inside is None:
                resctrl = context.monitor.resctrl
                inside = resctrl.tasks(rdt_class, group) if group else _tasks(context, rdt_class)
            is_inside = tid in inside
        if not is_inside:
            found.append(tid)
    return found


def _group_step(member: "MemberRecord") -> "StepRecord | None":
    return next((step for step in member.get("steps", []) if step["feature"] == MONITORING), None)
