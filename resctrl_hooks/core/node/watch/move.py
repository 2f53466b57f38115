"""Moves one process that has called exec into its pod's group of its own class, under the key's lock."""

from .. import errors, ledger
from ..host.cgroup_tasks import threads_of_container
from ..host.procfs import cgroups_of, container_in_cgroup, resctrl_groups_of
from ..reconcile.tasks import gather
from ..resctrl.group_names import current_name
from ..sharing.runtimes_group import group_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..context import Context
    from .containers import Containers, Member

# What became of an exec.
IGNORED, MOVED, GONE, BUSY, WAITING, NEW = "ignored", "moved", "gone", "busy", "waiting", "new"
REFUSED = "refused"  # its container has too many execs


class Outcome:
    """The outcome of an exec.

    ``threads`` were moved. ``where`` is the cgroup of a process that is not to be moved, or the name of the mon_group
    that it is in.
    """

    __slots__ = ("threads", "what", "where")

    def __init__(self, what: str, threads: int = 0, where: str = "") -> None:
        self.what = what
        self.threads = threads
        self.where = where


def serve(
    context: "Context", containers: "Containers", pid: int, may_move: "Callable[[Member], bool] | None" = None
) -> Outcome:
    """Find a process's group, and move it if it belongs into a pod's group and is in none.

    ``may_move`` is asked before a move, which costs several times as much as the look.

    Raises:
        HookError: it can't be moved; reconcile will try again.
    """
    try:
        where = resctrl_groups_of(context.proc, pid)
    except ProcessLookupError:
        return Outcome(GONE)
    if where is not None and where[1]:  # the pod's own group, or a foreign one, where tasks stay
        return Outcome(IGNORED, where=where[1])
    containers.refresh()
    cgroups = cgroups_of(context.proc, pid)
    folders = [cgroup.folder(context.settings.cgroup_path) for cgroup in cgroups]
    member = next(filter(None, map(containers.of_cgroup, folders)), None)
    if member is None:
        container = next(filter(None, (container_in_cgroup(cgroup.path) for cgroup in cgroups)), "")
        if container:  # its hook may have failed
            return Outcome(NEW, where=cgroups[0].folder(context.settings.cgroup_path, container))
    if member is None or not member.monitored:
        return Outcome(IGNORED, where=folders[0] if folders else "")
    if may_move is not None and not may_move(member):
        return Outcome(REFUSED)
    outcome = _move(context, member, pid, where, early=_move_early(context, member, pid, where))
    if outcome.what == MOVED and _left(context, pid, folders):
        return _move_back(context, member, pid, where, folders)
    return outcome


def _left(context: "Context", pid: int, folders: "list[str]") -> bool:
    """Return whether a process is certainly in none of these cgroups now.

    An id is used again as soon as its process has ended, so the one that was moved may be another process. A process of
    the same cgroup belongs into the same group, whichever it is; one that has ended needs nothing.
    """
    now = [cgroup.folder(context.settings.cgroup_path) for cgroup in cgroups_of(context.proc, pid)]
    return bool(now) and not set(now) & set(folders)


def _move_back(
    context: "Context", member: "Member", pid: int, where: "tuple[str, str] | None", folders: "list[str]"
) -> Outcome:
    """Move another process, which got the id of the one to move, out of the pod's group; its own pod can take it in.

    Its descendants were moved with it, or were started in the group.
    """
    for rdt_class in (where[0],) if where is not None else member.classes:
        try:
            inside = context.monitor.resctrl.tasks(rdt_class, _name(context, member, rdt_class))
            tids = inside.intersection(threads_of_container(context.proc, "", pid))
            foreign = [tid for tid in tids if _left(context, tid, folders)]
            if foreign:
                context.monitor.resctrl.add_tasks(rdt_class, "", foreign)
        except errors.ResctrlError:
            continue  # reconcile removes foreign tasks
    return Outcome(GONE)


def _move_early(context: "Context", member: "Member", pid: int, where: "tuple[str, str] | None") -> bool:
    """Move a process before its pod's lock is taken, if the pod's group is there; return whether it did.

    The lock and the record take a third of the time until the move. A handover at this moment moves the process out of
    the group again, as it does with a task that was forked meanwhile.
    """
    rdt_class = where[0] if where is not None else next(iter(member.classes), "")
    if rdt_class not in member.classes:
        return False
    try:
        context.monitor.resctrl.add_tasks(rdt_class, _name(context, member, rdt_class), [pid], pid)
    except errors.ResctrlError:
        member.classes = ()
        member.names.clear()
        return False
    return True


def _move(context: "Context", member: "Member", pid: int, where: "tuple[str, str] | None", *, early: bool) -> Outcome:
    """Move a process and its descendants; WAITING without an RMID.

    If another process holds the key: BUSY, but MOVED after an early move, because children that call exec are served
    themselves.
    """
    try:
        locked = context.monitor.hold(member.key, 0.0)
    except errors.LockTimeoutError:
        return Outcome(MOVED, 1) if early else Outcome(BUSY)
    with locked:
        if not locked.tracked:
            return Outcome(IGNORED)  # its pod has just ended
        now = where[0] if where is not None else "?"
        rdt_class = locked.class_for(now)
        if rdt_class != now:
            context.monitor.resctrl.add_tasks(rdt_class, "", [pid])
        elif where is None:
            rdt_class = next(iter(locked.origins), "")
        own = locked.name_in(rdt_class)
        name = group_name(context, own, member.id, rdt_class, asks=member.asks)
        there = name != own or rdt_class in locked.origins
        if not there and (context.settings.shares_rmids or member.key in context.ledger.marked(ledger.WAITING)):
            return Outcome(WAITING)  # the rules, and reconcile, decide who gets an RMID
        try:
            if there and not early:  # at once: it may live for a millisecond
                context.monitor.resctrl.add_tasks(rdt_class, name, [pid], pid)
            found = gather(locked, context, "", pid, rdt_class, name if name != own else "")
            member.names = locked.names()
            member.classes = tuple({*locked.origins, rdt_class} if there else locked.origins)
        except errors.TaskGoneError:
            return Outcome(GONE)
        except errors.NoRMIDsError:
            context.ledger.wake()
            return Outcome(WAITING)
    return Outcome(MOVED, found.moved + 1)


def _name(context: "Context", member: "Member", rdt_class: str) -> str:
    if rdt_class not in member.names:
        member.names[rdt_class] = current_name(context.monitor, member.key, rdt_class)
    return group_name(context, member.names[rdt_class], member.id, rdt_class, asks=member.asks)
