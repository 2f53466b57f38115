"""Handling of internal errors, and of callers without permission."""

import errno
import posix

from .errors import HookError, SettingsError
from .ledger import Ledger
from .log import ERROR, Log
from .refusals import REASON, record_refusal
from .settings import Settings, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


_PROJECT = f"{__name__.partition('.')[0]}."


class FaultError(HookError):
    """An internal error of this program."""

    reason = "fault"
    hint = "if `resctrl-hook config show` has no remark on invalid settings, please report it"


def describe(error: BaseException) -> str:
    """Return an unexpected error's text and its place."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = ""
    if trace is not None:
        code = trace.tb_frame.f_code
        where = f" in {code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} ({code.co_name})"
    return f"internal error in resctrl-hook: {type(error).__name__}: {error}{where}"


def undelivered(name: str) -> SettingsError:
    """Return the error of a feature or house whose modules are not on this node."""
    return SettingsError(
        f"the modules of {name} are not installed here",
        hint="run `resctrl-hook install`, or render the MachineConfig, with these settings",
    )


def as_hook_error(error: Exception) -> HookError:
    """Return any error as a `HookError`, so that one container's failure does not affect others."""
    if isinstance(error, HookError):
        return error
    found: HookError
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith(_PROJECT):
        found = undelivered(str(error.name).split(".")[1])
    elif isinstance(error, OSError):
        found = HookError.of_file(error, error.filename or "a file")
    else:
        found = FaultError(describe(error))
    found.__cause__ = error
    return found


def lacks_root(error: BaseException) -> str:
    """Return the advice for a caller who is not root; empty for errors with another cause."""
    if posix.geteuid() == 0 or getattr(error, "errno", 0) not in (errno.EACCES, errno.EPERM):
        return ""
    if isinstance(error, HookError):
        return f"root is required: {error.message}"
    return f"root is required: cannot use {getattr(error, 'filename', None) or 'a file'}"


def report(
    config: str,
    stage: str,
    error: BaseException,
    find: "Callable[[str], tuple[Settings, str]]" = load,
    names: "dict[str, str] | None" = None,
) -> bool:
    """Log an unexpected error's place, and return whether the general policy refuses the container.

    ``find`` returns the settings for ``config``, as in `call.run`; ``names`` are the container's known names, None if
    there is no container to refuse.
    """
    try:
        settings, _ = find(config)
    except Exception:  # noqa: BLE001  # ``error`` reports any problem of them
        settings = Settings()
    refused = settings.failure_policy == "fail" and names is not None
    what = str(FaultError(describe(error)))
    if refused:
        record_refusal(settings.state_dir, names or {}, what)
    Ledger(settings.state_dir).count_call(stage, 0, [FaultError.reason, *([REASON] if refused else [])])
    try:
        Log(settings.log)(ERROR, what, stage=stage, reason=FaultError.reason)
    except Exception:  # noqa: BLE001  # the log's own settings may be what is wrong
        Log()(ERROR, what, stage=stage, reason=FaultError.reason)
    return refused
