"""The one rule of totals: a value adds its difference to the last value, and the time since then.

Events only choose the last value. A new source's counters begin at 0; PERF_PKG's continue from the RMID's previous user
and begin at their value at creation, else at their first value. A counter that goes back begins at its new value, and
one that was unassigned at 0. A group that moves to another class or becomes another pod's keeps its last values.
`sources` decides which group is new; docs/counters.md has the same by event, for operators.
"""

from .counters import UNASSIGNED, UNAVAILABLE
from .layouts import PERF, is_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .counters import Raw

    Number = int | float

SEEN = "seen"
OUT_OF_VIEW = "out of view"  # it could not be looked at: it may be there
GONE = "gone"  # it is nowhere, or its key was released
LEFT = "left"  # this project gives it away or removes it after its last read; then it is forgotten
_DIGITS = 6  # of the kernel's fractions, so that sums of differences are exact


def exact(number: "Number") -> "Number":
    """Return a sum of values without the error of binary fractions."""
    return round(number, _DIGITS) if number.__class__ is float else number


class Source:
    """A source of counters, such as a group: when it was read, and each counter's last value by path.

    Attributes:
        identity: its folder's device and inode number.
        read: when it was read last, in seconds since the boot; before the first read, when it began.
        lasts: the last values, by path.
        starts: the values from which counters without a last value count; None is for the first value.
        place: where it was seen last.
        state: SEEN, OUT_OF_VIEW, GONE or LEFT. In each state it continues from its last values when it is seen again.
        is_certain: whether its identity is still its own; not after resctrl may have been mounted again.
    """

    __slots__ = ("identity", "is_certain", "lasts", "place", "read", "starts", "state")

    def __init__(
        self,
        identity: str,
        read: float = 0.0,
        starts: "Mapping[str, Number | None] | None" = None,
        lasts: "Mapping[str, Number] | None" = None,
        place: str = "",
    ) -> None:
        self.identity = identity
        self.read = read
        self.place = place
        self.state = SEEN
        self.is_certain = True
        self.lasts: "dict[str, Number]" = {**(lasts or {})}
        self.starts: "dict[str, Number | None]" = {**(starts or {})}

    def continued(self) -> "Source":
        """Return a source of another key that continues from these last values."""
        return Source(self.identity, self.read, self.starts, self.lasts)

    def is_unused(self, path: str, value: "Raw") -> bool:
        """Return whether a PERF_PKG counter is 0: it is `Unavailable` until a task of the RMID ran in the package."""
        return value == UNAVAILABLE and is_of(PERF, path) and not self.lasts.get(path) and not self.starts.get(path)

    def start(self, path: str) -> "Number | None":
        """Return the value from which a counter without a last value counts."""
        return self.starts.get(path, None if is_of(PERF, path) else 0)

    def weaken(self, values: "Iterable[tuple[str, Raw]]") -> bool:
        """Let counters begin again that may not be those of before, as the source may be another one.

        A number that fell began at 0. Energy begins at its next value, which may be that of another RMID. Return
        whether a number fell.
        """
        fell = False
        for path, value in values:
            if is_of(PERF, path):
                self.lasts.pop(path, None)
                self.starts[path] = None
            elif isinstance(value, (int, float)) and value < self.lasts.get(path, 0):
                self.forget(path)
                fell = True
        return fell

    def forget(self, path: str) -> None:
        """Let a counter begin as a new source's."""
        self.lasts.pop(path, None)
        self.starts.pop(path, None)


class Total:
    """Amounts that never decrease, and the seconds in which they were counted, by path."""

    __slots__ = ("amounts", "seconds")

    def __init__(self) -> None:
        self.amounts: "dict[str, Number]" = {}
        self.seconds: "dict[str, float]" = {}

    def without_seconds(self) -> "Total":
        """Return a total with the same amounts and its own seconds, for one of several sources: see `spend`."""
        total = Total()
        total.amounts = self.amounts
        return total

    def spend(self, parts: "list[Total]") -> None:
        """Add the seconds of sources that count at the same time: of each counter the longest."""
        for path in {path for part in parts for path in part.seconds}:
            longest = max(part.seconds.get(path, 0.0) for part in parts)
            self.seconds[path] = self.seconds.get(path, 0.0) + longest

    def add(
        self, source: Source, values: "Iterable[tuple[str, Raw]]", now: float, since: "float | None" = None
    ) -> None:
        """Add a source's new values.

        Args:
            source: has the last values, which become these.
            values: by path; a word or None is no value.
            now: in seconds since the boot.
            since: when counters without a last value began to count, if known.
        """
        lasts, amounts, seconds, elapsed = source.lasts, self.amounts, self.seconds, now - source.read
        for path, found in values:
            value = found
            if found is None or found.__class__ is str:
                if found == UNASSIGNED:
                    source.forget(path)
                if not source.is_unused(path, found):
                    continue
                value = 0
            counted, last = elapsed, lasts.get(path)
            if last is None:
                last = source.start(path)
                counted = 0.0 if since is None or last is None else now - since
            if last is None or value < last:  # type: ignore[operator]  # a number
                counted, last = 0.0, value  # type: ignore[assignment]  # a number
            lasts[path] = value  # type: ignore[assignment]  # a number
            amounts[path] = exact(amounts.get(path, 0) + value - last)  # type: ignore[operator]  # numbers
            seconds[path] = seconds.get(path, 0.0) + counted
        source.read = now
