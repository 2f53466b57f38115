"""The file of the history: SQLite, with a table of samples and one of the layouts of their rows.

The order of samples is that of their ids, because the clock can be set back. Each write is one transaction in the
write-ahead log, so a crash or a power failure loses at most the sample that was being written.
"""

import sqlite3
import zlib

from ..host.files import parse_json
from .places import Places
from .sample import Sample, data_of, labels_of, layout_of, sample_of
from .tables import (
    APPLICATION,
    CONNECTION,
    VERSION,
    DamagedError,
    Entry,
    HistoryError,
    SampleError,
    bytes_of,
    number,
    prepare,
    uri_of,
    used,
)
from .thinning import MINUTE, minute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .rows import Row
    from .sample import Columns, Series

_UNUSED = "DELETE FROM layout WHERE id NOT IN (SELECT layout FROM sample)"
_KNOWN = 4  # layouts that are remembered: those of samples and of minutes
_SHARED = 60  # samples of a layout: the differences to its base grow
_LEVEL = 6  # of compression: level 9 gains 1 % and takes twice as long
_MOST_MINUTES = 10  # thinned at once: a wrong clock must not thin everything
_MOST_DELETED = 100  # as above
_MOST_SHRUNK = 300  # deleted at once where the limit was lowered: the rest follows with the next samples
_FULL = 0.95  # part of the size from which the oldest samples are deleted
_MILLI = 1000
_EVENT = b'"kind"'  # a label of all rows, but only events have their labels in a sample


class Store(Places):
    """An open history.

    Args:
        path: the file.
        write: whether to write; it is created if it does not exist.
        size: the most bytes of the file; 0 for no limit.

    Raises:
        DamagedError: it is not a history of this version.
        HistoryError: it cannot be opened.
    """

    def __init__(self, path: str, *, write: bool = False, size: int = 0) -> None:
        self._path = path
        self._pages = 0
        self.deleted: "list[SampleError]" = []
        """Samples that `tidy` could not decode and has deleted."""
        self.skipped: "dict[int, SampleError]" = {}
        """By id: samples that could not be decoded and are left out."""
        self._known: "dict[tuple[int, tuple[Series, ...]], tuple[int, Columns, int]]" = {}
        self._layouts: "dict[int, bytes]" = {}
        try:
            self._file: sqlite3.Connection = sqlite3.connect(uri_of(path, write=write), **CONNECTION)
        except sqlite3.Error as error:
            raise self._error(error) from error
        try:
            if write:
                self._pages = prepare(self._file, size)
            found = number(self._file, "PRAGMA application_id"), number(self._file, "PRAGMA user_version")
        except sqlite3.Error as error:
            self.close()
            raise self._error(error) from error
        if found != (APPLICATION, VERSION):
            self.close()
            what = f"version {found[1]}" if found[0] == APPLICATION else "another program"
            raise DamagedError(f"{path} is of {what}; this is version {VERSION}")

    def _error(self, error: sqlite3.Error) -> HistoryError:
        """Return a SQLite error as one of this module; its class tells damage from a failure that may end."""
        kind = DamagedError if type(error) is sqlite3.DatabaseError else HistoryError
        return kind(f"{self._path}: {error}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def add(self, sample: Sample) -> None:
        """Write a sample; where the file is full because its limit was lowered, delete the oldest ones first.

        Raises:
            HistoryError: it could not be written; the file is as before, or with fewer old samples.
        """
        try:
            try:
                self._write(sample)
            except sqlite3.OperationalError as error:
                self._roll_back()
                if "full" not in str(error) or not self._shrink():
                    raise
                self._write(sample)
        except sqlite3.Error as error:
            self._roll_back()
            raise self._error(error) from error

    def _write(self, sample: Sample) -> None:
        self._file.execute("BEGIN IMMEDIATE")
        self._insert(sample)
        self._file.execute("COMMIT")

    def _insert(self, sample: Sample, id_: "int | None" = None) -> None:
        layout, base = self._layout(sample)
        self._file.execute(
            "INSERT INTO sample (id, time, span, layout, data) VALUES (?, ?, ?, ?, ?)",
            (id_, sample.time, sample.span, layout, zlib.compress(data_of(sample, base), _LEVEL)),
        )

    def _layout(self, sample: Sample) -> "tuple[int, Columns]":
        """Return the id and the base of a sample's layout: one of the last ones if that fits, else a new one."""
        labels = sample.span, tuple(labels_of(sample))
        known = self._known.pop(labels, None)
        if (
            known is None
            or known[2] >= _SHARED
            or not self._file.execute("SELECT 1 FROM layout WHERE id = ?", (known[0],)).fetchone()
        ):
            layout, base = layout_of(sample)
            row = self._file.execute("INSERT INTO layout (data) VALUES (?)", (zlib.compress(layout, _LEVEL),))
            known = int(row.lastrowid or 0), base, 0
        self._known = dict([*self._known.items(), (labels, (known[0], known[1], known[2] + 1))][-_KNOWN:])
        return known[0], known[1]

    def _roll_back(self) -> None:
        self._known = {}  # SQLite gives the ids of layouts that are rolled back to others
        try:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # it has rolled back already

    def tidy(self, now: int, samples: float, minutes: float) -> None:
        """Thin samples older than ``samples`` seconds to minutes, and delete what is too old or too much.

        Raises:
            HistoryError: it failed; the file is as before, or partly tidied.
        """
        try:
            for _ in range(_MOST_MINUTES):
                if not self._thin(now - int(samples * _MILLI)):
                    break
            oldest = "SELECT id FROM sample WHERE time < ? ORDER BY time LIMIT ?"
            self._delete(oldest, now - int(minutes * _MILLI), _MOST_DELETED)
            self._shrink()
        except sqlite3.Error as error:
            self._roll_back()
            raise self._error(error) from error

    def _shrink(self) -> int:
        """Delete the oldest samples while the file is nearly full, a bounded number; return how many."""
        gone = 0
        while self._pages and gone < _MOST_SHRUNK and used(self._file) > self._pages * _FULL:
            deleted = self._delete("SELECT id FROM sample ORDER BY id LIMIT ?", _MOST_DELETED)
            if not deleted:
                break
            gone += deleted
        return gone

    def _delete(self, query: str, *values: object) -> int:
        """Delete samples by a query of their ids, and layouts of no sample; return the number of samples."""
        gone = [(one,) for (one,) in self._file.execute(query, values)]
        if gone:
            self._file.execute("BEGIN IMMEDIATE")
            self._file.executemany("DELETE FROM sample WHERE id = ?", gone)
            self._file.execute(_UNUSED)
            self._file.execute("COMMIT")
            if self._pages and number(self._file, "PRAGMA page_count") > self._pages:
                self._file.executescript("PRAGMA incremental_vacuum(1000)")  # `execute` would free one page
        return len(gone)

    def _thin(self, until: int) -> bool:
        """Replace the oldest minute of samples that is whole before ``until``; return whether there was one."""
        first = self._file.execute("SELECT min(time) FROM sample WHERE span = 0").fetchone()[0]
        if first is None:
            return False
        start = first - first % (MINUTE * _MILLI)
        end = start + MINUTE * _MILLI
        if end > until:
            return False
        within = "span = 0 AND time >= ? AND time < ?"
        ids = [one for (one,) in self._file.execute(f"SELECT id FROM sample WHERE {within} ORDER BY id", (start, end))]  # noqa: S608  # constants
        read = [(id_, self._decoded("id = ?", id_)) for id_ in ids]
        found = [(id_, one) for id_, one in read if one is not None]
        before = self._decoded("id < ? ORDER BY id DESC", ids[0])
        while found:
            boot = found[0][1].boot
            part = [(id_, one) for id_, one in found if one.boot == boot]
            found = [(id_, one) for id_, one in found if one.boot != boot]
            known = before if before is not None and before.boot == boot else None
            self._replace([id_ for id_, _ in part], minute([one for _, one in part], known))
        return True

    def _decoded(self, condition: str, value: int) -> "Sample | None":
        """Return the first sample that meets a condition; None if there is none. Delete one that cannot be decoded."""
        try:
            return self._sample(condition, value)
        except SampleError as error:
            self._delete("SELECT id FROM sample WHERE id = ?", error.id)
            self.deleted.append(error)
            self._known = {}  # its layout may be the damaged part
            return None

    def _replace(self, ids: "list[int]", merged: Sample) -> None:
        """Replace samples by one, which gets the place of the last."""
        self._file.execute("BEGIN IMMEDIATE")
        self._file.executemany("DELETE FROM sample WHERE id = ?", [(one,) for one in ids])
        self._insert(merged, ids[-1])
        self._file.execute(_UNUSED)
        self._file.execute("COMMIT")

    def size(self) -> int:
        """Return the bytes of the file and of its write-ahead log."""
        return bytes_of(self._path) + bytes_of(f"{self._path}-wal")

    def read(self, entry: Entry) -> "Sample | None":
        """Return a sample; None if it was deleted or thinned meanwhile, or is in `skipped`."""
        try:
            return self._sample("id = ?", entry.id)
        except SampleError as error:
            self.skipped[error.id] = error
            return None

    def between(self, since: int, until: int) -> "Iterator[Sample]":
        """Yield the samples from one time to another, in their order, without those in `skipped`."""
        for entry in self._entries("time >= ? AND time <= ? ORDER BY id", since, until):
            found = self.read(entry)
            if found is not None:
                yield found

    def events(self, after: int, most: int, boot: str) -> "Iterator[tuple[Entry, list[Row]]]":
        """Yield place and events of samples after an id, the newest first, until one of another boot.

        Only the last ``most`` samples are searched; those without events are not parsed. Samples in `skipped` have no
        events.
        """
        query = "SELECT id, time, span, data FROM sample WHERE id > ? ORDER BY id DESC LIMIT ?"
        own = f'"{boot}"'.encode()
        try:
            for id_, time, span, data in self._file.execute(query, (after, most)):
                events: "list[Row]" = []
                try:
                    text = zlib.decompress(data)
                    if own not in text:
                        return
                    if _EVENT in text:
                        events = parse_json(text)["events"]
                except (ValueError, KeyError, TypeError, zlib.error) as error:
                    self.skipped[id_] = self._invalid(time, id_, error)
                yield Entry(id_, time, span), events
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _query(self, query: str, *values: object) -> "list[tuple[int, ...]]":
        try:
            return self._file.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _sample(self, condition: str, *values: object) -> "Sample | None":
        """Return the first sample that meets a condition.

        Raises:
            SampleError: it cannot be decoded.
        """
        query = f"SELECT id, time, span, layout, data FROM sample WHERE {condition} LIMIT 1"  # noqa: S608  # as above
        for id_, time, span, layout, data in self._query(query, *values):
            try:
                return sample_of(time, span, self._labels(layout), zlib.decompress(data))  # type: ignore[arg-type]  # a blob
            except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
                raise self._invalid(time, id_, error) from error
        return None

    def _invalid(self, time: int, id_: int, error: Exception) -> SampleError:
        return SampleError(f"{self._path}: invalid sample at {time}: {error}", id_)

    def _labels(self, layout: int) -> bytes:
        if layout not in self._layouts:
            rows = self._query("SELECT data FROM layout WHERE id = ?", layout)
            if not rows:
                raise ValueError(f"layout {layout} is missing")
            self._layouts = {layout: zlib.decompress(rows[0][0])}  # type: ignore[arg-type]  # a blob
        return self._layouts[layout]
