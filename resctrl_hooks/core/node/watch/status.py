"""The exec watcher's status: a file in the state directory, read by `doctor` and the metrics."""

import posix
import time

from ..host.state_file import read_state
from ..log import silent
from ..retried import StatusFile
from ..shapes import Count, Number, Text, TypedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..log import LogCallable

NAME = "exec.json"
EVENTS, SAMPLING, OFF = "events", "sampling", "off"
OFTEN = 5.0
"""Seconds: figures are written no more often."""
_COUNTS = ("events", "moved", "threads", "gone", "left", "failed", "overruns", "degraded", "samples", "sampled")


class WatchRecord(TypedDict, total=False):
    """A `Status`; times in seconds since 1970."""

    pid: Count
    started: Number
    mode: Text
    why: Text
    events: Count
    moved: Count
    threads: Count
    gone: Count
    left: Count
    failed: Count
    overruns: Count
    degraded: Count
    samples: Count
    sampled: Count


class Status(StatusFile):
    """The file. ``mode`` is how execs are found: by ``events``, by ``sampling``, or not at all (``off``)."""

    def __init__(self, folder: str, log: "LogCallable" = silent) -> None:
        super().__init__(f"{folder}/{NAME}", "exec", log)
        fresh: "Any" = {
            "pid": posix.getpid(),
            "started": time.time(),
            "mode": OFF,
            "why": "",
            **dict.fromkeys(_COUNTS, 0),
        }
        self.values: "WatchRecord" = fresh

    def become(self, mode: str, why: str = "") -> None:
        """Record how execs are found from now on, and why not by events."""
        if (mode, why) != (self.values["mode"], self.values["why"]):
            self.values["mode"], self.values["why"] = mode, why
            self.write()


def read_status(folder: str) -> "WatchRecord | None":
    """Return the watcher's last status; None if it has not run since the boot, or the file is damaged."""
    return read_state(f"{folder}/{NAME}", WatchRecord)
