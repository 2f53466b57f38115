"""Waits for forks that the kernel had begun before a pod's tasks moved: each adds a child with the former class.

The kernel copies the class at the begin of a fork, and lists the child at its end (kernel/fork.c, copy_process).
"""

import posix
import time

from ..host.files import GONE, read_kernel_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LEAST_LOOKS, LOOKS, _SECONDS = 10, 50, 0.5
"""How often to look, because a thread that always runs is never seen outside of a system call."""
_NAP = 0.005
_RUNNING = b"running"
"""Of a thread that runs or could (fs/proc/base.c, proc_pid_syscall); others show the number of their call."""
_FORKS = {"x86_64": (b"56", b"57", b"58", b"435"), "aarch64": (b"220", b"435")}
"""clone, fork, vfork and clone3, by architecture."""


def await_forks(proc: str, tids: "Iterable[int]", move: "Callable[[], list[int]]") -> None:
    """Move the children of such forks, until no thread can be in one.

    It gives up after `LOOKS` looks, or after `LEAST_LOOKS` and half a second. Where the calls of threads are not shown,
    as without CAP_SYS_PTRACE in reconcile's unit, it takes `LEAST_LOOKS`.

    Args:
        proc: the mount of /proc.
        tids: the threads that were moved.
        move: moves the threads that are still outside, and returns them.
    """
    suspects = [*tids]
    end = time.monotonic() + (_SECONDS if all(_shows_calls(proc, tid) for tid in suspects[:1]) else 0.0)
    for number in range(LOOKS):
        suspects = [tid for tid in suspects if may_fork(proc, tid)]
        suspects += move()  # after the look: what the others had begun is there
        if not suspects or (number >= LEAST_LOOKS and time.monotonic() > end):
            return
        time.sleep(_NAP)


def _shows_calls(proc: str, tid: int) -> bool:
    try:
        read_kernel_file(f"{proc}/{tid}/syscall")
    except OSError as error:
        return error.errno in GONE
    return True


def may_fork(proc: str, tid: int) -> bool:
    """Return whether a thread can be in a fork; false if it has ended, or the kernel does not show calls."""
    try:
        call = read_kernel_file(f"{proc}/{tid}/syscall").split(maxsplit=1)[:1]
    except OSError as error:
        return error.errno not in GONE
    return any(one == _RUNNING or one in _FORKS.get(posix.uname().machine, ()) for one in call)
