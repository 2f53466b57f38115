"""The log as plain lines: for syslog, for a file, and on stderr for people. journald gets fields: `log`."""

import posix
import sys

from .names import IDENTIFIER, clean

_DAEMON, _NOTICE = 3 << 3, 5  # syslog(3)
_LARGEST_FILE = 8 << 20


def syslog_line(priority: int, message: str, fields: "dict[str, str | int]") -> bytes:
    """Return a line for /dev/log."""
    details = "".join(f" {name}={clean(value)}" for name, value in fields.items())
    text = f"<{_DAEMON | priority}>{IDENTIFIER}[{posix.getpid()}]: {clean(message)}{details}"
    return text.encode("utf-8", "backslashreplace")


def append(path: str, line: bytes) -> None:
    """Append a line to a log file, which is emptied at a limit."""
    flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_NONBLOCK
    try:
        fd = posix.open(path, flags, 0o600)
        try:
            if posix.fstat(fd).st_size > _LARGEST_FILE:
                posix.ftruncate(fd, 0)
            posix.write(fd, line)
        finally:
            posix.close(fd)
    except (OSError, ValueError):
        pass  # an unwritable log must not fail a container


def to_stderr(priority: int, message: str, **fields: "str | int") -> None:
    """Log important events on stderr, for people at a terminal."""
    if priority <= _NOTICE:
        details = "".join(f" {name}={clean(value)}" for name, value in fields.items())
        print(f"{IDENTIFIER}: {clean(message)}{details}", file=sys.stderr)  # noqa: T201  # what it is for
