"""The CPU time that a pod lost while its tasks could run: to others, and to its own limit. Pure.

Work takes (used + lost) / used times as long as without these waits. The time of a pod that rests is in neither.
"""

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Lost(NamedTuple):
    """CPUs that a pod used and lost, on average."""

    used: float
    waited: float
    """Other tasks ran instead."""
    limited: float
    """Its own limit stopped it."""


def lost_cpus(
    used: float, some: float, full: "float | None", delay: "float | None", cpus: int, throttled: float
) -> "tuple[float, float]":
    """Return the CPUs that a pod lost in a window to other tasks, and to its own limit.

    While a task of the pod waits, another one of the same pod may run on that CPU: only the time in which none ran is
    lost (``full``). The kernel counts it as a mean over the CPUs that the pod wanted, whose number is unknown, so it
    comes from the tasks' delays.

    Args:
        used: CPUs in use.
        some: the part of the time for which some task waited for a CPU (pressure).
        full: the part for which no task ran while some waited; None: the kernel does not count it (before 5.13).
        delay: the tasks' seconds of waiting by second, summed over tasks; None: unknown.
        cpus: the number of CPUs that the pod may use.
        throttled: CPUs that its limit stopped.
    """
    still = some if full is None else min(full, some)
    if still <= 0:
        return 0.0, 0.0
    # The delay of a task counts once it runs again: where it still waits at the end of a window, one CPU is wanted.
    wanted = max(1.0, used / max(1 - still, 1 / max(cpus, 1)) if delay is None else delay / some)
    lost = max(0.0, min(still * min(wanted, float(cpus)), cpus - used))
    limited = min(lost, throttled)
    return lost - limited, limited


def crowded_cpus(used: float, some: float, delay: float, cpus: int, tasks: int, beside: float) -> float:
    """Return the CPUs that a pod lost at least to others while its own tasks waited behind each other.

    The scheduler may leave two tasks of a pod on one CPU while others run on the pod's second one: some task of the pod
    runs all the time, and still it gets less than alone. Of so many tasks at most ``tasks`` - (those that wait) ran
    while some waited, so others had the rest of the pod's CPUs.

    Args:
        used: CPUs in use.
        some: the part of the time for which some task waited for a CPU.
        delay: the tasks' seconds of waiting by second, summed over tasks.
        cpus: the number of CPUs that the pod may use.
        tasks: the number of the pod's tasks.
        beside: CPUs that others used of the pod's.
    """
    if some <= 0:
        return 0.0
    waiting = min(delay / some, float(tasks))
    taken = cpus - min(float(cpus), tasks - waiting)
    return max(0.0, min(some * min(waiting, taken), beside, cpus - used))


def mean_lost(windows: "Iterable[Lost | None]") -> "Lost | None":
    """Return the mean of what a pod lost in some windows; None if it is unknown."""
    known = [one for one in windows if one is not None]
    return Lost(*[sum(parts) / len(known) for parts in zip(*known)]) if known else None
