"""Axes of the page's charts: the common time axis, and values with a unit that fits them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

UNITS: Final = 10_000
"""Width and height of each drawing in its own units; the page stretches it."""
_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY: Final = 86_400
_MOST_TICKS: Final = 9
_MINUTE: Final = 60
_ROOM: Final = 1.06  # above the largest value
_PREFIXES: Final = ("", "k", "M", "G", "T", "P")
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


class Tick(NamedTuple):
    """A place on an axis, from 0 to 1, and its text."""

    part: float
    text: str


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The time axis of all charts of a page, in seconds since 1970."""

    start: float
    end: float

    def part(self, moment: float) -> float:
        """Return the place of a moment, from 0 to 1."""
        return min(max((moment - self.start) / ((self.end - self.start) or 1.0), 0.0), 1.0)

    @property
    def ticks(self) -> list[Tick]:
        """At most nine round times, in UTC."""
        length = self.end - self.start
        step = next((one for one in _STEPS if length / one <= _MOST_TICKS), 0)
        if not step:
            step = _DAY * -int(-length // (_MOST_TICKS * _DAY))
        form = "%m-%d" if step >= _DAY else "%H:%M" if step >= _MINUTE else "%H:%M:%S"
        first = int(-(-self.start // step)) * step
        found = range(first, int(self.end) + 1, step)
        return [Tick(self.part(at), datetime.fromtimestamp(at, UTC).strftime(form)) for at in found]


@dataclass(frozen=True, slots=True)
class ValueAxis:
    """The axis of values from 0 to ``top``, in a unit such as ``B/s``; with ``binary`` prefixes such as ``Mi``."""

    top: float
    unit: str
    binary: bool = False

    @property
    def ticks(self) -> list[Tick]:
        """Two to four round values above 0, all with the prefix that fits the largest."""
        base = 1024.0 if self.binary else 1000.0
        place = 0
        while self.unit and self.top >= base ** (place + 1) and place < len(_PREFIXES) - 1:
            place += 1
        scale, prefix = base**place, (_BINARY if self.binary else _PREFIXES)[place]
        rough = self.top / scale / 4
        power = 10.0 ** (len(f"{rough:.0f}") - 1) if rough >= 1 else 10.0 ** -len(f"{1 / rough:.0f}")
        step = next(one * power for one in (1, 2, 2.5, 5, 10, 20) if one * power >= rough * 0.9)
        number = int(self.top / scale / step)
        return [
            Tick(one * step * scale / self.top, f"{one * step:.6g} {prefix}{self.unit}".rstrip())
            for one in range(1, number + 1)
        ]


def axis_of(largest: float, unit: str, *, binary: bool = False) -> ValueAxis:
    """Return an axis that has room for a value."""
    return ValueAxis(largest * _ROOM or 1.0, unit, binary)
