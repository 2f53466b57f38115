"""A container's memtierd outside systemd: recorded by its supervisor, found again, and stopped."""

import posix
import time
from _signal import SIGKILL, SIGTERM

from ...errors import HookError
from ...host.cgroup import processes
from ...host.files import GONE, format_json, write_kernel_file
from ...host.procfs import boot_id, lives, start_time
from ...host.state_file import parse
from ...shapes import Annotated, Count, Text, TypedDict, exactly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .run_dir import Opened

PROC = "/proc"  # these processes are this machine's, whatever path the settings have for containers
RECORD = "memtierd.keeper"
CGROUP = "resctrl-hooks"
_PATIENCE = 0.5  # seconds for SIGTERM, and again for SIGKILL
_NAP = 0.01


class SupervisorRecord(TypedDict):
    """The supervisor and its memtierd: pid and when it began."""

    boot: Text
    processes: list[Annotated["list[int]", exactly(Count, Count)]]


class SupervisorError(HookError):
    """memtierd did not start as a plain process, or does not end."""

    reason = "memtierd"
    hint = "run `resctrl-hook doctor` to check memtierd on this node"


def cgroup_folder(cgroup_root: str, container: str) -> str:
    """Return the cgroup of a container's memtierd.

    Raises:
        SupervisorError: the root, from a record, is not an absolute path.
    """
    if cgroup_root[:1] != "/" or "/../" in f"{cgroup_root}/":
        raise SupervisorError(f"not an absolute path: {cgroup_root[:200]!r}")
    return f"{cgroup_root}/{CGROUP}/memtierd-{container}"


def record(folder: "Opened", children: "list[int]") -> None:
    """Record the calling supervisor and its children before they can need stopping.

    A killed hook's supervisor is found by this record.
    """
    pids = [posix.getpid(), *children]
    named = [[pid, start_time(PROC, pid)] for pid in pids]
    content: "SupervisorRecord" = {"boot": boot_id(PROC), "processes": named}
    folder.write(RECORD, format_json(content))


def living(folder: "Opened") -> "list[int]":
    """Return the supervisor and the memtierd in a run folder's record, if they are still the same processes."""
    return [pid for pid, begun in _recorded(folder) if lives(PROC, pid, begun)]


def memtierd_of(folder: "Opened") -> "list[int]":
    """Return the memtierd in a run folder's record, if it still lives."""
    alive = living(folder)
    return [pid for pid, _ in _recorded(folder)[1:] if pid in alive]


def attended(folder: "Opened") -> bool:
    """Return whether the memtierd in a run folder's record lives, and the supervisor that reads its output."""
    recorded = _recorded(folder)
    return len(recorded) > 1 and living(folder) == [pid for pid, _ in recorded]


def _recorded(folder: "Opened") -> "list[tuple[int, int]]":
    """Return the recorded processes, the supervisor first: pids and start times."""
    try:
        found = parse(folder.read(RECORD), SupervisorRecord)
        return [(pid, begun) for pid, begun in found["processes"]] if found["boot"] == boot_id(PROC) else []
    except ValueError:
        return []


def end(folder: "Opened", cgroup: str) -> None:
    """Stop a container's memtierd and its children, by its cgroup and by its run folder's record.

    Raises:
        SupervisorError: a process survives SIGKILL.
    """
    for number in (SIGTERM, SIGKILL):
        targets = processes(cgroup) or _group(folder)
        if not targets:
            break
        if number == SIGKILL:
            try_write(f"{cgroup}/cgroup.kill", "1")
        for pid in targets:
            _kill(pid, number)
        until = time.monotonic() + _PATIENCE
        while (processes(cgroup) or _group(folder)) and time.monotonic() < until:
            time.sleep(_NAP)
    else:
        if processes(cgroup) or _group(folder):
            raise SupervisorError(f"processes {targets} of a memtierd do not end", hint="inspect them with ps")
    _remove_cgroup(cgroup)


def _group(folder: "Opened") -> "list[int]":
    """Return the supervisor's process group, as kill(2) takes it, if one of its members is known to live."""
    return [-_recorded(folder)[0][0]] if living(folder) else []


def _kill(target: int, number: int) -> None:
    try:
        posix.kill(target, number)
    except ProcessLookupError:
        pass


def _remove_cgroup(cgroup: str) -> None:
    """Remove the cgroup, and its parent if that is empty.

    Raises:
        SupervisorError: the kernel refuses; reconcile tries again while the run folder exists.
    """
    try:
        posix.rmdir(cgroup)
    except OSError as error:
        if error.errno in GONE:
            return
        raise SupervisorError.of_file(error, cgroup, "remove") from error
    try:
        posix.rmdir(cgroup.rpartition("/")[0])
    except OSError:
        pass  # it contains other containers' cgroups


def try_write(path: str, value: str) -> bool:
    """Write to a kernel file; return whether it was accepted."""
    try:
        write_kernel_file(path, value)
    except OSError:
        return False
    return True
