"""Moving a process whose RDT class is unknown, or is none of its key's groups'."""

from ..errors import ClassMismatchError, NotTrackedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .filesystem import Resctrl


def assign_by_trial(
    resctrl: "Resctrl", key: str, name: str, classes: "list[str]", pid: int, where: "tuple[str, str] | None"
) -> int:
    """Try the key's groups in turn if /proc does not show the task's class: the kernel refuses the others.

    Args:
        resctrl: the mount.
        key: the workload.
        name: the name of its groups.
        classes: the RDT classes with groups of the key.
        pid: the process.
        where: its class and group by /proc; None if unknown.

    Raises:
        NotTrackedError: the key has no group.
        ClassMismatchError: the process is in another class than all groups.
    """
    if not classes:
        raise NotTrackedError.of(key)
    if where is not None:
        have = ", ".join(one or "the root class" for one in classes)
        raise ClassMismatchError(
            f"process {pid} is in {where[0] or 'the root class'}, but the groups of {key} are in {have}",
            hint="ensure a group in the process's own class first",
        )
    for rdt_class in classes[:-1]:
        try:
            return resctrl.assign(rdt_class, name, pid)
        except ClassMismatchError:
            continue
    return resctrl.assign(classes[-1], name, pid)
