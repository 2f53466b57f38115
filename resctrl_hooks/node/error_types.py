"""Error types: each error states what failed, the kernel's answer, and the remedy."""

import errno as _errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self as _Self


class HookError(Exception):
    """An expected failure.

    ``message`` states what failed and its object, ``hint`` the remedy, ``errno`` the system call's error (0 if none),
    and ``kernel`` resctrl's own ``info/last_cmd_status``. ``reason`` is one word for logs and metrics, fixed per class.
    """

    reason = "failed"
    hint = ""

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


class LockTimeoutError(LedgerError):
    """Another hook holds this key's lock for longer than the allowed wait."""

    reason = "lock-timeout"
    hint = "find the process that holds it with `fuser`; reconcile will complete the rest"


class DeadlineError(HookError):
    """The hook's own deadline has passed; the container must not wait any longer."""

    reason = "deadline"
    hint = "reconcile will complete the rest"


class ResctrlError(HookError):
    """A refused resctrl operation without a more specific type."""

    reason = "resctrl"


class BadKeyError(ResctrlError, ValueError):
    """A key (pod UID, pod id, container id) that is not a valid mon_group name."""

    reason = "bad-key"
