"""Execution of other programs from a hook: at fixed paths, without a shell, bounded in time and output.

The subprocess module would take longer to import than the hook runs.
"""

import errno
import posix
import time

from ..errors import HookError
from .files import S_IFMT, S_IFREG, is_roots_alone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Any

SYSTEM_FOLDERS = ("/usr/bin", "/bin")
ALL_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
ENVIRONMENT = {"PATH": ":".join(ALL_FOLDERS), "LC_ALL": "C"}
_OUTPUT_LIMIT = 1 << 16
_LONGEST_NAP = 0.01
_EXECUTABLE = 0o111
_KILL = 9


class ProgramError(HookError):
    """A program is missing, not trustworthy, or takes too long."""

    reason = "program"


def find_program(name: str, folders: "tuple[str, ...]" = SYSTEM_FOLDERS) -> str:
    """Return the path of a program: ``name`` itself if absolute, else the first match in the folders.

    It runs as root, so only root may be able to write it.

    Raises:
        ProgramError: it is missing or not trustworthy.
    """
    places = (name,) if name.startswith("/") else tuple(f"{folder}/{name}" for folder in folders)
    for path in places:
        try:
            found = posix.stat(path)
        except OSError:
            continue
        if found.st_mode & S_IFMT != S_IFREG or not found.st_mode & _EXECUTABLE:
            continue
        if not is_roots_alone(found):
            raise ProgramError(f"users other than root can write to {path}", hint="run chown root and chmod go-w on it")
        return path
    raise ProgramError(f"cannot find the program {name}" + ("" if name[:1] == "/" else f" in {', '.join(folders)}"))


def run(arguments: "list[str]", seconds: float) -> "tuple[int, str]":
    """Run a program (an absolute path first) and return its exit code and output, including stderr.

    Raises:
        ProgramError: it did not start, or was killed at the timeout.
    """
    import _socket  # a socket is a pipe with a read timeout; select would be another import

    end = time.monotonic() + seconds
    ours, theirs = _socket.socketpair()
    try:
        child = spawn(arguments, theirs.fileno(), leader=True)
        theirs.close()
        try:
            output = _read(ours, end)
            code = _wait(child, end)
        except BaseException:  # includes the hook's own deadline: the program must not stay
            posix.kill(-child, _KILL)
            posix.waitpid(child, 0)
            raise
    except (TimeoutError, _socket.timeout) as error:  # two types before Python 3.10
        raise ProgramError(f"{arguments[0]} did not exit within {seconds:g} s", errno=errno.ETIMEDOUT) from error
    except OSError as error:
        raise ProgramError.of_file(error, arguments[0], "run") from error
    finally:
        ours.close()
        theirs.close()
    return code, output.decode("utf-8", "replace").strip()


def spawn(arguments: "list[str]", output: int, *, leader: bool) -> int:
    """Start a program with an empty stdin and ``output`` as stdout and stderr; return its pid.

    A ``leader`` has a process group of its own.

    Raises:
        OSError: it cannot be executed.
    """
    actions = [
        (posix.POSIX_SPAWN_OPEN, 0, "/dev/null", posix.O_RDONLY, 0),
        (posix.POSIX_SPAWN_DUP2, output, 1),
        (posix.POSIX_SPAWN_DUP2, output, 2),
    ]
    options: "dict[str, Any]" = {"setpgroup": 0} if leader else {}
    # Python ignores SIGPIPE (13) and SIGXFSZ (25), and the supervisor SIGTERM (15); a program would inherit that.
    options.update(file_actions=actions, setsigmask=(), setsigdef=(13, 15, 25))
    return posix.posix_spawn(arguments[0], arguments, ENVIRONMENT, **options)


def _read(ours: "socket", end: float) -> bytes:
    data = b""
    while True:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        ours.settimeout(left)
        chunk = ours.recv(1 << 14)
        if not chunk:
            return data
        data = (data + chunk)[-_OUTPUT_LIMIT:]


def _wait(child: int, end: float) -> int:
    nap = 0.0005
    while True:
        pid, status = posix.waitpid(child, posix.WNOHANG)
        if pid:
            return posix.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            raise TimeoutError
        time.sleep(nap)
        nap = min(nap * 2, _LONGEST_NAP)
