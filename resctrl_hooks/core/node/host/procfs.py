"""Reading of /proc: a process's cgroups, resctrl groups and identity; a container and its pod in a cgroup's path."""

import errno
import posix

from ..names import canonical_pod_uid, is_hex, pod_uid_validator
from .files import GONE, read_kernel_file

CRUNS_LEAF = "container"  # crun puts the processes of X.scope into X.scope/container
_ALL_UIDS = 4294967295
INITIAL_PID_NAMESPACE = 0xEFFFFFFC
_UNIFIED = "unified"
_LINKS_OF_ONE = 3  # those of an empty folder, and one for a thread
_ENDED = ("Z", "X", "x")
_NONE_LEFT = ([], *([letter] for letter in _ENDED))
# Prefixes of container ids in cgroup names. A name that ends in "-conmon" is the monitor's.
_MAKERS = ("crio", "libpod", "libpod-payload", "cri-containerd", "docker", "nerdctl", "crun", "runc", "youki")
_ID_LENGTH = 64
_THREADS, _START_TIME = 17, 19  # fields 20 and 22 of /proc/pid/stat, counted after the first two


class Cgroup:
    """A process's place in one cgroup hierarchy: the hierarchy's folder below the mount, and the path in it.

    ``hierarchy`` is empty for a unified host, ``unified`` for version 2 next to version 1, else the v1 controllers.
    """

    __slots__ = ("hierarchy", "path")

    def __init__(self, hierarchy: str, path: str) -> None:
        self.hierarchy = hierarchy
        self.path = path

    def folder(self, cgroup_root: str, path: str = "") -> str:
        """Return the folder of this cgroup, or of ``path`` in the same hierarchy, below the mount ``cgroup_root``."""
        root = f"{cgroup_root}/{self.hierarchy}" if self.hierarchy else cgroup_root
        return root + (path or self.path).rstrip("/")


def cgroups_of(proc: str, pid: int) -> "list[Cgroup]":
    """Return a process's cgroups, version 2's first; empty if it is gone (cgroups(7), /proc/pid/cgroup).

    Version 1 shows an ended main thread in the root cgroups (kernel/cgroup/cgroup.c, proc_cgroup_show).
    """
    found = _cgroups_in(_read(f"{proc}/{pid}/cgroup"))
    if found and found[-1].hierarchy and all(one.path == "/" for one in found if one.hierarchy != _UNIFIED):
        tid = living_thread(proc, pid)
        if tid not in (0, pid):
            return _cgroups_in(_read(f"{proc}/{pid}/task/{tid}/cgroup")) or found
    return found


def _cgroups_in(text: str) -> "list[Cgroup]":
    # Only a line feed ends a line: a nested cgroup's name can contain a form feed.
    lines = [line.split(":", 2) for line in text.split("\n") if line.count(":") > 1]
    found: "list[Cgroup]" = []
    for number, controllers, path in lines:
        if number == "0":
            found.insert(0, Cgroup(_UNIFIED if len(lines) > 1 else "", path))
        else:
            found.append(Cgroup(controllers.replace("name=", ""), path))
    return found


def resctrl_groups_of(proc: str, pid: int, tid: int = 0) -> "tuple[str, str] | None":
    """Return the RDT class ("" for the root) and the mon_group of a task, or None if unknown.

    They are unknown if resctrl is not mounted or is a simulation, and before Linux 5.9. Source: fs/resctrl/rdtgroup.c,
    proc_resctrl_show.

    Raises:
        ProcessLookupError: the task is gone.
    """
    folder = f"{proc}/{pid}/task/{tid}" if tid else f"{proc}/{pid}"
    text = _read(f"{folder}/cpu_resctrl_groups")
    if not text:
        try:
            posix.stat(folder)
        except OSError as error:
            raise ProcessLookupError(errno.ESRCH, "the task has ended", folder) from error
        return None
    first, _, second = text.partition("\n")
    rdt_class = first.partition("res:")[2]
    if not rdt_class:
        return None
    return ("" if rdt_class == "/" else rdt_class), second.partition("mon:")[2].rstrip("\n")


def threads_of(proc: str, pid: int) -> "list[int]":
    """Return the thread ids of a process, its own pid among them; empty if it is gone.

    The number of links of its folder shows that there is one thread only, without a listing. Source: Linux,
    fs/proc/base.c, proc_task_getattr.
    """
    folder = f"{proc}/{pid}/task"
    try:
        if posix.stat(folder).st_nlink == _LINKS_OF_ONE:
            return [pid]
        return sorted(int(name) for name in posix.listdir(folder))
    except OSError as error:
        if error.errno in GONE:
            return []
        raise


def start_time(proc: str, pid: int) -> int:
    """Return a process's start in clock ticks after boot, or 0 if it is gone or all its threads have ended.

    Together with pid and boot id it identifies a process, because pids are reused. Source: proc(5), stat, field 22.

    Raises:
        OSError: the file cannot be read, or has another form (EIO).
    """
    if pid <= 0:
        return 0
    path = f"{proc}/{pid}/stat"
    fields = stat_fields(path)
    if not fields:
        return 0
    is_zombie = len(fields) > _START_TIME and fields[0] in _ENDED
    if is_zombie and (fields[_THREADS] == "1" or not living_thread(proc, pid)):
        return 0
    try:
        return int(fields[_START_TIME])
    except (IndexError, ValueError):
        raise OSError(errno.EIO, "not of the form of proc(5)", path) from None


def stat_fields(path: str) -> "list[str]":
    """Return the fields of a stat file from the state on; empty if the task is gone."""
    try:
        text = read_kernel_file(path).decode("utf-8", "surrogateescape")
    except OSError as error:
        if error.errno in GONE:
            return []
        raise
    # The second field is the command's name in parentheses, which may contain spaces and parentheses.
    return text[text.rfind(")") + 2 :].split(" ", _START_TIME + 1)


def lives(proc: str, pid: int, start: "int | None") -> bool:
    """Return whether the process that had this pid and start time is still alive; false for a start of 0 or None."""
    return bool(start) and start_time(proc, pid) == start


def pid_namespace() -> str:
    """Return the name of this process's PID namespace (pid_namespaces(7)): a pid means something only within it."""
    return posix.readlink("/proc/self/ns/pid")


def boot_id(proc: str) -> str:
    """Return this boot's random id, or an empty string where /proc is not the host's own."""
    return _read(f"{proc}/sys/kernel/random/boot_id").strip()


def in_initial_user_namespace() -> bool:
    """Return whether this is the host's own user namespace; a rootless runtime runs hooks as root of another one.

    Source: user_namespaces(7): the initial namespace maps all ids to themselves.
    """
    return _read("/proc/self/uid_map").split() in (["0", "0", str(_ALL_UIDS)], [])


def sees_processes(proc: str) -> bool:
    """Return whether the node's processes are visible; in another PID namespace all of them seem to have ended.

    Source: include/linux/proc_ns.h, PROC_PID_INIT_INO: the inode of the node's own namespace.
    """
    return proc != "/proc" or posix.stat("/proc/self/ns/pid").st_ino == INITIAL_PID_NAMESPACE


def _read(path: str) -> str:
    try:
        return read_kernel_file(path).decode("utf-8", "surrogateescape")
    except OSError as error:
        if error.errno in GONE:
            return ""
        raise


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


def own_cgroup(path: str, container: str, asked: str) -> str:
    """Return the part of a cgroup path that belongs to the container only, so that changes affect no other container.

    The runtimes name it after the container, or as ``linux.cgroupsPath`` requested: "/path", or "slice:prefix:name"; an
    unknown ``asked`` is empty. The container itself, for example systemd in it, made all cgroups below that, except
    crun's own. Empty for none. Part of a name does not match a short id: "session-1.scope" is not of a container "1".
    """
    requested = "" if ":" in asked else asked.strip("/")
    place = f"{path}/".find(f"/{requested}/") if requested else -1
    if place >= 0:
        return path[: place + len(requested) + 1]
    named = "-".join(asked.split(":")[1:]) or container
    if container not in path and named not in path:
        return ""
    parts = path.split("/")
    names = {container, named, *(f"{maker}-{container}" for maker in _MAKERS)}
    for end, part in enumerate(parts, 1):
        if part in names or part.removesuffix(".scope") in names:
            cruns = part.endswith(".scope") and parts[end : end + 1] == [CRUNS_LEAF]
            return "/".join(parts[: end + cruns])
    return ""


def maker_of(own: str, container: str) -> str:
    """Return the prefix of a container's id in its cgroup's name: ``crio``; empty for none."""
    name = own.removesuffix(f".scope/{CRUNS_LEAF}").rpartition("/")[2].removesuffix(".scope")
    return name.removesuffix(f"-{container}") if name.endswith(f"-{container}") else ""


def container_in_cgroup(path: str) -> str:
    """Return the part of a cgroup path that is a container's by its name; empty for none.

    Its name is the container's 64-digit id, after its runtime's name or in a pod's cgroup.
    """
    parts = path.split("/")
    for end, part in enumerate(parts, 1):
        name = part.removesuffix(".scope")
        if is_hex(name[-_ID_LENGTH:], _ID_LENGTH):
            maker = name[:-_ID_LENGTH].rstrip("-")
            here = "/".join(parts[:end])
            if maker in _MAKERS or (not maker and pod_in_cgroup("/".join(parts[: end - 1]))[0]):
                return here
    return ""


def pod_in_cgroup(path: str, uid: str = "") -> "tuple[str, str]":
    """Return the pod of a cgroup path, and the pod's own part of the path; two empty strings for none.

    A ``uid`` that is no UUID is found only if it is given.

    The kubelet names a pod's cgroup ``pod<uid>`` or, under systemd, ``kubepods-…-pod<uid with _ for ->.slice``
    (kubernetes, pkg/kubelet/cm); Podman's is the pod's id, or ``…-libpod_pod_<id>.slice``, and contains
    ``libpod-<id>``.
    """
    parts = path.split("/") if "pod" in path else ()
    for index, part in enumerate(parts):
        found = _pod_of_part(part, parts[index + 1] if index + 1 < len(parts) else "", uid)
        if found:
            return found, "/".join(parts[: index + 1])
    return "", ""


def _pod_of_part(part: str, below: str, chosen: str) -> str:
    if part.endswith(".slice"):
        part = part[:-6]
        if chosen and part.endswith(f"-pod{chosen.replace('-', '_')}"):
            return chosen
        if is_hex(part[-64:], 64) and part[:-64].endswith("libpod_pod_"):
            return part[-64:]
        part = part[part.rfind("-pod") + 1 :].replace("_", "-") if "-pod" in part else ""
    elif is_hex(part, 64) and below.startswith("libpod-"):
        return part
    uid = part[3:]
    if uid and uid == chosen and part.startswith("pod"):
        return chosen
    return canonical_pod_uid(uid) if part.startswith("pod") and pod_uid_validator(uid) else ""
