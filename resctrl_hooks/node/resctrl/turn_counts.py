"""A key's counts in each of its turns, whose spread gives the error of its rate.

A turn ends when a key is no longer counted: its group or a bandwidth counter now belongs to another.
"""

from .counters import L3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..records import CountsRecord
    from .counters import Slot

COUNTER = "mbm_total_bytes"
MOST = 40
"""The number of latest turns that are kept."""


def places_of(slots: "list[Slot]") -> "list[int]":
    """Return the positions of the relevant files: memory traffic of whole L3 domains."""
    return [
        place
        for place, slot in enumerate(slots)
        if slot.counter.name == COUNTER and slot.domain.resource == L3 and slot.domain.node is None
    ]


def end_turn(kept: "CountsRecord", seconds: float, moved: "int | float") -> None:
    """Record a key's counts if they exceed those at the end of its last turn."""
    before, moved_before = kept.get("turn", [0.0, 0])
    if seconds > before:
        kept["turns"] = [*kept.get("turns", []), [round(seconds - before, 3), moved - moved_before]][-MOST:]
        kept["turn"] = [seconds, moved]


def turns_and_now(kept: "CountsRecord", seconds: float, moved: "int | float") -> "list[tuple[float, float]]":
    """Return each turn's seconds and bytes, including the present one; empty for a permanently counted key."""
    turns = [(float(time), float(count)) for time, count in kept.get("turns", [])]
    before, moved_before = kept.get("turn", [0.0, 0])
    return [*turns, (seconds - before, moved - moved_before)] if turns and seconds > before else turns
