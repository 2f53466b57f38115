"""Text graphics for one line: bars and sparklines."""

from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_UNKNOWN = "·"


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
