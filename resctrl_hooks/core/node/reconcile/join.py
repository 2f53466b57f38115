"""A running container's record, its pod's group and its threads, also after a change of its class."""

from ..errors import NoRMIDsError
from ..feature import describe
from ..host.procfs import groups_of_process
from ..ledger import WAITING
from ..log import INFO, WARNING
from ..sharing.runtimes_group import count_group
from .group_class import move_group
from .tasks import gather

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.running import Running
    from ..context import Context
    from ..resctrl.locked_key import LockedKey
    from .report import Report


def record_late(container: "Running", locked: "LockedKey") -> None:
    """Record a container that is not recorded yet, before anything is done for it."""
    describe(container, locked)
    if not locked.tracked and (container.asks or not container.monitored):
        locked.save()  # else its group does that
    _write(container, locked)


def join(locked: "LockedKey", context: "Context", container: "Running", report: "Report") -> bool:
    """Move a recorded container's threads into its group; return false if it waits for an RMID."""
    _follow(locked, context, container)
    describe(container, locked)
    before = set(locked.origins)
    try:
        other = count_group(container, container.rdt_class, locked, context)
        gathering = gather(locked, context, container.cgroup, container.pid, container.rdt_class, other, container)
    except NoRMIDsError as error:
        report.wait(locked.key, error)
        return False
    for rdt_class in set(locked.origins) - before:
        locked.remove_unused(rdt_class)  # its tasks ended meanwhile
    if locked.key not in report.events["waiting"] and locked.key not in report.events["queued"]:  # for another class
        context.ledger.unmark(WAITING, locked.key)
    if gathering.moved or not container.recorded:
        report.add("adopted", container.id)
        report.count("moved", gathering.moved)
        which = "the monitoring group of its runtime" if other else "its monitoring group"
        what = f"moved {gathering.moved} threads of container {container.id} into {which}"
        context.log(INFO, what, key=locked.key, container=container.id)
    container.recorded = True
    report.count("left", gathering.left)
    report.add("foreign", *gathering.foreign)
    return True


def _follow(locked: "LockedKey", context: "Context", container: "Running") -> None:
    """Move the key's group to the container's new class, if the class changed and this moves no other container."""
    old, new = container.recorded_class, container.rdt_class
    if old is None or old == new:
        return
    if old and not context.monitor.resctrl.fs.is_folder(context.monitor.resctrl.class_folder(old)):
        what = f"RDT class {old} of running container {container.id[:12]} was removed; it is now in"
        context.log(
            WARNING, f"{what} {new or 'the root class'}", stage="reconcile", key=locked.key, container=container.id
        )
    used = set()
    for member in locked.members():
        record = locked.member(member) or {}
        try:
            where = groups_of_process(context.proc, record.get("pid", 0)) if record.get("pid") else None
        except ProcessLookupError:
            continue
        if where is not None:
            used.add(where[0])
    if used and old in locked.origins and _follow_class(locked, context, old, new, used):
        context.log(INFO, f"moved the group of {locked.key} from class {old!r} to {new!r}", key=locked.key)
    record_running(container, locked)  # before the needed groups are determined


def record_running(container: "Running", locked: "LockedKey") -> None:
    """Write a running container's record, with the class that it is in now."""
    container.note_class()
    _write(container, locked)


def _write(container: "Running", locked: "LockedKey") -> None:
    locked.add_member(container.id, container.record, container.pid)
    container.changed = False


def _follow_class(locked: "LockedKey", context: "Context", old: str, new: str, used: "set[str]") -> bool:
    """Rename the group of a class that live tasks have left into the class that they are in now; return whether it did.

    A rename changes the class of every task in the group, so only an empty group in a class that no live task of the
    key uses is renamed.
    """
    resctrl = context.monitor.resctrl
    if old in used or resctrl.tasks(old, locked.name_in(old)):
        return False
    return move_group(locked, context, old, new)
