"""A recording's file, by its name CSV, which is complete after each sample, or Parquet (extra ``parquet``)."""

import csv
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from resctrl_hooks.extras import remedy
from resctrl_hooks.observe.inventory.foreign_numbers import number
from resctrl_hooks.observe.node.history.rows import LABELS, Row, Value

PARQUET = ".parquet"
FORMATS = (".csv", PARQUET)
_UNFINISHED = ".unfinished"  # end of a Parquet file's name until it is complete
_YEARS = 1969, 9998  # 1969: the local time of the first hours
_NEEDED = frozenset(("time", "kind", "domain"))


class RecordingError(Exception):
    """A recording cannot be written or read; the message is a sentence for the operator."""


Write = Callable[[Iterable[Row]], None]
"""A function that writes the rows of a sample."""


@contextmanager
def writing(path: str, columns: Sequence[str], *, replace: bool = False) -> Iterator[Write]:
    """Yield a writer of a new file, in the format of its name; a Parquet file appears when it is complete.

    Raises:
        RecordingError: the name has neither format, or the extra is not installed.
        FileExistsError: the file exists, and ``replace`` is not given.
        OSError: the file cannot be written.
    """
    check(path)
    for existing in (path, *([path + _UNFINISHED] if path.endswith(PARQUET) else [])):
        if not replace and os.path.lexists(existing):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), existing)
    mode = "w" if replace else "x"  # another recording may have begun since the check
    if path.endswith(PARQUET):
        with _parquet(path, columns, mode) as write:
            yield write
    else:
        with open(path, mode, encoding="utf-8", newline="") as file:
            found = csv.DictWriter(file, columns, restval="")
            found.writeheader()

            def write(rows: Iterable[Row]) -> None:
                found.writerows(rows)
                file.flush()  # written samples survive the end of this process

            yield write


def check(path: str) -> None:
    """Check that a file of this name can be a recording.

    Raises:
        RecordingError: the name has neither format, or the extra is not installed.
    """
    if os.path.splitext(path)[1] not in FORMATS:
        raise RecordingError(f"{path}: the name must end in {' or '.join(FORMATS)}")
    if path.endswith(PARQUET):
        _pyarrow()


def read(path: str) -> Iterator[Row]:
    """Yield the rows of a recording in their order in the file.

    Raises:
        RecordingError: it is not a recording, or the extra is not installed.
        OSError: the file cannot be read.
    """
    check(path)
    empty = True
    for row in _read_parquet(path) if path.endswith(PARQUET) else _read_csv(path):
        empty = False
        yield row
    if empty:
        raise RecordingError(f"{path} has no rows; check that pods were monitored")


def _read_csv(path: str) -> Iterator[Row]:
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        checked = ""  # the time of the last row
        try:
            names = next(reader, [])
            _check_columns(path, names)
            counted = [name for name in names if name not in LABELS]
            time_of = names.index("time")
            for fields in reader:
                if not fields:
                    continue
                row = _row(names, counted, fields)
                if fields[time_of] != checked:
                    checked = _checked_time(fields[time_of])
                yield row
        except UnicodeDecodeError as error:
            raise RecordingError(f"{path} is not a recording: not a text file") from error
        except (ValueError, csv.Error) as error:
            raise RecordingError(f"{path}:{reader.line_num}: {error}") from error


def _checked_time(text: str) -> str:
    """Return the text of a time.

    Raises:
        ValueError: it is no time, or of a year in which some zones have no times or before 1970.
    """
    year = datetime.fromisoformat(text).year
    if not _YEARS[0] <= year <= _YEARS[1]:
        raise ValueError(f"{text} is not a time from 1970 to 9998; remove its rows, or set the clock and record again")
    return text


def _row(names: Sequence[str], counted: Sequence[str], fields: Sequence[str]) -> Row:
    if len(fields) != len(names):
        raise ValueError("the row has more or fewer fields than the header; the file may be truncated")
    row: dict[str, Value] = dict(zip(names, fields, strict=True))
    for name in counted:
        row[name] = _number(name, row[name]) if row[name] else None
    return row


def _check_columns(path: str, columns: Iterable[str]) -> None:
    missing = _NEEDED.difference(columns)
    if missing:
        raise RecordingError(f"{path} is not a recording: column {min(missing)!r} is missing")


def _number(name: str, value: object) -> float:
    found = number(value, signed=True)
    if found is None:
        raise ValueError(f"{name}: {str(value)[:80]!r} is not a number that can be shown")
    return found


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet  # noqa: PLC0415  # an extra of its own
    except ModuleNotFoundError as error:
        raise RecordingError(f"Parquet needs pyarrow: use .csv, or {remedy('parquet')}") from error
    return pyarrow


@contextmanager
def _parquet(path: str, columns: Sequence[str], mode: str) -> Iterator[Write]:
    arrow = _pyarrow()
    schema = arrow.schema([(name, arrow.string() if name in LABELS else arrow.float64()) for name in columns])
    unfinished = path + _UNFINISHED
    with open(unfinished, f"{mode}b") as file, arrow.parquet.ParquetWriter(file, schema) as table:

        def write(rows: Iterable[Row]) -> None:
            whole = [{name: row.get(name) for name in columns} for row in rows]
            table.write_table(arrow.Table.from_pylist(whole, schema))

        yield write
    os.rename(unfinished, path)


def _read_parquet(path: str) -> Iterator[Row]:
    arrow = _pyarrow()
    try:
        with arrow.parquet.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow.names)
            checked = ""
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    if row["time"] != checked:
                        checked = _checked_time(str(row["time"]))
                    yield {name: _typed(name, value) for name, value in row.items()}
    except arrow.ArrowException as error:
        raise RecordingError(f"{path}: {str(error).partition(chr(10))[0]}") from error
    except ValueError as error:
        raise RecordingError(f"{path}: {error}") from error


def _typed(name: str, value: Value) -> Value:
    if name in LABELS:
        return value or ""
    return value if value is None else _number(name, value)
