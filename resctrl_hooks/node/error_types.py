"""What can go wrong, as types: each error says what failed, what the kernel said, and what to do about it."""

import errno as _errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self as _Self


class HookError(Exception):
    """Anything this project expects to go wrong.

    ``message`` says what failed and on what, ``hint`` what the operator can do, ``errno`` what the system call
    answered (0 if none), and ``kernel`` resctrl's own ``info/last_cmd_status``. ``reason`` is one word for logs and
    metrics, fixed per class.
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
    def of_file(cls, error: OSError, path: str, done: str = "used") -> "_Self":
        """What the kernel, or `host.files` in its words, said of a file that can't be ``done``: used, read, written."""
        return cls(f"{path} can't be {done}: {error.strerror}", errno=error.errno or 0)

    def __str__(self) -> str:
        """One line for the operator: what failed, the errno's name, the kernel's words, what to do."""
        text = self.message
        if self.errno:
            text += f" ({_errno.errorcode.get(self.errno, self.errno)})"
        if self.kernel:
            text += f"; the kernel says: {self.kernel}"
        return f"{text}; {self.hint}" if self.hint else text


class InputError(HookError):
    """The OCI state or the bundle's config.json is not what the runtime specification says."""

    reason = "bad-input"


class SettingsError(HookError):
    """The compiled settings can't be read, or are not to be trusted."""

    reason = "bad-settings"
    hint = "run `resctrl-hook config check` and `resctrl-hook config apply`"


class LedgerError(HookError):
    """The state directory can't be read or written."""

    reason = "ledger"
    hint = "the state directory must be a writable, root-owned folder on a local file system"


class LockTimeoutError(LedgerError):
    """Another hook holds this key's lock for longer than we may wait."""

    reason = "lock-timeout"
    hint = "see which process holds it with `fuser`; reconcile will do what was left"


class DeadlineError(HookError):
    """The hook's own deadline passed; the container must not wait any longer."""

    reason = "deadline"
    hint = "reconcile will do what was left"


class ResctrlError(HookError):
    """A resctrl operation that the kernel refused in a way that has no type of its own."""

    reason = "resctrl"


class BadKeyError(ResctrlError, ValueError):
    """A key (pod UID, pod id, container id) that can't name a mon_group."""

    reason = "bad-key"
