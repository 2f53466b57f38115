"""Numbers with units and times, short enough for a table."""

import time
from datetime import datetime

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_THOUSAND, _TEN = 1000.0, 10.0
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def scaled(value: float, unit: str, *, binary: bool = False) -> str:
    """Return a number with a prefix: ``scaled(2.5e9, "B/s")`` is ``2.50 GB/s``."""
    number, place = _rounded(value, binary=binary)
    return f"{number} {(_BINARY if binary else _PREFIXES)[place]}{unit}".rstrip()


def displayed(value: float, *, binary: bool = False) -> float:
    """Return the value that a reader of `scaled` sees."""
    number, place = _rounded(value, binary=binary)
    return float(number) * (1024.0 if binary else _THOUSAND) ** place


def _rounded(value: float, *, binary: bool) -> tuple[str, int]:
    """Return three digits that mean something, and the place of their prefix."""
    base = 1024.0 if binary else _THOUSAND
    place = 0
    while abs(value) >= base - 0.5 and place < len(_PREFIXES) - 1:
        value /= base
        place += 1
    if not place and value == int(value):
        return f"{value:.0f}", 0
    digits = 2 - (abs(value) >= 9.995) - (abs(value) >= 99.95)  # noqa: PLR2004  # the least that rounds to 10 and 100
    return f"{value:.{digits}f}", place


def with_margin(value: float, margin: float, unit: str) -> str:
    """Return a number with its margin of error under the same prefix: ``37 ± 20 MB/s``."""
    place = 0
    largest = max(abs(value), margin)
    while largest >= _THOUSAND and place < len(_PREFIXES) - 1:
        largest, value, margin, place = largest / _THOUSAND, value / _THOUSAND, margin / _THOUSAND, place + 1
    digits = 0 if largest >= _TEN else 1
    return f"{value:.{digits}f} ± {margin:.{digits}f} {_PREFIXES[place]}{unit}"


def clock(when: float) -> str:
    """Return a time in this node's time zone, with the date if it is not today's."""
    found = datetime.fromtimestamp(when).astimezone()
    today = found.date() == datetime.fromtimestamp(time.time()).astimezone().date()
    return found.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")
