"""The plugin's status: a file in the state directory, read by `doctor` and the metrics."""

import posix
import time

from ..node.host.files import format_json, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..node.records import NriRecord

NAME = "nri.json"
_OFTEN = 1.0  # seconds: figures are written no more often


class Status:
    """The file's content. ``events`` has by name how many were served, in how many seconds, and how many failed."""

    def __init__(self, folder: str, socket: str) -> None:
        self._path = f"{folder}/{NAME}"
        self._written = 0.0
        self.values: "NriRecord" = {
            "pid": posix.getpid(),
            "socket": socket,
            "started": time.time(),
            "connected": False,
            "connections": 0,
            "drops": 0,
            "events": {},
        }

    def connected(self, runtime: str, version: str) -> None:
        """Record a connection to a runtime."""
        now = time.time()
        self.values.update({"connected": True, "since": now, "runtime": runtime, "version": version})
        self.values["connections"] += 1
        self.write()

    def dropped(self, why: str) -> None:
        """Record that a connection has ended or failed."""
        if self.values["connected"]:
            self.values.update({"connected": False, "dropped": time.time()})
            self.values["drops"] += 1
        self.values["why"] = why
        self.write()

    def served(self, event: str, seconds: float, *, failed: bool) -> None:
        """Count an event."""
        kept = self.values["events"].setdefault(event, {"count": 0, "seconds": 0.0, "failed": 0})
        kept["count"] += 1
        kept["seconds"] += seconds
        kept["failed"] += failed
        if time.monotonic() - self._written > _OFTEN:
            self.write()

    def write(self) -> None:
        """Write the file; errors are ignored."""
        self._written = time.monotonic()
        try:
            write_file(self._path, format_json(self.values), 0o600)
        except OSError:
            pass
