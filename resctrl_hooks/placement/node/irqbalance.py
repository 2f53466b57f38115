"""The daemon irqbalance: which CPUs it may not use for interrupts. Source: irqbalance(1), SOCKET API.

Without these commands it would move interrupts back to exclusive CPUs within seconds.
"""

import errno as _errno
import posix
import sys

from ...core.node.host.cpulist import format_list, parse_list, parse_mask
from ...core.node.host.files import list_folder

_PREFIX, _SUFFIX = "irqbalance", ".sock"
_SECONDS = 0.5  # it answers between two passes, which take some milliseconds
_LONGEST = 1 << 14
NONE = "none"
"""No banned CPU, in place of an empty list."""
UNKNOWN = "unknown"
"""No answer in time, or one that is not understood, of an irqbalance that may run."""
_MASK = "BANNED "
_FORGET = "NULL"  # instead of a list: its own choice, by its environment and the kernel's isolated CPUs
_SCM_CREDENTIALS = 2  # unix(7); the socket module lacks it before Python 3.11


def banned(folder: str) -> str:
    """Return the CPUs that irqbalance does not use, `NONE` for no CPU, or `UNKNOWN`; empty if no irqbalance runs."""
    found = ""
    for path in _sockets(folder):
        try:
            answer = _ask(path, "setup")
            return format_list(parse_mask(answer.rpartition(_MASK)[2])) or NONE
        except (FileNotFoundError, ConnectionRefusedError):
            continue  # the socket of one that was killed
        except (OSError, ValueError):
            found = UNKNOWN
    return found


def ban(folder: str, cpus: str) -> str:
    """Replace the CPUs that irqbalance does not use; return the error's name if that fails."""
    if cpus != NONE:
        parse_list(cpus)
    for path in _sockets(folder):
        try:
            _ask(path, f"settings cpus {_FORGET if cpus == NONE else cpus}")
        except ConnectionRefusedError:
            continue
        except OSError as error:
            return _errno.errorcode.get(error.errno or 0, "ETIMEDOUT")
    return ""


def _sockets(folder: str) -> "list[str]":
    names = [name for name in list_folder(folder) if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
    return [f"{folder}/{name}" for name in sorted(names)]


def _ask(path: str, command: str) -> str:
    """Send one command with this process's credentials, and return the answer until the daemon closes."""
    import _socket  # few nodes have irqbalance

    identity = (posix.getpid(), posix.geteuid(), posix.getegid())
    credentials = b"".join(number.to_bytes(4, sys.byteorder) for number in identity)
    client = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        client.settimeout(_SECONDS)
        client.connect(path)
        client.sendmsg([command.encode() + b"\0"], [(_socket.SOL_SOCKET, _SCM_CREDENTIALS, credentials)])
        answer = b""
        while len(answer) < _LONGEST:
            more = client.recv(_LONGEST)
            if not more:
                break
            answer += more
        return answer.rstrip(b"\0").decode("ascii", "replace")
    finally:
        client.close()
