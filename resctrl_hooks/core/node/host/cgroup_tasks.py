"""All threads of a container: those in its own cgroup and below it, else its init process and all descendants."""

import errno
import posix

from ..errors import HookError
from .files import GONE, is_folder, is_there, list_folder, read_kernel_file
from .procfs import living_thread, threads_of

_LISTS = ("cgroup.threads", "tasks")  # of cgroup v2, also in threaded cgroups unlike cgroup.procs; of cgroup v1
MOST_CGROUPS = 1000
_LONGEST_PATH = 4000  # PATH_MAX is 4096, and a file's name comes behind it
_LINKS_OF_A_LEAF = 2
_ELSEWHERE = (*GONE, errno.EOPNOTSUPP)


class CgroupThreads:
    """The threads of a cgroup and of those below. ``is_partial``: there are more than `MOST_CGROUPS` cgroups."""

    __slots__ = ("is_partial", "tids")

    def __init__(self, cgroup: str) -> None:
        """Read the threads.

        Raises:
            HookError: a list of threads cannot be read.
        """
        folders = cgroups_below(cgroup)
        self.is_partial = len(folders) == MOST_CGROUPS
        self.tids = _threads_in(folders)


def threads_of_container(proc: str, cgroup: str, pid: int, found: "CgroupThreads | None" = None) -> "list[int]":
    """Return all thread ids of a container: those in its own cgroup and below, else of its init and all descendants.

    The descendants are also used if its cgroup is a plain folder, as on a simulated host. A removed cgroup has no
    threads: its init's process id may belong to another process by now.

    At most `MOST_CGROUPS` cgroups are read, the nearest to its own first, because a container can create any number.
    ``found`` are the threads of its cgroup, if they were read already.
    """
    if cgroup:
        tids = (found or CgroupThreads(cgroup)).tids
        if tids or not is_folder(cgroup) or any(is_there(f"{cgroup}/{name}") for name in _LISTS):
            return tids
    return _threads_below(proc, pid, set())


def cgroups_below(cgroup: str) -> "list[str]":
    """Return a container's own cgroup and those below it, the nearest first, at most `MOST_CGROUPS`."""
    found = [cgroup]
    for folder in found:
        if _may_have_folders(folder):
            for name in list_folder(folder):
                if len(found) == MOST_CGROUPS:
                    return found
                below = f"{folder}/{name}"
                if len(below) < _LONGEST_PATH and is_folder(below):
                    found.append(below)
    return found


def _threads_in(folders: "list[str]") -> "list[int]":
    found: "list[int]" = []
    for folder in folders:
        for name in _LISTS:
            try:
                found += [tid for tid in map(int, read_kernel_file(f"{folder}/{name}").split()) if tid > 0]
                break
            except OSError as error:
                if error.errno not in _ELSEWHERE:
                    raise HookError.of_file(error, f"{folder}/{name}", "read") from error
            except ValueError:
                raise HookError(f"cannot read {folder}/{name}: not a list of threads", errno=errno.EIO) from None
    return found


def _may_have_folders(folder: str) -> bool:
    """Return whether a folder may contain folders.

    Its link count is two more than their number if the file system counts them, as kernfs and tmpfs do.
    """
    try:
        return posix.lstat(folder).st_nlink != _LINKS_OF_A_LEAF
    except OSError:
        return False


def _threads_below(proc: str, pid: int, seen: "set[int]") -> "list[int]":
    """Return the threads of a process and, from /proc/pid/task/tid/children, of all its descendants."""
    found: "list[int]" = []
    queue = [pid]
    while queue:
        process = queue.pop()
        if process in seen:
            continue
        seen.add(process)
        tids = threads_of(proc, process)
        ended = len(tids) > 1 and living_thread(proc, process) not in (0, process)
        for tid in tids:
            if tid != process or not ended:  # as the lists of a cgroup, which lack an ended main thread
                found.append(tid)
            try:
                queue += [int(child) for child in read_kernel_file(f"{proc}/{process}/task/{tid}/children").split()]
            except (OSError, ValueError):
                continue
    return found
