"""The file ``totals/counters``: for each key and class the counts of ended groups, and each group's last values."""

from ..errors import LedgerError
from ..host.files import format_json, is_there, parse_json, read_file, write_file
from ..ledger import TOTALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..ledger import Ledger
    from ..records import CountersRecord, CountsRecord

FILE = f"{TOTALS}/counters"
_EARLIER = "counters"  # its path in version 0.2, below the state directory
_FORMAT = 1
_LIMIT = 64 << 20


def load_counts(ledger: "Ledger", boot: str) -> "tuple[list[str], dict[str, CountsRecord]]":
    """Return the layout of the file's lists, the paths of counters, and the data by key; both empty without a file.

    Raises:
        LedgerError: it is unreadable.
    """
    path = f"{ledger.folder}/{FILE}"
    try:
        kept: "Any" = parse_json(read_file(path if is_there(path) else f"{ledger.folder}/{_EARLIER}", _LIMIT))
    except (FileNotFoundError, ValueError):
        return [], {}
    except OSError as error:
        raise LedgerError.of_file(error, path) from error
    ours = isinstance(kept, dict) and (kept.get("format"), kept.get("boot")) == (_FORMAT, boot)
    if not ours or not isinstance(kept.get("keys"), dict) or not _are_paths(kept.get("layout")):
        return [], {}
    return kept["layout"], kept["keys"]


def save_counts(ledger: "Ledger", boot: str, layout: "list[str]", keys: "dict[str, CountsRecord]") -> None:
    """Replace the file.

    Raises:
        LedgerError: it can't be written.
    """
    path = f"{ledger.folder}/{FILE}"
    value: "CountersRecord" = {"format": _FORMAT, "boot": boot, "layout": layout, "keys": keys}
    try:
        write_file(path, format_json(value))
    except OSError as error:
        raise LedgerError.of_file(error, path) from error


def _are_paths(layout: "Any") -> bool:
    """Return whether a file's layout is a list of relative paths without ".."."""
    return isinstance(layout, list) and all(isinstance(path, str) and ".." not in path for path in layout)
