"""The node half's log: structured lines to journald, else to syslog or a file, and problems in one line on stderr.

Sending never waits: a stuck journald must not delay a container. Sources: systemd, "Native Journal Protocol"; RFC 3164
for /dev/log.
"""

import posix

from .names import IDENTIFIER, clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class LogCallable(Protocol):
        """The log function of a `Monitor`: a syslog priority, a message, and fields."""

        def __call__(self, priority: int, message: str, **fields: "str | int") -> None:
            """Log one event."""


ERROR, WARNING, NOTICE, INFO, DEBUG = 3, 4, 5, 6, 7  # syslog(3)
_LEVELS = {"error": ERROR, "warning": WARNING, "notice": NOTICE, "info": INFO, "debug": DEBUG}
DEFAULTS: "dict[str, Any]" = {
    "target": "auto",
    "level": "info",
    "journalSocket": "/run/systemd/journal/socket",
    "syslogSocket": "/dev/log",
}


class Log:
    """Log as configured in the ``log`` section: ``target`` (auto, journal, syslog, file, none), ``level``, paths.

    ``auto``, the default, uses the first existing one of the journal's socket, the syslog socket, and ``file`` if
    configured.
    """

    def __init__(self, section: "dict[str, Any] | None" = None, *, stderr: bool = True) -> None:
        given = {**DEFAULTS, **(section or {})}
        self._target: str = given["target"]
        self._level = _LEVELS.get(given["level"], INFO)
        self._file: str = given.get("file", "")
        self._sockets = {"journal": given["journalSocket"], "syslog": given["syslogSocket"]}
        self._stderr = stderr

    def __call__(self, priority: int, message: str, **fields: "str | int") -> None:
        """Log one event. journald's fields get the prefix RESCTRL_ and upper-case names."""
        if priority <= WARNING and self._stderr:
            try:
                posix.write(2, f"{IDENTIFIER}: {clean(message)}\n".encode("utf-8", "backslashreplace"))
            except OSError:
                pass  # stderr is closed; crun provides none
        if priority > self._level or self._target == "none":
            return
        if self._target in ("auto", "journal") and self._send("journal", _native(priority, message, fields)):
            return
        from .plain_log import append, syslog_line  # most nodes have journald

        if self._target in ("auto", "syslog") and self._send("syslog", syslog_line(priority, message, fields)):
            return
        if self._target in ("auto", "file") and self._file:
            append(self._file, syslog_line(priority, message, fields) + b"\n")

    def _send(self, name: str, datagram: bytes) -> bool:
        import _socket  # imported only by a hook that logs

        try:
            sender = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
            try:
                sender.setblocking(False)  # noqa: FBT003  # the C function takes no names
                sender.connect(self._sockets[name])
                sender.send(datagram)
            finally:
                sender.close()
        except BlockingIOError:
            return True  # the daemon is too slow: lose this line rather than the container's time
        except (OSError, ValueError, TypeError):
            return False  # no daemon, or the path is not a socket
        return True


def _native(priority: int, message: str, fields: "dict[str, str | int]") -> bytes:
    lines = [f"MESSAGE={clean(message)}", f"PRIORITY={priority}", f"SYSLOG_IDENTIFIER={IDENTIFIER}"]
    lines += [f"RESCTRL_{name.upper()}={clean(value)}" for name, value in fields.items()]
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def silent(priority: int, message: str, **fields: "str | int") -> None:
    """Log nothing, for programs without a log."""
