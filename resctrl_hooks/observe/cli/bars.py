"""Text graphics: bars, sparklines and areas."""

import math
from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_LEVELS = " " + _HEIGHTS
_UNKNOWN = "·"
MARK = "╌"


def bar(share: float | None, width: int) -> str:
    """Return a bar of ``width`` characters for a share from 0 to 1, in steps of an eighth of a character."""
    if share is None:
        return _UNKNOWN + " " * (width - 1)
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[part] if part else "")).ljust(width)


def sparkline(values: Sequence[float | None], most: float, width: int) -> str:
    """Return a sparkline of the last ``width`` values, the newest last, scaled from 0 to ``most``."""
    shown = values[-width:]
    text = "".join(_UNKNOWN if value is None else _height(value, most) for value in shown)
    return text.rjust(width)


def _height(value: float, most: float) -> str:
    share = value / most if most > 0 else 0.0
    return _HEIGHTS[min(int(min(max(share, 0.0), 1.0) * len(_HEIGHTS)), len(_HEIGHTS) - 1)]


def area(values: Sequence[float | None], most: float, mark: float | None, width: int, height: int) -> list[str]:
    """Return the lines of an area under the last ``width`` values, the newest at the right, scaled from 0 to ``most``.

    A broken line is at the value ``mark``, where the area does not cover it.
    """
    shown = [None] * (width - len(values)) + [*values[-width:]]
    eighths = [0 if one is None or most <= 0 else _eighths(one / most * height, height) for one in shown]
    marked = None if mark is None or most <= 0 else min(max(math.ceil(mark / most * height) - 1, 0), height - 1)
    lines = []
    for row in reversed(range(height)):
        empty = MARK if row == marked else " "
        parts = (min(max(one - 8 * row, 0), 8) for one in eighths)
        lines.append("".join(_LEVELS[part] if part else empty for part in parts))
    return lines


def _eighths(share: float, height: int) -> int:
    """Return the height of an area in eighths of a line; the smallest that can be seen for a small value."""
    return min(max(round(share * 8), 1 if share > 0 else 0), 8 * height)
