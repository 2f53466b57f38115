"""The last verdicts for people, metrics, Kubernetes Events and the guard: a file in the state directory."""

import time

from ....core.node.host.files import remove_file, stamp
from ....core.node.host.state_file import read_state
from ....core.node.log import silent
from ....core.node.names import SLOWDOWN_STATUS
from ....core.node.retried import StatusFile
from ..guard.sufferers import SlowdownRecord
from .causes.cause import SUPPORTED
from .constants import WINDOW
from .lost import UNEXPLAINED, LostTime
from .verdict import SLOWED_WORD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ....core.node.context import Context
    from ....core.node.log import LogCallable
    from .causes.cause import Cause
    from .evidence.window import Window
    from .live import Finding
    from .lost import Names

_LIMIT = 1 << 24
_FRESH = 3 * WINDOW  # seconds; a loaded node may be late by two windows
_written: "dict[str, tuple[object, Any]]" = {}
"""By path, the state of the file after this process wrote it, and its content, which its history need not parse."""


class Status:
    """The file's content. Of ended pods nothing stays, so the file is as large as the node's pods."""

    def __init__(self, path: str, log: "LogCallable" = silent, names: "Names" = lambda key: ("", key, "")) -> None:
        self._path = path
        self._lost = LostTime(names)
        self._file = StatusFile(path, "slowdown", log)
        self._seconds: "dict[str, dict[str, float]]" = {}
        self._counted: "dict[str, dict[str, list[float]]]" = {}
        self._records: "dict[str, tuple[Finding, dict[str, Any]]]" = {}

    def saw(self, window: "Window", findings: "Mapping[str, Finding]") -> None:
        """Add a window to the pods' sums: cycles and work by grade, slowed and lost seconds by cause."""
        self._lost.keep(window.uses)
        self._seconds = {key: found for key, found in self._seconds.items() if key in window.uses}
        self._counted = {key: found for key, found in self._counted.items() if key in window.uses}
        for key, use in window.uses.items():
            if use.cycles and use.work:
                sums = self._counted.setdefault(key, {}).setdefault(use.method, [0.0, 0.0])
                sums[0] += use.cycles
                sums[1] += use.work
        for key, found in findings.items():
            if found.verdict.verdict == SLOWED_WORD:
                of_pod = self._seconds.setdefault(key, {})
                for cause in [one.cause for one in supported(found.causes)] or [UNEXPLAINED]:
                    of_pod[cause] = of_pod.get(cause, 0.0) + window.seconds
                self._lost.add(key, window.seconds, window.uses[key].cpu, found.verdict, found.causes)

    def write(self, findings: "Mapping[str, Finding]", pressed: "Mapping[str, Any]") -> None:
        """Write the file; ``pressed`` has the pods that memory bandwidth slows now, as the guard reads it."""
        known, self._records = self._records, {}
        for key, found in findings.items():
            before = known.get(key)
            is_same = before is not None and before[0] is found  # a slowed pod that was not judged again
            self._records[key] = before if before and is_same else (found, record_of(found))
        pods = {
            key: {
                **record,
                "slowedSeconds": self._seconds.get(key, {}),
                "lostSeconds": self._lost.by_cause(key),
                "lost": self._lost.of(key),
                "counted": self._counted.get(key, {}),
            }
            for key, (_, record) in self._records.items()
        }
        times = {"time": time.time(), "uptime": time.monotonic()}
        self._file.values = {**times, "pods": pods, "pressed": pressed, "lost": self._lost.by_namespace()}
        self._file.write()
        _written[self._path] = stamp(self._path), self._file.values

    def remove(self) -> None:
        """Remove the file: it is not updated any more."""
        _written.pop(self._path, None)
        try:
            remove_file(self._path)
        except OSError:
            pass


def supported(causes: "Iterable[Cause]") -> "list[Cause]":
    """Return the causes with evidence."""
    return [one for one in causes if one.state == SUPPORTED]


def record_of(found: "Finding") -> "dict[str, Any]":
    """Return a finding as the file has it."""
    verdict = found.verdict
    return {
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "ratio": verdict.ratio,
        "ratioLow": verdict.low,
        "ratioHigh": verdict.high,
        "method": verdict.method,
        "samples": verdict.samples,
        "baselineSamples": verdict.baseline_samples,
        "baselineSeconds": found.until,
        "waits": verdict.waiting.stretch,
        "causes": [
            {
                "cause": one.cause,
                "state": one.state,
                "text": one.text,
                "pods": [pod._asdict() for pod in one.pods],
                "factor": one.factor,
                "answer": one.answer,
                "values": dict(one.values),
            }
            for one in found.causes
        ],
        "domain": found.domain,
        "load": found.load,
        "capacityBytesPerSecond": found.capacity.rate if found.capacity else None,
        "capacitySource": found.capacity.source if found.capacity else None,
    }


def read_status(context: "Context") -> "dict[str, Any] | None":
    """Return the content of the file; None if no process updates it, or if it is unusable.

    A pod of the node reads it without seeing the process, so the file's age decides. Both count the same clock.
    """
    path = f"{context.settings.state_dir}/{SLOWDOWN_STATUS}"
    state, known = _written.get(path, (None, None))
    record: "Any" = known if known and state == stamp(path) else read_state(path, SlowdownRecord, _LIMIT)
    if not record or "uptime" not in record or "pods" not in record:
        return None
    return record if 0 <= time.monotonic() - record["uptime"] <= _FRESH else None
