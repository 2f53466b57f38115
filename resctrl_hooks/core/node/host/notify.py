"""Notifications to systemd: ready, status, watchdog. Source: sd_notify(3)."""

import posix
import time

_MICROSECONDS = 1_000_000


class Notify:
    """The socket from systemd; without one, all methods do nothing."""

    def __init__(self) -> None:
        self._address = posix.environ.get(b"NOTIFY_SOCKET", b"")
        own = posix.environ.get(b"WATCHDOG_PID", b"") in (b"", str(posix.getpid()).encode())
        period = posix.environ.get(b"WATCHDOG_USEC", b"") if own else b""
        self.interval = int(period) / _MICROSECONDS / 2 if period.isdigit() else float("inf")
        self._next = 0.0

    def __call__(self, **fields: str) -> None:
        """Send assignments: ``READY="1"``, ``STATUS="…"``."""
        if not self._address:
            return
        import _socket

        address = b"\0" + self._address[1:] if self._address[:1] == b"@" else self._address
        lines = "\n".join(f"{name}={value}" for name, value in fields.items())
        sender = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
        try:
            sender.setblocking(False)  # noqa: FBT003  # the C function takes no names
            sender.sendto(lines.encode(), address)
        except OSError:
            pass  # systemd reports that itself
        finally:
            sender.close()

    def alive(self) -> float:
        """Notify the watchdog if due; return the seconds until the next notification."""
        now = time.monotonic()
        if now >= self._next and self._address and self.interval < float("inf"):
            self(WATCHDOG="1")
            self._next = now + self.interval
        return max(0.0, self._next - now) if self._next else self.interval
