"""The content of state files in JSON, which is checked before it is used."""

from ..shapes import fits
from .files import parse_json, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Kind = TypeVar("Kind")


def read_state(path: str, kind: "type[Kind]", limit: int = 1 << 20) -> "Kind | None":
    """Return the value in a state file of at most ``limit`` bytes; None if it is missing, damaged or unreadable."""
    try:
        return parse(read_file(path, limit), kind)
    except (OSError, ValueError):
        return None


def parse(data: bytes, kind: "type[Kind]") -> "Kind":
    """Return the JSON value in a state file.

    Raises:
        ValueError: it is not JSON, or not of this type.
    """
    value: "Kind" = parse_json(data, trusted=True)
    if not fits(kind, value):
        raise ValueError("not of the file's type")
    return value
