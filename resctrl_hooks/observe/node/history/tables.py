"""The tables of the history's file, the place of a sample in them, and the errors of reading and writing them."""

import posix
from typing import NamedTuple

from ....core.node.errors import HookError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection
    from typing import Any

VERSION = 1
"""The version of the tables, in ``user_version``."""
APPLICATION = 0x72637468
"""``rcth``, in ``application_id``."""
_SCHEMA = """\
CREATE TABLE layout (id INTEGER PRIMARY KEY AUTOINCREMENT, data BLOB NOT NULL);
CREATE TABLE sample (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, span INTEGER NOT NULL,
    layout INTEGER NOT NULL REFERENCES layout, data BLOB NOT NULL
);
CREATE INDEX sample_time ON sample (time);
CREATE INDEX sample_layout ON sample (layout);
CREATE INDEX sample_fine ON sample (time) WHERE span = 0;
"""
CONNECTION: "dict[str, Any]" = {"timeout": 1.0, "isolation_level": None, "check_same_thread": False, "uri": True}
"""How SQLite opens it. The writer's thread is not the one that opens the file; only one of them uses it."""
LOG = 4 << 20
"""Bytes of the write-ahead log."""
_PAGE = 1024  # bytes: of larger pages, each sample leaves half of one unused


class HistoryError(HookError):
    """The history cannot be read or written."""

    reason = "history"


class DamagedError(HistoryError):
    """The file is damaged, or of another version."""


class ForeignError(DamagedError):
    """The file is of another program, so it must not be changed or renamed."""

    hint = "history.file must name a file of its own"


class SampleError(HistoryError):
    """A stored sample cannot be decoded; the others can be read."""

    def __init__(self, text: str, id_: int) -> None:
        super().__init__(text)
        self.id = id_


class Entry(NamedTuple):
    """A stored sample's place: its id, its time in milliseconds since 1970, and its span in seconds.

    ``uptime`` is its time in seconds since the boot, which no clock changes; 0 if it was not read.
    """

    id: int
    time: int
    span: int
    uptime: float = 0.0


def uri_of(path: str, *, write: bool) -> str:
    """Return the file's URI for SQLite."""
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{name}?mode={'rw' if write else 'ro'}"


def number(file: "Connection", query: str) -> int:
    """Return the number that a query finds.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    return int(file.execute(query).fetchone()[0])


def used(file: "Connection") -> int:
    """Return the pages that are in use.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    return number(file, "PRAGMA page_count") - number(file, "PRAGMA freelist_count")


def bytes_of(path: str) -> int:
    """Return a file's size; 0 if it does not exist, as the log while no process has the history open."""
    try:
        return posix.stat(path).st_size
    except OSError:
        return 0


def prepare(file: "Connection", size: int) -> int:
    """Create the tables in a new file, and set the limits; return the most pages for so many bytes, 0 for no limit.

    Raises:
        sqlite3.Error: it cannot be written.
    """
    if not number(file, "SELECT count(*) FROM sqlite_master"):
        _create_tables(file)
    file.execute("PRAGMA synchronous = FULL")
    file.execute(f"PRAGMA journal_size_limit = {LOG}")
    pages = max(size - LOG, LOG) // number(file, "PRAGMA page_size") if size else 0
    if pages:
        file.execute(f"PRAGMA max_page_count = {pages}")
    return pages


def _create_tables(file: "Connection") -> None:
    """Create the tables in a new file."""
    file.execute(f"PRAGMA page_size = {_PAGE}")
    file.execute("PRAGMA auto_vacuum = INCREMENTAL")
    file.execute("PRAGMA journal_mode = WAL")
    create = f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {APPLICATION};"
    file.executescript(f"{create} PRAGMA user_version = {VERSION}; COMMIT;")
