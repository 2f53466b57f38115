"""Supervision where systemd doesn't run: a small process of ours starts a container's memtierd and stays with it.

It has nothing of the hook that made it: its own session, its own cgroup, none of the runtime's pipes or our locks. It
keeps memtierd's output within bounds and ends it when the container's init process has ended.
"""

import posix
import time
from _signal import SIG_IGN, SIGKILL, SIGTERM, signal

from .cgroup import processes
from .errors import HookError
from .files import format_json, list_folder, parse_json
from .process import boot_id, start_time
from .programs import spawn
from .run_folder import OUTPUT, PID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

    from .run_folder import Opened

PROC = "/proc"  # our own processes are the machine's, wherever the settings look for containers
RECORD = "memtierd.keeper"
OLD_OUTPUT = OUTPUT + ".old"
CGROUP = "resctrl-hooks"
_OUTPUT_LIMIT = 1 << 20
_LOOK_EVERY = 2.0  # seconds between looks at the container
_PATIENCE = 0.5  # seconds for SIGTERM, and again for SIGKILL
_NAP = 0.01
_REPORT_LIMIT = 4000


class KeeperError(HookError):
    """memtierd can't be started as a plain process, or will not end."""

    reason = "memtierd"


class Kept:
    """What the keeper needs to know: the command, the container's init process, and the cgroup to live in."""

    __slots__ = ("cgroup", "command", "pid", "proc", "start")

    def __init__(self, command: "list[str]", cgroup: str, proc: str, pid: int, start: int) -> None:
        self.command = command
        self.cgroup = cgroup
        self.proc = proc
        self.pid = pid
        self.start = start

    def container_lives(self) -> bool:
        """Whether the container's init is still the process that it was."""
        return start_time(self.proc, self.pid) == self.start


def cgroup_folder(cgroup_root: str, container: str) -> str:
    """The cgroup that a container's memtierd lives in."""
    return f"{cgroup_root}/{CGROUP}/memtierd-{container}"


def start(kept: Kept, folder: "Opened") -> None:
    """Starts memtierd and the keeper, detached, and returns once memtierd is executed.

    Raises:
        KeeperError: it can't be.
    """
    ours, theirs = posix.pipe()
    try:
        child = posix.fork()
        if child == 0:
            _detach(kept, folder, theirs)
        posix.close(theirs)
        theirs = -1
        posix.waitpid(child, 0)
        report = _read(ours)
    finally:
        posix.close(ours)
        if theirs >= 0:
            posix.close(theirs)
    if report != b"started":
        raise KeeperError(f"memtierd can't be started: {report.decode('utf-8', 'replace') or 'its keeper died'}")


def _read(fd: int) -> bytes:
    report = chunk = posix.read(fd, _REPORT_LIMIT)
    while chunk:
        chunk = posix.read(fd, _REPORT_LIMIT)
        report += chunk
    return report


def _detach(kept: Kept, folder: "Opened", report: int) -> None:
    """In the forked child: forks the keeper, which then is init's child, and ends. Never returns."""
    code = 1
    try:
        if posix.fork() == 0:
            try:
                _keep(kept, folder, report)
            except BaseException as error:  # noqa: BLE001  # nothing may ever return into the hook's own code
                posix.write(report, str(error).encode()[:_REPORT_LIMIT])
        code = 0
    finally:
        posix._exit(code)  # noqa: SLF001  # it is public in os, which costs too much to import


def _keep(kept: Kept, folder: "Opened", report: int) -> None:
    posix.setsid()  # and so leads a process group, which is how memtierd and its children are found
    signal(SIGTERM, SIG_IGN)  # it is meant for memtierd, whose end is ours
    posix.umask(0o077)
    posix.chdir("/")
    _leave_everything({folder.fd, report})
    _move_to(kept.cgroup)
    _write("/proc/self/oom_score_adj", b"0")  # the runtime's own protects it from the OOM killer
    _record(folder, [])
    import _socket  # its read has a time limit

    ours, theirs = _socket.socketpair()
    child = spawn(kept.command, theirs.fileno(), leader=False)
    try:
        theirs.close()
        _record(folder, [child])
        folder.write(PID, f"{child}\n".encode())
        posix.write(report, b"started")
    except BaseException:  # somebody ended us meanwhile, and the folder is gone
        posix.kill(child, SIGKILL)
        raise
    posix.close(report)
    _attend(kept, folder, child, ours)


def _attend(kept: Kept, folder: "Opened", child: int, output: "socket") -> None:
    """Takes down what memtierd says until it ends, and ends it when the container has."""
    output.settimeout(_LOOK_EVERY)
    look = time.monotonic() + _LOOK_EVERY
    while True:
        try:
            chunk = output.recv(1 << 16)
            if chunk:
                _append(folder, chunk)
            else:
                time.sleep(_NAP)  # closed: it is about to end
        except OSError:
            chunk = b""  # nothing was said for a while
        due = time.monotonic() >= look
        if due or not chunk:
            ended, status = posix.waitpid(child, posix.WNOHANG)
            if ended:
                break
        if due:
            look = time.monotonic() + _LOOK_EVERY
            if not kept.container_lives():
                end(folder, kept.cgroup)
    code = posix.waitstatus_to_exitcode(status)
    _append(folder, f"resctrl-hook: memtierd ended with {code}\n".encode())


def _leave_everything(but: "set[int]") -> None:
    """Closes all descriptors: our locks, whose end must not wait for us, and the runtime's pipes."""
    nothing = posix.open("/dev/null", posix.O_RDWR)
    for fd in (0, 1, 2):
        posix.dup2(nothing, fd)
    for name in list_folder("/proc/self/fd"):
        if int(name) > 2 and int(name) not in but:  # noqa: PLR2004  # the standard streams
            try:
                posix.close(int(name))
            except OSError:
                continue  # the listing's own


def _move_to(cgroup: str) -> None:
    """Leaves the runtime's cgroup for one of our own, or for the root where there can be none."""
    root = cgroup.rpartition("/")[0].rpartition("/")[0]
    for path in (cgroup.rpartition("/")[0], cgroup):
        try:
            posix.mkdir(path, 0o755)
        except OSError:
            continue  # it is there; or else the next one fails too
    if not _write(f"{cgroup}/cgroup.procs", b"0"):
        _write(f"{root}/cgroup.procs", b"0")


def _write(path: str, data: bytes) -> bool:
    try:
        fd = posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC)
        try:
            posix.write(fd, data)
        finally:
            posix.close(fd)
    except OSError:
        return False
    return True


def _record(folder: "Opened", children: "list[int]") -> None:
    """Writes down who we are, before there is anything to be ended: a killed hook's keeper is found by it."""
    pids = [posix.getpid(), *children]
    named = [[pid, start_time(PROC, pid)] for pid in pids]
    folder.write(RECORD, format_json({"boot": boot_id(PROC), "processes": named}))


def _append(folder: "Opened", data: bytes) -> None:
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC
    try:
        fd = posix.open(OUTPUT, flags, 0o600, dir_fd=folder.fd)
        try:
            posix.write(fd, data)
            if posix.fstat(fd).st_size > _OUTPUT_LIMIT:
                posix.rename(OUTPUT, OLD_OUTPUT, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
        finally:
            posix.close(fd)
    except OSError:
        pass  # the folder was removed, or its file system is full: memtierd goes on all the same


def living(folder: "Opened") -> "list[int]":
    """The keeper and the memtierd that a run folder names, as far as they are still those very processes."""
    return [pid for pid, begun in _recorded(folder) if begun and start_time(PROC, pid) == begun]


def memtierd_of(folder: "Opened") -> "list[int]":
    """The memtierd that a run folder names, if it still lives."""
    alive = living(folder)
    return [pid for pid, _ in _recorded(folder)[1:] if pid in alive]


def _recorded(folder: "Opened") -> "list[tuple[int, int]]":
    """The recorded processes, the keeper first: pids and when they began."""
    try:
        record = parse_json(folder.read(RECORD))
        return [(int(pid), int(begun)) for pid, begun in record["processes"]] if record["boot"] == boot_id(PROC) else []
    except (OSError, ValueError, TypeError, KeyError):
        return []


def end(folder: "Opened | None", cgroup: str) -> bool:
    """Ends a container's memtierd with all that it started, by its cgroup and by what its run folder names.

    Says whether there was anything to end.

    Raises:
        KeeperError: something survives even SIGKILL.
    """
    found = False
    for number in (SIGTERM, SIGKILL):
        targets = processes(cgroup) or _group(folder)
        if not targets:
            break
        found = True
        if number == SIGKILL:
            _write(f"{cgroup}/cgroup.kill", b"1")
        for pid in targets:
            _kill(pid, number)
        until = time.monotonic() + _PATIENCE
        while (processes(cgroup) or _group(folder)) and time.monotonic() < until:
            time.sleep(_NAP)
    else:
        if processes(cgroup) or _group(folder):
            raise KeeperError(f"processes {targets} of a memtierd will not end", hint="look at them with ps")
    _remove_cgroup(cgroup)
    return found


def _group(folder: "Opened | None") -> "list[int]":
    """The process group that the keeper leads, as kill(2) takes it, if anyone of it is known to live."""
    if folder is None or not living(folder):
        return []
    return [-_recorded(folder)[0][0]]


def _kill(target: int, number: int) -> None:
    try:
        posix.kill(target, number)
    except ProcessLookupError:
        pass


def _remove_cgroup(cgroup: str) -> None:
    try:
        posix.rmdir(cgroup)
        posix.rmdir(cgroup.rpartition("/")[0])
    except OSError:
        pass  # not there, or others' are beside it
