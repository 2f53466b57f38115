"""Waits for forks that the kernel had begun before a pod's tasks moved: each adds a child with the former class.

The kernel copies the class at the begin of a fork, and lists the child at its end (kernel/fork.c, copy_process).
"""

import time

from ..host.procfs import stat_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LEAST_LOOKS, LOOKS, _SECONDS = 10, 50, 0.5
"""How often to look, because a thread that always runs is never seen asleep."""
_NAP = 0.005
_FORKING = (["R"], ["D"])
"""Within a fork a thread runs, or waits for locks and memory, which no signal ends. One that sleeps (S), is stopped or
has ended is in none. Unlike its system call, every process may read its state (fs/proc/array.c, do_task_stat)."""


def await_forks(proc: str, tids: "Iterable[int]", move: "Callable[[], list[int]]") -> None:
    """Move the children of such forks, until no thread can be in one.

    It gives up after `LOOKS` looks, or after `LEAST_LOOKS` and half a second.

    Args:
        proc: the mount of /proc.
        tids: the threads that were moved.
        move: moves the threads that are still outside, and returns them.
    """
    suspects = [*tids]
    end = time.monotonic() + _SECONDS
    for number in range(LOOKS):
        suspects = [tid for tid in suspects if may_fork(proc, tid)]
        suspects += move()  # after the look: what the others had begun is there
        if not suspects or (number >= LEAST_LOOKS and time.monotonic() > end):
            return
        time.sleep(_NAP)


def may_fork(proc: str, tid: int) -> bool:
    """Return whether a thread can be in a fork; false if it has ended."""
    return stat_fields(f"{proc}/{tid}/stat")[:1] in _FORKING
