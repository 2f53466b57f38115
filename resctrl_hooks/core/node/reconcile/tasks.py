"""Moves every thread of a container into its key's groups, and tasks of other cgroups out of them.

Threads fork, and others enter by exec. Those that a moved thread starts are in the group, so each round finds fewer
outside, and the last finds none. The exec watcher can move a process whose id was used again. A pod's tasks are those
in its cgroup, at any depth; only a task that certainly runs in another cgroup is foreign.
"""

import errno

from ..errors import ClassMismatchError, ResctrlError
from ..feature import obtain_group
from ..host.cgroup_tasks import threads_of_container
from ..host.procfs import cgroups_of, resctrl_groups_of
from ..log import WARNING
from ..resctrl.group import SHARED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.running import Running
    from ..context import Context
    from ..host.cgroup_tasks import CgroupThreads
    from ..resctrl.locked_key import LockedKey
    from .groups import Groups
    from .report import Report

_MOST_ROUNDS = 100


class Gathering:
    """The results for a container's threads: moved, left outside, or in a foreign group."""

    __slots__ = ("foreign", "left", "moved")

    def __init__(self) -> None:
        self.moved = 0
        self.left = 0
        self.foreign: "set[str]" = set()


def outside(
    context: "Context",
    names: "dict[str, str]",
    cgroup: str,
    pid: int,
    seen: "CgroupThreads | None" = None,
    listed: "set[int] | None" = None,
) -> "list[tuple[int, str, str]]":
    """Return the threads of a container that are not in its group of their class: thread id, class, group.

    For several threads, the groups' ``tasks`` files are compared first: one read serves all of them. If /proc does
    not show groups (a simulation, Linux before 5.9), only these files are compared, and the class is "?", because
    only a move can find it.

    ``names`` are the groups by class, ``seen`` the threads of its cgroup, and ``listed`` those in the groups'
    ``tasks``, if they were read already.
    """
    found = []
    tids = threads_of_container(context.proc, cgroup, pid, seen)
    if listed is None and len(tids) > 1:
        listed = _listed(context, names)
    for tid in tids:
        if listed is not None and tid in listed:
            continue
        try:
            where = resctrl_groups_of(context.proc, tid)
        except ProcessLookupError:
            continue
        if where is None:
            if listed is None:
                listed = _listed(context, names)
            if tid not in listed:
                found.append((tid, "?", ""))
        elif names.get(where[0]) != where[1]:
            found.append((tid, where[0], where[1]))
    return found


def _listed(context: "Context", names: "dict[str, str]") -> "set[int]":
    """Return the threads in these groups, by class."""
    return set().union(*(context.monitor.resctrl.tasks(*group) for group in names.items()))


def gather(
    locked: "LockedKey",
    context: "Context",
    cgroup: str,
    pid: int,
    fallback_class: str,
    other: str = "",
    container: "Running | None" = None,
) -> Gathering:
    """Move every thread of a container into the key's group of its own class; create missing groups.

    Threads of a pod that is kept in a class for a time change to it (`class_for`).

    With an ``other`` group, move them into it: the container's runtime has created it in ``fallback_class``. Threads
    in a foreign group (another tool's) stay there, and those in other classes than that of the runtime's group.
    Missing groups are created with the ``container``'s priority, and then thoroughly, as in `obtain_group`.

    Raises:
        NoRMIDsError: a class that the container uses has no group, and none can be created.
        ResctrlError: the kernel refused for another reason.
    """
    result = Gathering()
    take_over = context.settings.groups["takeOver"]
    for _ in range(_MOST_ROUNDS):
        result.left = 0
        todo: "dict[str, list[int]]" = {}
        names = {fallback_class: other} if other else locked.names()
        for tid, rdt_class, group in outside(context, names, cgroup, pid):
            if group not in ("", other, locked.name_in(rdt_class)) and not take_over:
                result.foreign.add(group)
            elif other and rdt_class not in ("?", fallback_class):
                result.left += 1
            else:
                own = rdt_class if other else locked.class_for(rdt_class)
                todo.setdefault(fallback_class if own == "?" else own, []).append(tid)
                if own != rdt_class:
                    context.monitor.resctrl.add_tasks(own, "", [tid])
        if not todo:
            break
        for rdt_class, tids in todo.items():
            if not other:
                is_new = rdt_class not in locked.origins
                obtain_group(locked, rdt_class, context, container, thorough=container is not None)
                if is_new and locked.origins[rdt_class] == SHARED:
                    continue  # these may be in it already, which the next round sees
            result.left += len(tids)
            try:
                context.monitor.resctrl.add_tasks(rdt_class, other or locked.name_in(rdt_class), tids)
            except ClassMismatchError:
                if other or not _somewhere(locked, context, rdt_class, tids):
                    continue  # their class has changed since the read; the next round sees the new class
            result.moved += len(tids)
    return result


def _somewhere(locked: "LockedKey", context: "Context", but: str, tids: "list[int]") -> bool:
    """Try the key's other groups if only the kernel knows a thread's class."""
    for rdt_class in locked.origins:
        if rdt_class != but:
            try:
                context.monitor.resctrl.add_tasks(rdt_class, locked.name_in(rdt_class), tids)
                return True
            except ResctrlError:
                continue
    return False


def remove_foreign_tasks(context: "Context", containers: "list[Running]", groups: "Groups", report: "Report") -> None:
    """Move each foreign task from a pod's group to the group's RDT class itself; its own pod can take it in then."""
    by_key: "dict[str, list[Running]]" = {}
    for container in containers:
        if container.recorded and container.monitored:
            by_key.setdefault(container.key, []).append(container)
    for key, members in by_key.items():
        cgroup = members[0].pod_cgroup
        if not cgroup or any(one.in_cgroup is None or one.in_cgroup.is_partial for one in members):
            continue  # the pod's tasks are not known
        known = set().union(*(one.in_cgroup.tids for one in members if one.in_cgroup is not None))
        for rdt_class in {one.recorded_class for one in members}:
            if rdt_class is None:
                continue
            with report.catching(context, key):
                others = groups.tasks(rdt_class, key) - known
                if any(_is_foreign(tid, cgroup, context) for tid in others):
                    _move_out(context, key, rdt_class, cgroup, report)


def _move_out(context: "Context", key: str, rdt_class: str, cgroup: str, report: "Report") -> None:
    resctrl = context.monitor.resctrl
    with context.monitor.hold(key) as locked:
        if locked.origins.get(rdt_class, SHARED) == SHARED:
            return
        tasks = resctrl.tasks(rdt_class, locked.name_in(rdt_class))
        found = [tid for tid in tasks if _is_foreign(tid, cgroup, context)]
        if not report.dry_run:
            resctrl.add_tasks(rdt_class, "", found)
            what = f"moved {len(found)} tasks of other cgroups out of the group of {key}: {', '.join(map(str, found))}"
            context.log(WARNING, what, stage="reconcile", key=key)
        report.count("repaired", len(found))


def _is_foreign(tid: int, cgroup: str, context: "Context") -> bool:
    """Return whether a task certainly runs outside of a pod's cgroup; false if it has ended.

    A container can make cgroups below its own whose paths are longer than the kernel can report (Linux 5.14).
    """
    try:
        folders = [one.folder(context.settings.cgroup_path) for one in cgroups_of(context.proc, tid)]
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return False
    return bool(folders) and not any(f"{folder}/".startswith(f"{cgroup}/") for folder in folders)
