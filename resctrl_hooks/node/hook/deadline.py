"""The hook's own deadline: a `DeadlineError` that rises wherever the hook is, and again if somebody swallowed it."""

import time
from _signal import ITIMER_REAL, SIG_UNBLOCK, SIGALRM, pthread_sigmask, setitimer, signal

from .. import errors
from ..host.files import read_file

TIME_TO_TAKE_BACK = 1.0  # seconds, after the deadline and well before the runtime's own timeout
LONGEST_STARVED = 60.0  # seconds that a processor is waited for; more is a hang of its own
_ALARM_AGAIN = 0.25
_SCHEDSTAT = "/proc/self/schedstat"
_PAGE = 4096


def set_deadline(seconds: float) -> None:
    """Make DeadlineError rise here after so many seconds, again and again; 0 takes that back.

    Seconds in which we only waited for a processor don't count: a node with too much to do is slow, and what is slow
    gets done; what hangs waits for something else, or keeps a processor busy.
    """
    until = time.monotonic() + seconds
    starved = _starved() if seconds else 0.0

    def rise(*_: object) -> None:
        left = until + min(_starved() - starved, LONGEST_STARVED) - time.monotonic()
        if left <= 0:
            raise errors.DeadlineError("the hook's deadline passed")
        setitimer(ITIMER_REAL, left, _ALARM_AGAIN)

    signal(SIGALRM, rise)
    pthread_sigmask(SIG_UNBLOCK, (SIGALRM,))  # crun calls hooks with every signal blocked
    setitimer(ITIMER_REAL, seconds, _ALARM_AGAIN if seconds else 0)


def _starved() -> float:
    """For how many seconds this process was ready to run, and there was no processor for it or its cgroup.

    Source: Linux, Documentation/scheduler/sched-stats.rst.
    """
    try:
        return int(read_file(_SCHEDSTAT, _PAGE).split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0  # a kernel that doesn't count it
