"""Call metrics: number, duration and failures of hook and reconcile calls, from the lines that the calls append.

A call appends one line to ``calls`` (`Ledger.count_call`), which costs little. Readers add the lines up; many lines are
folded into ``tally``, after a rename, so that a hook that opened the file earlier has written its line.
"""

import errno
import posix

from .errors import LedgerError
from .host.files import format_json, read_file, remove_file, write_file
from .host.state_file import parse
from .ledger import CALLS
from .shapes import Annotated, Count, NotRequired, Number, Text, TypedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .ledger import Ledger

FILE = "tally"
OLD = f"{CALLS}.old"
LOCK = "tally"
# Upper bounds in seconds. A successful call takes one or two milliseconds plus the interpreter's start; one that waits
# for a lock or reclaims memory takes longer, up to the deadline.
BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
OK = "-"
_FORMAT = 1
_LIMIT = 4 << 20
_FOLD_FROM = 1 << 16
_FIELDS = 5
_PATIENCE = 1.0
_LAST_FAILURES = 200


class StageRecord(TypedDict, total=False):
    """A `Stage`."""

    runs: Count
    seconds: Number
    last: Annotated[int, Number]
    failures: dict[Text, Count]
    buckets: list[Count]


class CallMetricsRecord(TypedDict):
    """`CallMetrics`, and which lines are in them."""

    format: NotRequired[Count]
    stages: dict[Text, StageRecord]
    last: NotRequired[list[tuple[Count, Text, Text, Text]]]
    folded: NotRequired[Text]


class Stage:
    """One stage's figures: calls, failures by reason, durations as a histogram (the last bucket has no bound)."""

    __slots__ = ("buckets", "failures", "last", "runs", "seconds")

    def __init__(self, record: "StageRecord | None" = None) -> None:
        record = record or {}
        self.runs: int = record.get("runs", 0)
        self.seconds: float = record.get("seconds", 0.0)
        self.last: int = record.get("last", 0)
        self.failures: "dict[str, int]" = record.get("failures", {})
        buckets = record.get("buckets", [])
        self.buckets: "list[int]" = buckets if len(buckets) == len(BOUNDS) + 1 else [0] * (len(BOUNDS) + 1)

    def add(self, when: int, seconds: float, reasons: "list[str]") -> None:
        """Count one call."""
        self.runs += 1
        self.seconds += seconds
        self.last = when  # calls are appended in order, so this is also correct after a clock change
        self.buckets[sum(bound < seconds for bound in BOUNDS)] += 1
        for reason in reasons:
            self.failures[reason] = self.failures.get(reason, 0) + 1


class CallMetrics:
    """All metrics: ``stages`` by name, and the last ``failures`` as (when, stage, reasons, key)."""

    def __init__(self, record: "CallMetricsRecord | None" = None) -> None:
        record = record or {"stages": {}}
        self.stages = {name: Stage(stage) for name, stage in record.get("stages", {}).items()}
        self.failures = [(when, stage, reasons, key) for when, stage, reasons, key in record.get("last", [])]

    def stage(self, name: str) -> Stage:
        """Return a stage's metrics; all zero for an unused stage."""
        return self.stages.setdefault(name, Stage())

    def add_lines(self, data: bytes) -> None:
        """Count the calls of these lines; incomplete lines are skipped."""
        for line in data.decode("ascii", "replace").splitlines():
            fields = line.split(" ")
            if len(fields) != _FIELDS or not (fields[0].isdecimal() and fields[2].isdecimal()):
                continue
            when, stage, usec, reasons, key = int(fields[0]), fields[1], int(fields[2]), fields[3], fields[4]
            why = [] if reasons == OK else reasons.split(",")
            self.stage(stage).add(when, usec / 1e6, why)
            if why:
                self.failures.append((when, stage, reasons, "" if key == OK else key))
        del self.failures[:-_LAST_FAILURES]

    def as_record(self, folded: str) -> "CallMetricsRecord":
        """Return the values for the file, with the identity of the lines that they include."""
        stages: "Any" = {
            name: {field: getattr(stage, field) for field in Stage.__slots__} for name, stage in self.stages.items()
        }
        return {"format": _FORMAT, "stages": stages, "last": self.failures, "folded": folded}


def read(ledger: "Ledger") -> CallMetrics:
    """Return the current metrics.

    Raises:
        LedgerError: the state directory is unusable.
    """
    with ledger.lock_named(LOCK, _PATIENCE, reads=True):
        metrics, folded = _stored(ledger)
        old, identity = _lines(ledger, OLD)
        if identity != folded:
            metrics.add_lines(old)
        metrics.add_lines(_lines(ledger, CALLS)[0])
    return metrics


def fold(ledger: "Ledger", patience: float = _PATIENCE) -> None:
    """Add the lines up on disk if there are many; for reconcile and every exporter.

    Raises:
        LedgerError: the state directory is unusable, or another process folds for longer than ``patience``.
    """
    calls = f"{ledger.folder}/{CALLS}"
    try:
        if posix.stat(calls).st_size < _FOLD_FROM:
            return
    except OSError:
        return
    with ledger.lock_named(LOCK, patience):
        metrics, folded = _stored(ledger)
        old, identity = _lines(ledger, OLD)
        try:
            if identity and identity != folded:
                metrics.add_lines(old)
                write_file(f"{ledger.folder}/{FILE}", format_json(metrics.as_record(identity)))
            remove_file(f"{ledger.folder}/{OLD}")
            posix.rename(calls, f"{ledger.folder}/{OLD}")
        except OSError as error:
            if error.errno == errno.EROFS:
                return  # an exporter with read-only records; reconcile folds instead
            raise LedgerError.of_file(error, f"{ledger.folder}/{FILE}") from error


def _stored(ledger: "Ledger") -> "tuple[CallMetrics, str]":
    try:
        record = parse(read_file(f"{ledger.folder}/{FILE}", _LIMIT), CallMetricsRecord)
    except (FileNotFoundError, ValueError):
        return CallMetrics(), ""
    except OSError as error:
        raise LedgerError.of_file(error, f"{ledger.folder}/{FILE}") from error
    ours = record.get("format") == _FORMAT
    return (CallMetrics(record), record.get("folded", "")) if ours else (CallMetrics(), "")


def _lines(ledger: "Ledger", name: str) -> "tuple[bytes, str]":
    """Return a file's lines and its identity, so that no line counts twice after a kill."""
    path = f"{ledger.folder}/{name}"
    try:
        found = posix.stat(path)
        return read_file(path, _LIMIT), f"{found.st_dev:x}:{found.st_ino:x}"
    except FileNotFoundError:
        return b"", ""
    except OSError as error:
        raise LedgerError.of_file(error, path) from error
