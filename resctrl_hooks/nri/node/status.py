"""The plugin's status: a file in the state directory, read by `doctor` and the metrics."""

import posix
import time

from ...core.node.host.state_file import read_state
from ...core.node.log import silent
from ...core.node.retried import StatusFile
from ...core.node.shapes import Count, Flag, NotRequired, Number, Text, TypedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.log import LogCallable

NAME = "nri.json"
BOUNDS = (0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 2.0)
"""Upper bounds in seconds of an event's histogram; the runtime's timeout is 2 s by default."""
_OFTEN = 1.0  # seconds: figures are written no more often


class EventRecord(TypedDict):
    """Events of one name; ``buckets`` by `BOUNDS`, the last without one."""

    count: Count
    seconds: Number
    failed: Count
    buckets: NotRequired[list[Count]]


class NriRecord(TypedDict, total=False):
    """A `Status`; times in seconds since 1970."""

    pid: Count
    socket: Text
    started: Number
    starts: Count
    connected: Flag
    connections: Count
    drops: Count
    events: dict[Text, EventRecord]
    since: Number
    runtime: Text
    version: Text
    dropped: Number
    why: Text


class Status(StatusFile):
    """The file. ``events`` has by name how many needed work, their histogram, and how many failed."""

    def __init__(self, folder: str, socket: str, log: "LogCallable" = silent) -> None:
        super().__init__(f"{folder}/{NAME}", "nri", log)
        self.values: "NriRecord" = {
            "pid": posix.getpid(),
            "socket": socket,
            "started": time.time(),
            "starts": (read_status(folder) or {}).get("starts", 0) + 1,
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
        """Count an event; ``seconds`` until its work was done."""
        row = self.values["events"].setdefault(
            event, {"count": 0, "seconds": 0.0, "failed": 0, "buckets": [0] * (len(BOUNDS) + 1)}
        )
        row["count"] += 1
        row["seconds"] += seconds
        row["failed"] += failed
        row["buckets"][sum(bound < seconds for bound in BOUNDS)] += 1
        self.write_sometimes(_OFTEN)


def read_status(folder: str) -> "NriRecord | None":
    """Return the plugin's last status; None if it has not run since the boot, or the file is damaged."""
    return read_state(f"{folder}/{NAME}", NriRecord)
