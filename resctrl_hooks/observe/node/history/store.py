"""The file of the history with its writes: SQLite, with a table of samples and one of the layouts of their rows.

The order of samples is that of their ids, because the clock can be set back. Each write is one transaction in the
write-ahead log, so a crash or a power failure loses at most the sample that was being written.
"""

import sqlite3
import zlib

from .ages import Ages
from .reading import Reader
from .sample import Sample, data_of, labels_of, layout_of
from .tables import HistoryError, SampleError, number, used
from .thinning import MINUTE, minute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .sample import Columns, Series

_UNUSED = "DELETE FROM layout WHERE id NOT IN (SELECT layout FROM sample)"
_KNOWN = 4  # layouts that are remembered: those of samples and of minutes
_SHARED = 60  # samples of a layout: the differences to its base grow
_LEVEL = 6  # of compression: level 9 gains 1 % and takes twice as long
_MOST_MINUTES = 10  # thinned at once, so a step is short
_MOST_DELETED = 100  # as above
_MOST_OF_MINUTE = 120  # samples, also if the clock is set back again and again
_MOST_SHRUNK = 300  # deleted at once where the limit was lowered: the rest follows with the next samples
_FULL = 0.95  # part of the size from which the oldest samples are deleted
_MILLI = 1000


class Store(Reader):
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
        self.deleted: "list[SampleError]" = []
        """Samples that `tidy` could not decode and has deleted."""
        self._known: "dict[tuple[int, tuple[Series, ...]], tuple[int, Columns, int]]" = {}
        self._ages = Ages(())
        self._last: "tuple[str, float] | None" = None  # boot and uptime of the last sample
        self._thinned = 0  # all samples up to this id are minutes
        super().__init__(path, write=write, size=size)
        if write:
            self._begin()

    def _begin(self) -> None:
        """Find the ages of the samples, the last one, and the first that is not thinned."""
        try:
            self._ages = Ages(sorted(self._query("SELECT id, time FROM sample")))  # by an index, without the data
            self._thinned = (self._query("SELECT min(id) FROM sample WHERE span = 0")[0][0] or 1) - 1
            last = self._sample("1 ORDER BY id DESC")
            self._last = (last.boot, last.uptime) if last else None
        except SampleError:
            pass  # its age is unknown
        except HistoryError:
            self.close()
            raise

    def complete(self) -> None:
        """Write what is in the log to the file itself, wherever that is now; errors are ignored."""
        try:
            self._file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error:
            pass

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
        except (ValueError, OverflowError) as error:
            self._roll_back()
            raise HistoryError(f"{self._path}: a sample that cannot be stored: {error}") from error

    def _write(self, sample: Sample) -> None:
        self._file.execute("BEGIN IMMEDIATE")
        id_ = self._insert(sample)
        self._file.execute("COMMIT")
        before, self._last = self._last, (sample.boot, sample.uptime)
        is_same_boot = before is not None and before[0] == sample.boot
        self._ages.add(id_, int((sample.uptime - before[1]) * _MILLI) if before and is_same_boot else 0)

    def _insert(self, sample: Sample, id_: "int | None" = None) -> int:
        layout, base = self._layout(sample)
        row = self._file.execute(
            "INSERT INTO sample (id, time, span, layout, data) VALUES (?, ?, ?, ?, ?)",
            (id_, sample.time, sample.span, layout, zlib.compress(data_of(sample, base), _LEVEL)),
        )
        return int(row.lastrowid or 0)

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

    def tidy(self, samples: float, minutes: float) -> None:
        """Thin samples older than ``samples`` seconds to minutes, and delete what is too old or too much.

        Each call does a bounded part of it.

        Raises:
            HistoryError: it failed; the file is as before, or partly tidied.
        """
        try:
            fine = self._ages.first_within(samples)
            for _ in range(_MOST_MINUTES):
                if not self._thin(fine):
                    break
            oldest = self._ages.first_within(minutes)
            self._delete("SELECT id FROM sample WHERE id < ? ORDER BY id LIMIT ?", oldest, _MOST_DELETED)
            self._ages.forget(oldest)
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
        """Replace the oldest minute of samples that is whole before an id; return whether there was one.

        A minute is a row of samples whose times are in one minute, so a clock that is set ends it.
        """
        query = "SELECT id, time FROM sample NOT INDEXED WHERE id > ? AND span = 0 ORDER BY id LIMIT ?"
        places = self._query(query, self._thinned, _MOST_OF_MINUTE + 1)
        minutes = [time // (MINUTE * _MILLI) for _, time in places]
        number = next((place for place, one in enumerate(minutes) if one != minutes[0]), _MOST_OF_MINUTE)
        ids = [id_ for id_, _ in places[:number]]
        if len(places) <= number or ids[-1] >= until:
            return False
        read = [(id_, self._decoded("id = ?", id_)) for id_ in ids]
        found = [(id_, one) for id_, one in read if one is not None]
        before = self._decoded("id < ? ORDER BY id DESC", ids[0])
        while found:
            boot = found[0][1].boot
            part = [(id_, one) for id_, one in found if one.boot == boot]
            found = [(id_, one) for id_, one in found if one.boot != boot]
            known = before if before is not None and before.boot == boot else None
            self._replace([id_ for id_, _ in part], minute([one for _, one in part], known))
        self._thinned = ids[-1]
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
