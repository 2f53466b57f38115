"""The time that a pod's tasks waited to run, and the CPUs on which they may run, from ``/proc/TID/schedstat``.

Source: kernel, Documentation/scheduler/sched-stats.rst: time on a CPU, and time waiting to run, in ns. The time of a
limited task (``cpu.max``) is in the latter, too. Read for pods with CPU pressure only, for a bounded number of tasks.
"""

import posix
from heapq import nlargest
from typing import NamedTuple

from ......core.node.host.cgroup_tasks import cgroups_below
from ......core.node.host.files import kernel_text
from ...constants import WAITED
from ..numbers import numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..use import Use

MOST_TASKS = 512
"""Tasks of all pods."""
_MOST_OF_POD, _FEW, _TELLING = 128, 4, 16
_MOST_PODS = 64
_BUSY = 0.1  # CPUs from which a pod's CPUs are read although it does not wait
_NANO, _MICRO = 1e-9, 1e-6
_FIELDS = 3


class Delays(NamedTuple):
    """A pod's tasks at one time."""

    tasks: "dict[int, tuple[float, float]]"
    """By thread id: seconds on a CPU, and seconds waiting to run."""
    number: int
    """All of the pod's tasks, also those that are not among ``tasks``."""
    cpus: int = 0
    """The CPUs that the tasks may use, as a set; 0: unknown, or not all tasks were read."""
    throttled: float = 0.0
    """Seconds for which limits of the pod's containers stopped them, summed over CPUs."""
    throttles: int = 0


def sampled(uses: "Mapping[str, Use]") -> "dict[str, int]":
    """Return how many tasks of each pod are read after a window: all of those that wait, few of those that only run.

    The latter may slow the others, which depends on their CPUs. Where there are too many tasks, those of the pods that
    wait longest are read.
    """
    waiting = [(score, key) for key, use in uses.items() if (score := _score(use)) >= 0.5 * WAITED]
    if not waiting:
        return {}
    busy = [(use.cpu, key) for key, use in uses.items() if use.cpu is not None and use.cpu >= _BUSY]
    found = {key: _FEW for _, key in nlargest(_MOST_PODS, busy)}
    waiting = nlargest(_MOST_PODS, waiting)
    most = max(_FEW, min(_MOST_OF_POD, MOST_TASKS // len(waiting)))
    return {**found, **{key: most for _, key in waiting}}


def _score(use: "Use") -> float:
    """Return how much a pod may wait: its pressure, or its use of CPUs if the kernel counts no pressure."""
    return float((use.cpu if use.waited is None else use.waited) or 0)


def read_delays(proc: str, folders: "Sequence[str]", most: int) -> "Delays | None":
    """Return the times of at most so many of a pod's tasks; None if the kernel does not count them.

    The limit of a container stops tasks without a trace in the statistics of its pod's cgroup.
    """
    below = [each for folder in folders for each in cgroups_below(folder)]
    tids = [int(tid) for folder in below for tid in kernel_text(f"{folder}/cgroup.threads").split() if tid.isdigit()]
    read = _spread(tids, most)
    found, cpus = {}, 0
    for tid in read:
        words = kernel_text(f"{proc}/{tid}/schedstat").split()
        if len(words) == _FIELDS:
            found[tid] = int(words[0]) * _NANO, int(words[1]) * _NANO
            cpus |= allowed_cpus(tid)
    if not any(ran for ran, _ in found.values()):  # without CONFIG_SCHED_INFO all numbers are 0
        return None
    stats = [numbers(f"{folder}/cpu.stat") for folder in below if folder not in folders]
    return Delays(
        found,
        len(tids),
        cpus if len(read) >= min(len(tids), _TELLING) else 0,
        sum([one.get("throttled_usec", 0) for one in stats]) * _MICRO,
        sum([one.get("nr_throttled", 0) for one in stats]),
    )


def allowed_cpus(tid: int) -> int:
    """Return the CPUs of a task's affinity as a set; 0 if it ended."""
    try:
        return sum([1 << cpu for cpu in posix.sched_getaffinity(tid)])
    except OSError:
        return 0


def waited_between(before: "Delays | None", after: "Delays | None") -> "float | None":
    """Return the seconds for which the pod's tasks waited to run between two readings, summed over tasks.

    A task that is new counts from its start. What an ended task waited is unknown and left out.
    """
    if before is None or after is None or not after.tasks:
        return None
    waited = 0.0
    for tid, (ran, delay) in after.tasks.items():
        old = before.tasks.get(tid)
        is_same = old is not None and old[0] <= ran and old[1] <= delay
        if is_same or before.number == len(before.tasks):
            waited += delay - (old[1] if old and is_same else 0.0)
    return waited * after.number / len(after.tasks)


def _spread(tids: "list[int]", most: int) -> "list[int]":
    """Return at most so many, spread evenly: threads of one kind have neighbouring ids."""
    step = -(-len(tids) // most)
    return sorted(tids)[::step] if step > 1 else tids
