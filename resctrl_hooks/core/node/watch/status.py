"""The exec watcher's status: a file in the state directory, read by `doctor` and the metrics."""

import posix
import time

from ..host.files import format_json, write_file
from ..host.state_file import read_state
from ..log import silent
from ..retried import status_writes
from ..shapes import Count, Number, Text, TypedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..log import LogCallable

NAME = "exec.json"
EVENTS, SAMPLING, OFF = "events", "sampling", "off"
_OFTEN = 5.0  # seconds: figures are written no more often


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


class Status:
    """The file's content. ``mode`` is how execs are found: by ``events``, by ``sampling``, or not at all (``off``)."""

    def __init__(self, folder: str, log: "LogCallable" = silent) -> None:
        self._path = f"{folder}/{NAME}"
        self._writes = status_writes(log, "exec", self._path)
        self._written = 0.0
        self._was = b""
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

    def write_sometimes(self) -> None:
        """Write the file if that was long ago."""
        if time.monotonic() - self._written > _OFTEN:
            self.write()

    def write(self) -> None:
        """Write the file if anything has changed. An error is logged once: the watcher continues without figures."""
        self._written = time.monotonic()
        data = format_json(self.values)
        if data == self._was:
            return
        if self._writes.attempt(lambda: write_file(self._path, data, 0o600)):
            self._was = data


def read_status(folder: str) -> "WatchRecord | None":
    """Return the watcher's last status; None if it has not run since the boot, or the file is damaged."""
    return read_state(f"{folder}/{NAME}", WatchRecord)
