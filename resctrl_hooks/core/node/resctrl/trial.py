"""Moving a process whose RDT class is unknown, or is none of its key's groups'."""

from ..errors import ClassMismatchError, NotTrackedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .filesystem import Resctrl
    from .group import Group


def assign_by_trial(
    resctrl: "Resctrl", key: str, groups: "list[Group]", pid: int, where: "tuple[str, str] | None"
) -> int:
    """Try the key's groups in turn if /proc does not show the task's class: the kernel refuses the others.

    Args:
        resctrl: the mount.
        key: the workload.
        groups: its groups.
        pid: the process.
        where: its class and group by /proc; None if unknown.

    Raises:
        NotTrackedError: the key has no group.
        ClassMismatchError: the process is in another class than all groups.
    """
    if not groups:
        raise NotTrackedError.of(key)
    if where is not None:
        have = ", ".join(one.rdt_class or "the root class" for one in groups)
        raise ClassMismatchError(
            f"process {pid} is in {where[0] or 'the root class'}, but the groups of {key} are in {have}",
            hint="ensure a group in the process's own class first",
        )
    for group in groups[:-1]:
        try:
            return resctrl.assign(group.rdt_class, group.name, pid)
        except ClassMismatchError:
            continue
    return resctrl.assign(groups[-1].rdt_class, groups[-1].name, pid)
