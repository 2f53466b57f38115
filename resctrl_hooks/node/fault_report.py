"""What to say and do when this project itself has a fault, or is called by somebody who may not."""

import errno
import posix

from .errors import HookError
from .ledger import Ledger
from .log import ERROR, Log
from .refusals import REASON, record_refusal
from .settings import Settings, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class FaultError(HookError):
    """This project itself has a fault."""

    reason = "fault"
    hint = "please report it"


def describe(error: BaseException) -> str:
    """Return an error that nobody foresaw, and where it arose."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = ""
    if trace is not None:
        code = trace.tb_frame.f_code
        where = f" in {code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} ({code.co_name})"
    return f"a fault of resctrl-hook itself: {type(error).__name__}: {error}{where}"


def as_hook_error(error: Exception) -> HookError:
    """Return an error of any kind in words for the operator: where many are served, one's trouble is no other's."""
    if isinstance(error, HookError):
        return error
    if isinstance(error, OSError):
        return HookError.of_file(error, error.filename or "a file")
    return FaultError(describe(error))


def lacks_root(error: BaseException) -> str:
    """What to say where the kernel refused because whoever calls isn't root; empty for any other error."""
    if posix.geteuid() == 0 or getattr(error, "errno", 0) not in (errno.EACCES, errno.EPERM):
        return ""
    if isinstance(error, HookError):
        return f"this needs root: {error.message}"
    return f"this needs root: {getattr(error, 'filename', None) or 'a file'} can't be used"


def report(
    config: str,
    stage: str,
    error: BaseException,
    find: "Callable[[str], tuple[Settings, str]]" = load,
    names: "dict[str, str] | None" = None,
) -> bool:
    """Log where an unexpected error arose, and say whether a container is refused for it, by the general policy.

    ``find`` gives the settings for ``config``, as in `hook.run`; ``names`` is what the container is called, as far as
    that is known, and None where there is none to refuse.
    """
    try:
        settings, _ = find(config)
    except Exception:  # noqa: BLE001  # whatever is wrong with them is said by ``error``
        settings = Settings()
    refused = settings.failure_policy == "fail" and names is not None
    what = str(FaultError(describe(error)))
    if refused:
        record_refusal(settings.state_dir, names or {}, what)
    Ledger(settings.state_dir).tally(stage, 0, [FaultError.reason, *([REASON] if refused else [])])
    try:
        Log(settings.log)(ERROR, what, stage=stage, reason=FaultError.reason)
    except Exception:  # noqa: BLE001  # the log's own settings may be what is wrong
        Log()(ERROR, what, stage=stage, reason=FaultError.reason)
    return refused
