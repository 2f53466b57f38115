"""Supervision without systemd: a small process starts a container's memtierd and stays with it.

It shares nothing with the hook: it has its own session and cgroup, and neither the runtime's pipes nor our locks. It
bounds memtierd's output and ends it after the container's init process; `processes` has the functions for other
processes.
"""

import posix
import time
from _signal import SIG_IGN, SIGKILL, SIGTERM, signal

from ...host.files import list_folder, read_beginning
from ...host.procfs import lives
from ...host.programs import spawn
from .processes import SupervisorError, end, record, try_write
from .run_dir import OUTPUT, PID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

    from .run_dir import Opened

OLD_OUTPUT = OUTPUT + ".old"
ENDED = "resctrl-hook: memtierd ended with"
_OUTPUT_LIMIT = 1 << 20
_CHECK_EVERY = 2.0  # seconds between checks of the container
_NAP = 0.01
_REPORT_LIMIT = 4000


class Supervised:
    """The supervisor's data: the command, the container's init process, and its cgroup."""

    __slots__ = ("cgroup", "command", "pid", "proc", "start")

    def __init__(self, command: "list[str]", cgroup: str, proc: str, pid: int, start: int) -> None:
        self.command = command
        self.cgroup = cgroup
        self.proc = proc
        self.pid = pid
        self.start = start


def start(supervised: Supervised, folder: "Opened") -> None:
    """Start memtierd and its supervisor, detached, and return once memtierd is executed.

    Raises:
        SupervisorError: it failed.
    """
    ours, theirs = posix.pipe()
    try:
        child = posix.fork()
        if child == 0:
            _detach(supervised, folder, theirs)
        posix.close(theirs)
        theirs = -1
        posix.waitpid(child, 0)
        report = read_beginning(ours, _REPORT_LIMIT)
    finally:
        posix.close(ours)
        if theirs >= 0:
            posix.close(theirs)
    if report != b"started":
        raise SupervisorError(f"cannot start memtierd: {report.decode('utf-8', 'replace') or 'its supervisor died'}")


def _detach(supervised: Supervised, folder: "Opened", report: int) -> None:
    """Fork the supervisor in the child, as a child of init, and exit. Never returns."""
    code = 1
    try:
        if posix.fork() == 0:
            try:
                _keep(supervised, folder, report)
            except BaseException as error:  # noqa: BLE001  # nothing may ever return into the hook's own code
                posix.write(report, str(error).encode()[:_REPORT_LIMIT])
        code = 0
    finally:
        posix._exit(code)  # noqa: SLF001  # it is public in os, which costs too much to import


def _keep(supervised: Supervised, folder: "Opened", report: int) -> None:
    posix.setsid()  # leads a process group, by which memtierd and its children are found
    signal(SIGTERM, SIG_IGN)  # a signal for memtierd, whose end also ends this process
    posix.umask(0o077)
    posix.chdir("/")
    _leave_everything({folder.fd, report})
    _move_to(supervised.cgroup)
    try_write("/proc/self/oom_score_adj", "0")  # protects against the OOM killer, as the runtime's own processes are
    record(folder, [])
    import _socket  # the read has a time limit

    ours, theirs = _socket.socketpair()
    child = spawn(supervised.command, theirs.fileno(), leader=False)
    try:
        theirs.close()
        record(folder, [child])
        folder.write(PID, f"{child}\n".encode())
        posix.write(report, b"started")
    except BaseException:  # already ended, and its folder removed
        posix.kill(child, SIGKILL)
        raise
    posix.close(report)
    _attend(supervised, folder, child, ours)


def _attend(supervised: Supervised, folder: "Opened", child: int, output: "socket") -> None:
    """Record memtierd's output until it ends, and end it after the container."""
    output.settimeout(_CHECK_EVERY)
    next_check = time.monotonic() + _CHECK_EVERY
    while True:
        try:
            chunk = output.recv(1 << 16)
            if chunk:
                _append(folder, chunk)
            else:
                time.sleep(_NAP)  # closed: it is about to end
        except OSError:
            chunk = b""  # no output for a while
        due = time.monotonic() >= next_check
        if due or not chunk:
            ended, status = posix.waitpid(child, posix.WNOHANG)
            if ended:
                break
        if due:
            next_check = time.monotonic() + _CHECK_EVERY
            if not lives(supervised.proc, supervised.pid, supervised.start):
                end(folder, supervised.cgroup)
    code = posix.waitstatus_to_exitcode(status)
    _append(folder, f"{ENDED} {code}\n".encode())


def _leave_everything(but: "set[int]") -> None:
    """Close all descriptors: our locks, which must not depend on this process, and the runtime's pipes."""
    nothing = posix.open("/dev/null", posix.O_RDWR)
    for fd in (0, 1, 2):
        posix.dup2(nothing, fd)
    for name in list_folder("/proc/self/fd"):
        if int(name) > 2 and int(name) not in but:  # noqa: PLR2004  # the standard streams
            try:
                posix.close(int(name))
            except OSError:
                continue  # the listing's own descriptor


def _move_to(cgroup: str) -> None:
    """Move from the runtime's cgroup to a separate one, or to the root if that is impossible."""
    root = cgroup.rpartition("/")[0].rpartition("/")[0]
    for path in (cgroup.rpartition("/")[0], cgroup):
        try:
            posix.mkdir(path, 0o755)
        except OSError:
            continue  # it exists, or the next call fails too
    if not try_write(f"{cgroup}/cgroup.procs", "0"):
        try_write(f"{root}/cgroup.procs", "0")


def _append(folder: "Opened", data: bytes) -> None:
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW
    try:
        fd = posix.open(OUTPUT, flags, 0o600, dir_fd=folder.fd)
        try:
            posix.write(fd, data)
            if posix.fstat(fd).st_size > _OUTPUT_LIMIT:
                posix.rename(OUTPUT, OLD_OUTPUT, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
        finally:
            posix.close(fd)
    except OSError:
        pass  # the folder is removed or its file system full: memtierd continues
