"""What a key counted in each of its turns: the spread of those says how far its rate may be from the truth.

A turn ends where a key is no longer counted: its group is another's now, or a bandwidth counter of it.
"""

from .counters import L3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..records import CountsRecord
    from .counters import Slot

COUNTER = "mbm_total_bytes"
MOST = 40
"""The turns that are kept, the latest."""


def places_of(slots: "list[Slot]") -> "list[int]":
    """Return the places of the files that turns are about: memory traffic of whole L3 domains."""
    return [
        place
        for place, slot in enumerate(slots)
        if slot.counter.name == COUNTER and slot.domain.resource == L3 and slot.domain.node is None
    ]


def end_turn(kept: "CountsRecord", seconds: float, moved: "int | float") -> None:
    """Notes what a key has counted by now, if that is more than at the end of its last turn."""
    before, moved_before = kept.get("turn", [0.0, 0])
    if seconds > before:
        kept["turns"] = [*kept.get("turns", []), [round(seconds - before, 3), moved - moved_before]][-MOST:]
        kept["turn"] = [seconds, moved]


def turns_and_now(kept: "CountsRecord", seconds: float, moved: "int | float") -> "list[tuple[float, float]]":
    """Return each turn's seconds and bytes, the one that lasts included; empty for a key that was always counted."""
    turns = [(float(time), float(count)) for time, count in kept.get("turns", [])]
    before, moved_before = kept.get("turn", [0.0, 0])
    return [*turns, (seconds - before, moved - moved_before)] if turns and seconds > before else turns
