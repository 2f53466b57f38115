"""Numbers, ages and tables for people at a terminal."""

import time

from rich.console import Console
from rich.table import Table

_STEPS = ((86400, "d"), (3600, "h"), (60, "m"))
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_WIDTH_OF_NO_TERMINAL = 10_000
STATE_STYLES = {
    "assigned": "green",
    "partly": "yellow",
    "waiting": "red",
    "idle": "dim",
    "unmonitored": "dim",
    "foreign": "cyan",
}


def console() -> Console:
    """Where to print: as wide as the terminal, or with whole lines where there is none."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=_WIDTH_OF_NO_TERMINAL)


def table(*columns: str, right: frozenset[str] = frozenset()) -> Table:
    """An empty table: columns without frames, so that it can be cut and grepped."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", no_wrap=True, overflow="ellipsis")
    return made


def age(since: int, now: float | None = None) -> str:
    """How long ago, in the largest fitting unit; a dash if it isn't known."""
    if not since:
        return "-"
    seconds = max(int((now or time.time()) - since), 0)
    for length, name in _STEPS:
        if seconds >= length:
            return f"{seconds // length}{name}"
    return f"{seconds}s"


def scaled(value: float, unit: str, *, binary: bool = False) -> str:
    """A number with a prefix: ``scaled(2.5e9, "B/s")`` is ``2.50 GB/s``."""
    base, prefixes = (1024.0, _BINARY) if binary else (1000.0, _PREFIXES)
    place = 0
    while abs(value) >= base and place < len(prefixes) - 1:
        value /= base
        place += 1
    if not place and value == int(value):
        return f"{value:.0f} {unit}"
    digits = max(0, 2 - (abs(value) >= 10) - (abs(value) >= 100))  # noqa: PLR2004  # three digits that mean something
    return f"{value:.{digits}f} {prefixes[place]}{unit}"
