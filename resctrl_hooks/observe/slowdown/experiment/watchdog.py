"""A process beside the experiment that restores the values if the experiment is killed, stopped or hangs."""

import os
import select
import signal
import time

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.reconcile.repaired import changed_values
from resctrl_hooks.observe.node.watch import Watch

_INTERVAL = 1.0  # seconds between two looks at the lease
_SOON, _PATIENCE = 0.01, 5.0  # the kernel releases a dead process's pipe and lock in any order
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


class Watchdog:
    """The process. It has a session of its own, so no signal of a terminal reaches it.

    Args:
        context: the node.
        lock: the descriptor that holds the lock of the lease; only the experiment may keep it.
    """

    def __init__(self, context: Context, lock: int) -> None:
        reader, self._writer = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(reader)
            return
        try:
            os.close(self._writer)
            os.close(lock)
            _become_daemon()
            _watch(context, reader)
        finally:
            os._exit(0)

    def end(self, *, restored: bool) -> None:
        """End the process if all values are restored; else it tries again for a while."""
        if restored:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._writer)


def _become_daemon() -> None:
    os.setsid()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # a pipe behind the experiment must end with it
        os.dup2(nothing, descriptor)


def _watch(context: Context, reader: int) -> None:
    """Restore the values when the lease is over, or the experiment has ended: then its end of the pipe is closed."""
    watch = Watch(context)
    while not select.select([reader], [], [], _INTERVAL)[0]:
        watch.restore()
    end = time.monotonic() + _PATIENCE
    while changed_values(context) and time.monotonic() < end:
        watch.restore()
        time.sleep(_SOON)
