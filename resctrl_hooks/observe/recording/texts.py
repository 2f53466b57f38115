"""Numbers and times of a report as text."""

from datetime import UTC, datetime
from typing import Final

_EXPONENT: Final = 999.5
"""From here the format ``.3g`` writes an exponent, such as ``1e+03``."""


def number(value: float, unit: str) -> str:
    """Return a number with its unit, with three significant digits or all digits before the decimal point."""
    return f"{value:.3g} {unit}" if value < _EXPONENT else f"{value:.0f} {unit}"


def utc(moment: float) -> str:
    """Return seconds since 1970 as text."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
