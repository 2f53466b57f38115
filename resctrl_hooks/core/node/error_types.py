"""Error types: each error states what failed, the kernel's answer, and the remedy.

Those from `ResctrlError` on are the kernel's refusals on resctrl, with their errnos.
"""

import errno as _errno

from .names import RESCTRL_ROOT as _RESCTRL_ROOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self as _Self


class HookError(Exception):
    """An expected failure.

    ``message`` states what failed and its object, ``hint`` the remedy, ``errno`` the system call's error (0 if none),
    and ``kernel`` resctrl's own ``info/last_cmd_status``. ``reason`` is one word for logs and metrics, fixed per class.
    ``refuses``: the container must not start because of it. ``impossible``: the node can never provide what is missing,
    so only a pod that requests it fails. ``remedy`` replaces the hint of the hooks in programs that use the library.
    """

    reason = "failed"
    hint = ""
    remedy = ""
    refuses = False
    impossible = False

    def __init__(self, message: str, *, hint: str = "", errno: int = 0, kernel: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.errno = errno
        self.kernel = kernel
        if hint:
            self.hint = hint

    @classmethod
    def of_file(cls, error: OSError, path: str, verb: str = "use") -> "_Self":
        """Return the error for a file that cannot be ``done`` (used, read, written), with the kernel's words."""
        return cls(f"cannot {verb} {path}: {error.strerror}", errno=error.errno or 0)

    def fields(self) -> "dict[str, str | int]":
        """Return the structured part of a log line about this error."""
        return {"reason": self.reason, "errno": self.errno, "kernel": self.kernel}

    def __str__(self) -> str:
        """Return one line for the operator: the message, the errno's name, the kernel's words, the hint."""
        text = self.message
        if self.errno:
            text += f" ({_errno.errorcode.get(self.errno, self.errno)})"
        if self.kernel:
            text += f"; kernel: {self.kernel}"
        return f"{text}; {self.hint}" if self.hint else text


class InputError(HookError):
    """The OCI state or the bundle's config.json violates the runtime specification."""

    reason = "bad-input"


class SettingsError(HookError):
    """The compiled settings are unreadable or not trustworthy."""

    reason = "bad-settings"
    hint = "run `resctrl-hook config check` and `resctrl-hook config apply`"


class LedgerError(HookError):
    """The state directory cannot be read or written."""

    reason = "ledger"
    hint = "the state directory must be a writable, root-owned directory on a local file system"


class LeaseError(LedgerError):
    """The bandwidth guard's lease is unreadable, so it is unknown which values the guard changed."""

    reason = "lease"
    hint = "the lease is kept; `resctrl-hook guard restore` tries again"


class LockTimeoutError(LedgerError):
    """Another hook holds this key's lock for longer than the allowed wait."""

    reason = "lock-timeout"
    hint = "find the process that holds it with `fuser`; reconcile will complete the rest"
    remedy = "find the process that holds it with `fuser`, or call again with more `patience`"


class HeldError(LockTimeoutError):
    """This thread holds the key already, so a wait would never end."""

    reason = "held"
    hint = remedy = "use the object of the first hold, or end its `with` before the second one"


class DeadlineError(HookError):
    """The hook's own deadline has passed; the container must not wait any longer."""

    reason = "deadline"
    hint = "reconcile will complete the rest"
    remedy = "release the key and call `hold` again"


class ResctrlError(HookError):
    """A refused resctrl operation without a more specific type."""

    reason = "resctrl"


class BadKeyError(ResctrlError, ValueError):
    """A key (pod UID, pod id, container id) that is not a valid mon_group name."""

    reason = "bad-key"


class NotMountedError(ResctrlError):
    """There is no resctrl file system at the configured path."""

    reason = "not-mounted"
    hint = f"mount it: mount -t resctrl resctrl {_RESCTRL_ROOT}; run `resctrl-hook doctor` for details"

    @classmethod
    def at(cls, root: str, command: str, number: int = 0) -> "NotMountedError":
        """Return the error for a path without resctrl; ``command`` mounts it."""
        hint = f"mount it: {command}; run `resctrl-hook doctor` for details"
        return cls(f"resctrl is not mounted at {root}", hint=hint, errno=number)


class NoResctrlError(NotMountedError):
    """This node cannot have resctrl: the processor has no RDT, a virtual machine hides it, or the kernel has none."""

    reason = "no-resctrl"
    hint = "everything that needs no RDT works"
    impossible = True


class NoMonitoringError(ResctrlError):
    """resctrl is mounted, but this processor or kernel has no monitoring: there are no mon_groups."""

    reason = "no-monitoring"
    impossible = True
    hint = "check cqm_* in /proc/cpuinfo and rdt= on the kernel's command line, or run `resctrl-hook doctor`"


class NoRMIDsError(ResctrlError):
    """All RMIDs are in use (ENOSPC), so no further mon_group can exist until one is removed."""

    reason = "no-rmids"
    hint = "`resctrl-hook list` shows the pods that hold them"
    remedy = "remove the group of a key that has ended, then call again"
    by_rule = False
    """Whether a rule of the operator refuses the RMID; waiting is intended then."""


class RMIDsBusyError(NoRMIDsError):
    """No RMID is free *now* (EBUSY): freed ones are in limbo until their cache lines are gone, a second or more."""

    reason = "rmids-busy"
    hint = "freed RMIDs are in limbo; reconcile creates the group as soon as one is free"
    remedy = "freed RMIDs are in limbo; call again in a second"


class BadClassError(ResctrlError, ValueError):
    """An RDT class name that can't be one, or that has no ctrl_group; class folders are never created here."""

    reason = "bad-class"
    hint = "`resctrl-hook rdt show` lists the classes of this node"


class ClassMismatchError(ResctrlError):
    """The task is in another ctrl_group than the mon_group's parent (EINVAL): a move would change its allocation."""

    reason = "class-mismatch"
    hint = "reconcile creates a group in the class of the process"
    remedy = "call `ensure_group` for the process's own class first"


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
    hint = "another program created it: stop that program, or set groupPrefix"


class TaskGoneError(ResctrlError):
    """The task has ended (ESRCH)."""

    reason = "task-gone"

    @classmethod
    def of(cls, pid: int) -> "TaskGoneError":
        """Return the error for a process."""
        return cls(f"process {pid} has ended", errno=_errno.ESRCH)


class BadPidError(ResctrlError, ValueError):
    """A process id that names no process to be moved."""

    reason = "bad-pid"
    hint = "pass the id of a running process of the host"


class NotArrivedError(ResctrlError):
    """The kernel accepted the thread ids, but the threads are not in the group: another program moves them too."""

    reason = "not-arrived"
    hint = "another program also manages these groups (a runtime's enableMonitoring, another plugin); keep only one"


class NotPermittedError(ResctrlError):
    """Not root in the initial user namespace, or denied by a security module (EACCES, EPERM)."""

    reason = "not-permitted"
    hint = "resctrl requires root; look for an AVC denial in the audit log"


class ReadOnlyError(ResctrlError):
    """resctrl is mounted read-only (EROFS)."""

    reason = "read-only"
    hint = f"mount -o remount,rw {_RESCTRL_ROOT}"


class ReconcileError(HookError):
    """Some keys that have ended could not be removed.

    ``removed`` are the removed keys, ``failed`` the reasons for the others, by key.
    """

    reason = "reconcile"
    remedy = "call `reconcile` again for these keys"

    def __init__(self, removed: "list[str]", failed: "dict[str, HookError]") -> None:
        reasons = "; ".join(f"{key}: {error}" for key, error in sorted(failed.items()))
        super().__init__(f"cannot remove {len(failed)} of {len(failed) + len(removed)} keys: {reasons}")
        self.removed = removed
        self.failed = failed

    def __reduce__(self) -> "tuple[object, ...]":
        return type(self), (self.removed, self.failed), vars(self)


# The meaning of each errno of a resctrl operation. Source: kernel, Documentation/filesystems/resctrl.rst and
# rdtgroup.c.
BY_ERRNO: "dict[int, type[ResctrlError]]" = {
    _errno.ENOSPC: NoRMIDsError,
    _errno.EBUSY: RMIDsBusyError,
    _errno.EINVAL: ClassMismatchError,
    _errno.EEXIST: GroupExistsError,
    _errno.ESRCH: TaskGoneError,
    _errno.EACCES: NotPermittedError,
    _errno.EPERM: NotPermittedError,
    _errno.EROFS: ReadOnlyError,
    _errno.ENAMETOOLONG: BadKeyError,
    _errno.ENODEV: NotMountedError,
}
