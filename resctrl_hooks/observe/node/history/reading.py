"""The file of the history as its readers see it."""

import sqlite3
import zlib

from ....core.node.host.files import parse_json
from .sample import Sample, sample_of
from .tables import (
    APPLICATION,
    CONNECTION,
    VERSION,
    DamagedError,
    Entry,
    ForeignError,
    HistoryError,
    SampleError,
    bytes_of,
    number,
    prepare,
    uri_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .rows import Row

_UPTIME, _DIGITS = b'"uptime": ', 32
_LARGEST = (1 << 63) - 1  # id in SQLite
_EVENT = b'"kind"'  # a label of all rows, but only events have their labels in a sample


class Reader:
    """An open history; `Store` has the arguments and errors."""

    def __init__(self, path: str, *, write: bool, size: int) -> None:
        self._path = path
        self._pages = 0
        self.skipped: "dict[int, SampleError]" = {}
        """By id: samples that could not be decoded and are left out."""
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
        if found[0] != APPLICATION:
            self.close()
            raise ForeignError(f"{path} is of another program")
        if found[1] != VERSION:
            self.close()
            raise DamagedError(f"{path} is of version {found[1]}; this is version {VERSION}")

    def _error(self, error: sqlite3.Error) -> HistoryError:
        """Return a SQLite error as one of this module; its class distinguishes damage from a failure that may end."""
        kind = DamagedError if type(error) is sqlite3.DatabaseError else HistoryError
        return kind(f"{self._path}: {error}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def size(self) -> int:
        """Return the bytes of the file and of its write-ahead log."""
        return bytes_of(self._path) + bytes_of(f"{self._path}-wal")

    def at(self, time: int) -> "Entry | None":
        """Return the last sample at or before a time; None if there is none."""
        return self._entry("time <= ? ORDER BY time DESC, id DESC", time)

    def near(self, entry: Entry, steps: int) -> "Entry | None":
        """Return the sample so many steps after one, or before it for a negative number; the end if there are fewer."""
        query = "id > ? ORDER BY id" if steps > 0 else "id < ? ORDER BY id DESC"
        found = [*self._entries(f"{query} LIMIT {abs(steps)}", entry.id)]
        return found[-1] if found else None

    def following(self, time: int) -> "Entry | None":
        """Return the first sample after a time; None if there is none."""
        return self._entry("time > ? ORDER BY time, id", time)

    def ends(self) -> "tuple[int, int] | None":
        """Return the times of the first and the last sample in the order of writing; None for an empty history."""
        first = self._query("SELECT time FROM sample ORDER BY id LIMIT 1")
        last = self._query("SELECT time FROM sample ORDER BY id DESC LIMIT 1")
        return (first[0][0], last[0][0]) if first and last else None

    def number(self) -> int:
        """Return the number of samples."""
        return self._query("SELECT count(*) FROM sample")[0][0]

    def _entry(self, condition: str, *values: object) -> "Entry | None":
        found = self._entries(f"{condition} LIMIT 1", *values)
        return found[0] if found else None

    def _entries(self, condition: str, *values: object) -> "list[Entry]":
        return [Entry(*row) for row in self._query(f"SELECT id, time, span FROM sample WHERE {condition}", *values)]  # noqa: S608  # constants

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

    def events(
        self, after: int, most: int, boot: str, until: "int | None" = None
    ) -> "Iterator[tuple[Entry, list[Row]]]":
        """Yield place and events of samples after an id, up to another id, the newest first, until one of another boot.

        Only the last ``most`` samples are searched; those without events are not parsed. Samples in `skipped` have no
        events.
        """
        query = "SELECT id, time, span, data FROM sample WHERE id > ? AND id <= ? ORDER BY id DESC LIMIT ?"
        own = f'"{boot}"'.encode()
        try:
            for id_, time, span, data in self._file.execute(query, (after, _LARGEST if until is None else until, most)):
                events: "list[Row]" = []
                uptime = 0.0
                try:
                    text = zlib.decompress(data)
                    if own not in text:
                        return
                    uptime = _uptime_of(text)
                    if _EVENT in text:
                        events = parse_json(text)["events"]
                except (ValueError, KeyError, TypeError, zlib.error) as error:
                    self.skipped[id_] = self._invalid(time, id_, error)
                yield Entry(id_, time, span, uptime), events
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
        query = f"SELECT id, time, span, layout, data FROM sample WHERE {condition} LIMIT 1"  # noqa: S608  # constants
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


def _uptime_of(text: bytes) -> float:
    """Return a sample's uptime without parsing the sample.

    Raises:
        ValueError: it has none.
    """
    start = text.index(_UPTIME) + len(_UPTIME)
    return float(text[start : start + _DIGITS].partition(b",")[0])
