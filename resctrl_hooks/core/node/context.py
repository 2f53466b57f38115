"""The environment of one call: the active settings, the log, the ledger and the monitor, and the call's deadline.

The deadline is a `DeadlineError` that is raised at any point, repeatedly in case it is swallowed.
"""

import time
from _signal import ITIMER_REAL, SIG_UNBLOCK, SIGALRM, pthread_sigmask, setitimer, signal

from . import errors
from .host.files import read_kernel_file
from .log import Log
from .resctrl.monitor import Monitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .log import LogCallable
    from .settings import Settings

TIME_TO_TAKE_BACK = 1.0  # seconds for undoing steps after the deadline, well before the runtime's own timeout
LONGEST_STARVED = 60.0  # maximum seconds of waiting for a processor; beyond that the hook hangs
_ALARM_AGAIN = 0.25
_SCHEDSTAT = "/proc/self/schedstat"
_PATIENCE = 0.8  # maximum part of a hook's deadline for waiting for a lock


class Context:
    """The environment of every step: the active settings, the monitor with its ledger, and the log.

    ``failures`` collects the reasons of failed steps, one word each, for the call metrics. ``refusable`` is false while
    a refusal has no effect: then every failure policy is ``ignore``. ``withdrawing`` is true while an uninstallation
    restores values: then changes for a time end before their end.
    """

    def __init__(self, settings: "Settings", log: "LogCallable | None" = None) -> None:
        self.settings = settings
        self.log: "LogCallable" = log or Log(settings.log)
        self.proc = settings.proc_path
        self.monitor = Monitor(
            settings.resctrl_path,
            state_dir=settings.state_dir,
            group_prefix=settings.group_prefix,
            log=self.log,
            proc=settings.proc_path,
            patience=settings.deadline * _PATIENCE,
        )
        self.ledger = self.monitor.ledger
        self.failures: "list[str]" = []
        self.refusable = True
        self.withdrawing = False


def set_deadline(seconds: float) -> None:
    """Raise DeadlineError here after so many seconds, repeatedly; 0 cancels it.

    Seconds of waiting for a processor do not count: on an overloaded node work is slow but completes, whereas a hanging
    hook waits for something else, or keeps a processor busy.
    """
    if not seconds:
        setitimer(ITIMER_REAL, 0)
        return
    until = time.monotonic() + seconds
    starved = _starved()

    def rise(*_: object) -> None:
        left = until + min(_starved() - starved, LONGEST_STARVED) - time.monotonic()
        if left > 0:
            setitimer(ITIMER_REAL, left, _ALARM_AGAIN)
            return
        # The first use of an error imports its module: an alarm meanwhile would find half of it.
        setitimer(ITIMER_REAL, 0)
        try:
            error = errors.DeadlineError("deadline of the hook exceeded")
        except AttributeError:  # the hook itself is importing it, for another error
            error = None
        setitimer(ITIMER_REAL, _ALARM_AGAIN, _ALARM_AGAIN)
        if error is not None:
            raise error

    signal(SIGALRM, rise)
    pthread_sigmask(SIG_UNBLOCK, (SIGALRM,))  # crun calls hooks with every signal blocked
    setitimer(ITIMER_REAL, seconds, _ALARM_AGAIN)


def _starved() -> float:
    """Return for how many seconds this process was runnable without a processor for it or its cgroup.

    Source: Linux, Documentation/scheduler/sched-stats.rst.
    """
    try:
        return int(read_kernel_file(_SCHEDSTAT).split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0  # a kernel without this statistic
