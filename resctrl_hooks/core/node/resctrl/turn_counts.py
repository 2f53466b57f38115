"""A key's counts in each of its turns, whose spread gives the error of its rate.

A turn ends when a key is no longer counted: its group or a bandwidth counter now belongs to another.
"""

from .bandwidth import is_bandwidth, resource_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .counters import Slot

MOST = 40
"""The number of latest turns that are stored."""


def counted_in(slots: "Sequence[Slot]") -> "list[tuple[int, str]]":
    """Return place and path of the relevant files: memory traffic of whole domains."""
    resource = resource_of(slots)
    return [(place, slot.path) for place, slot in enumerate(slots) if is_bandwidth(slot, resource)]


class Turns:
    """The seconds and bytes of each of the latest turns; ``end`` is the sum of both at the end of the last one."""

    __slots__ = ("each", "end")

    def __init__(self) -> None:
        self.each: "list[list[int | float]]" = []
        self.end: "list[int | float]" = [0.0, 0]

    def finish(self, seconds: float, moved: "int | float") -> None:
        """Record a key's counts if they exceed those at the end of its last turn."""
        before, moved_before = self.end
        if seconds > before:
            self.each = [*self.each, [round(seconds - before, 3), moved - moved_before]][-MOST:]
            self.end = [seconds, moved]

    def with_present(self, seconds: float, moved: "int | float") -> "list[tuple[float, float]]":
        """Return each turn's seconds and bytes with the present one's; empty for a permanently counted key."""
        turns = [(float(time), float(count)) for time, count in self.each]
        before, moved_before = self.end
        return [*turns, (seconds - before, moved - moved_before)] if turns and seconds > before else turns
