"""Typed errors for the kernel's refusals on resctrl.

They are separate from `errors` because a successful hook does not need them, and creating classes takes time.
"""

import errno

from ..errors import ResctrlError
from ..host.files import GONE
from ..names import RESCTRL_ROOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class NotMountedError(ResctrlError):
    """There is no resctrl file system at the configured path."""

    reason = "not-mounted"
    hint = f"mount it: mount -t resctrl resctrl {RESCTRL_ROOT}; run `resctrl-hook doctor` for details"

    @classmethod
    def at(cls, root: str, number: int = 0) -> "NotMountedError":
        """Return the error for a path without resctrl."""
        return cls(f"resctrl is not mounted at {root}", hint=cls.hint.replace(RESCTRL_ROOT, root), errno=number)


class NoMonitoringError(ResctrlError):
    """resctrl is mounted, but this processor or kernel has no monitoring: there are no mon_groups."""

    reason = "no-monitoring"
    hint = "check cqm_* in /proc/cpuinfo and rdt= on the kernel's command line, or run `resctrl-hook doctor`"


class NoRMIDsError(ResctrlError):
    """All RMIDs are in use (ENOSPC), so no further mon_group can exist until one is removed."""

    reason = "no-rmids"
    hint = "`resctrl-hook list` shows the pods that hold them"
    by_rule = False
    """Whether a rule of the operator refuses the RMID; waiting is intended then."""


class RMIDsBusyError(NoRMIDsError):
    """No RMID is free *now* (EBUSY): freed ones are in limbo until their cache lines are gone, a second or more."""

    reason = "rmids-busy"
    hint = "freed RMIDs are in limbo; reconcile creates the group as soon as one is free"


class BadClassError(ResctrlError, ValueError):
    """An RDT class name that can't be one, or that has no ctrl_group; class folders are never created here."""

    reason = "bad-class"


class ClassMismatchError(ResctrlError):
    """The task is in another ctrl_group than the mon_group's parent (EINVAL): a move would change its allocation."""

    reason = "class-mismatch"


class NotTrackedError(ResctrlError, KeyError):
    """The ledger has no group for this key."""

    reason = "not-tracked"
    __str__ = ResctrlError.__str__  # KeyError's would quote the sentence

    @classmethod
    def of(cls, key: str) -> "NotTrackedError":
        """Return the error for a key."""
        return cls(f"no group for key {key}")


class GroupExistsError(ResctrlError):
    """A foreign group of that name exists already (EEXIST)."""

    reason = "exists"


class TaskGoneError(ResctrlError):
    """The task has ended (ESRCH)."""

    reason = "task-gone"

    @classmethod
    def of(cls, pid: int) -> "TaskGoneError":
        """Return the error for a process."""
        return cls(f"process {pid} has ended", errno=errno.ESRCH)


class BadPidError(ResctrlError, ValueError):
    """A process id that names no process to be moved."""

    reason = "bad-pid"

    @classmethod
    def of(cls, pid: int) -> "BadPidError":
        """Return the error for a number below 2."""
        why = {0: "0 is the caller", 1: "it is init"}
        return cls(f"cannot move process {pid}: {why.get(pid, 'it is negative')}", errno=errno.EINVAL)


class NotArrivedError(ResctrlError):
    """The kernel accepted the thread ids, but the threads are not in the group: another program moves them too."""

    reason = "not-arrived"
    hint = "another program also manages these groups (a runtime's enableMonitoring, another plugin); keep only one"

    @classmethod
    def of(cls, who: str, group: str, where: "tuple[str, str] | None") -> "NotArrivedError":
        """Return the error for a thread in another class and group than the target; None if its place is unknown."""
        found = f"in {where[0] or 'the root class'}, group {where[1] or 'none'}" if where else "in another group"
        return cls(f"{who} was moved to {group} but is {found}")


class NotPermittedError(ResctrlError):
    """Not root in the initial user namespace, or denied by a security module (EACCES, EPERM)."""

    reason = "not-permitted"
    hint = "resctrl requires root; look for an AVC denial in the audit log"


class ReadOnlyError(ResctrlError):
    """resctrl is mounted read-only (EROFS)."""

    reason = "read-only"
    hint = f"mount -o remount,rw {RESCTRL_ROOT}"


# The meaning of each errno of a resctrl operation. Source: kernel, Documentation/filesystems/resctrl.rst and
# rdtgroup.c.
BY_ERRNO: "dict[int, type[ResctrlError]]" = {
    errno.ENOSPC: NoRMIDsError,
    errno.EBUSY: RMIDsBusyError,
    errno.EINVAL: ClassMismatchError,
    errno.EEXIST: GroupExistsError,
    errno.ESRCH: TaskGoneError,
    errno.EACCES: NotPermittedError,
    errno.EPERM: NotPermittedError,
    errno.EROFS: ReadOnlyError,
    errno.ENODEV: NotMountedError,
}


def refusal(
    error: OSError,
    message: str,
    root: str,
    class_folder: str,
    is_folder: "Callable[[str], bool]",
    kernel: "Callable[[], str]",
    kinds: "dict[int, type[ResctrlError]]" = BY_ERRNO,
) -> ResctrlError:
    """Return the typed error for an operation below ``root`` that the kernel refused.

    ``class_folder`` is the folder of the operation's RDT class, ``kinds`` the meaning of each errno. ``kernel`` reads
    the kernel's own explanation.
    """
    number = error.errno or 0
    if number in GONE:
        if not is_folder(f"{root}/mon_groups"):
            if is_folder(f"{root}/info"):
                return NoMonitoringError(f"resctrl at {root} has no monitoring", errno=number)
            return NotMountedError.at(root, number)
        if not is_folder(class_folder):
            name = class_folder[len(root) :].strip("/")
            return BadClassError(f"RDT class {name!r} does not exist ({class_folder})", errno=number)
    kind = kinds.get(number, ResctrlError)
    return kind(message, hint=kind.hint.replace(RESCTRL_ROOT, root), errno=number, kernel=kernel())
