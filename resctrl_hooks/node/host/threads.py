"""Processes whose main thread has ended: a thread that lives stands for them."""

from .procfs import ENDED, resctrl_groups_of, stat_fields, threads_of

_NONE_LEFT = ([], *([letter] for letter in ENDED))


def groups_of_process(proc: str, pid: int) -> "tuple[str, str] | None":
    """Return the RDT class and the mon_group of a running process as `resctrl_groups_of`: those of a living thread."""
    tid = living_thread(proc, pid)
    return resctrl_groups_of(proc, pid, tid if tid != pid else 0)


def living_thread(proc: str, pid: int) -> int:
    """Return the id of a thread of a process that has not ended, its main thread's if possible; 0 for none.

    A process lives on after its main thread's end, such as by pthread_exit in ``main``. This thread remains as a zombie
    and keeps its RDT class and mon_group, but lists of a cgroup's threads lack it, and it has no I/O priority.

    Raises:
        OSError: as `start_time`.
    """
    if stat_fields(f"{proc}/{pid}/stat")[:1] not in _NONE_LEFT:
        return pid
    others = (tid for tid in threads_of(proc, pid) if tid != pid)
    return next((tid for tid in others if stat_fields(f"{proc}/{pid}/task/{tid}/stat")[:1] not in _NONE_LEFT), 0)
