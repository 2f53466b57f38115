"""The plugin's life between connections: connect again after a while, notify systemd, end on request."""

import time
from _signal import SIGINT, SIGTERM, signal

from .connection import ClosedError, Connection
from .gap import Gap
from .protobuf import WireError
from .service import RegistrationError, ResubscribeError, Service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.host.notify import Notify
    from .plugin import NodePlugin
    from .workers import Workers

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0  # seconds until the next attempt to connect; each is twice the one before
_LASTED = 10.0  # a connection of this duration resets the pauses


class Resident:
    """Serves ``plugin`` on the runtime's socket at ``path`` until SIGTERM or SIGINT."""

    def __init__(self, path: str, plugin: "NodePlugin", notify: "Notify") -> None:
        self._path = path
        self._plugin = plugin
        self._notify = notify
        self._ended = False
        self._ready = False
        self._connection: "Connection | None" = None
        self._gap = Gap(plugin.adopt)

    def close(self) -> None:
        """Close descriptors that a child must not hold: the runtime sees a connection's end when all are closed."""
        if self._connection is not None:
            self._connection.close()

    def run(self, workers: "Workers") -> None:
        """Connect, serve, and connect again."""
        for number in (SIGTERM, SIGINT):
            signal(number, self._end)
        pause = FIRST_PAUSE
        while not self._ended:
            begun = time.monotonic()
            why = self._serve(workers)
            if not why:
                continue
            self._plugin.dropped(why)
            if not self._ready:
                self._ready = True  # also ready while the runtime is not there yet
                self._notify(READY="1")
            if time.monotonic() - begun > _LASTED:
                pause = FIRST_PAUSE
            self._wait(pause, workers)
            pause = min(pause * 2, LONGEST_PAUSE)
        self._notify(STOPPING="1")

    def _serve(self, workers: "Workers") -> str:
        """Serve one connection to its end, and return why it ended; empty for one that is to follow at once."""
        try:
            self._connection = Connection(self._path)
        except OSError as error:
            return f"{self._path}: {error.strerror or error}"
        try:
            service = Service(self._connection, self._plugin, workers, self._notify, self._gap)
            service.run(lambda: self._ended)
        except (ClosedError, WireError) as error:
            return str(error)
        except RegistrationError as error:
            return f"the runtime rejected this plugin: {error}"
        except ResubscribeError:
            return ""
        finally:
            self._connection.close()
            self._connection = None
        return "shutting down"

    def _wait(self, seconds: float, workers: "Workers") -> None:
        """Supervise children, and notify the watchdog, while there is no connection."""
        until = time.monotonic() + seconds
        while not self._ended and (left := until - time.monotonic()) > 0:
            workers.wait(min(left, self._notify.alive()))
            self._gap.serve(workers)

    def _end(self, *_: object) -> None:
        self._ended = True
