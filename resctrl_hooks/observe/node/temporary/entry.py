"""One temporary change: its owner, its reason and its end, with each value as it was and as the owner wrote it."""

from ....core.node.host.procfs import lives
from ....core.node.shapes import Count, Flag, NotRequired, Number, Text, TypedDict
from .address import Address, is_same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

GRACE = 1.0
"""Seconds after the end in which only the owner restores the values: it must notice its end before others act on it."""


class ValueRecord(TypedDict):
    """One changed value."""

    kind: Text
    place: Text
    name: Text
    part: Text
    before: Text
    ours: list[Text]
    """What the owner wrote, and what the kernel made of it; the last is in effect."""


class EntryRecord(TypedDict):
    """One change."""

    owner: Text
    reason: Text
    key: Text
    """The pod for which it is made."""
    boot: Text
    end: Number
    """In seconds of CLOCK_BOOTTIME."""
    pid: Count
    """A process whose end is the change's end; 0: none."""
    start: Count
    values: list[ValueRecord]
    classes: NotRequired[list[Text]]
    """RDT classes that were created for it, or for another change that uses them, too."""
    follows: NotRequired[Flag]
    """It also ends when ``key`` has no record any more: its pod has ended."""


class Entry:
    """One change, from the file or new."""

    def __init__(self, record: "Any") -> None:
        self.record: "EntryRecord" = record
        self.values: "dict[Address, ValueRecord]" = {
            Address(one["kind"], one["place"], one["name"], one["part"]): one for one in record["values"]
        }

    def intend(self, address: Address, found: str, new: str) -> None:
        """Note a value before it is written; the first one that was found is restored."""
        known = self.values.get(address)
        if known is None:
            known = self.values[address] = {**address._asdict(), "before": found, "ours": []}  # type: ignore[typeddict-item]
            self.record["values"].append(known)
        known["ours"] = [*known["ours"][-1:], new]

    def settle(self, address: Address, effective: str) -> None:
        """Note what the kernel made of the last value."""
        ours = self.values[address]["ours"]
        if effective not in ours:
            ours.append(effective)

    def forget(self, addresses: "Sequence[Address]") -> None:
        """Drop values that were restored before the change's end."""
        gone = [self.values.pop(address) for address in addresses]
        self.record["values"] = [one for one in self.record["values"] if one not in gone]

    def is_ours(self, address: Address, value: "str | None") -> bool:
        """Return whether a value is one that this change wrote or found."""
        known = self.values[address]
        return any(is_same(address, value, one) for one in (known["before"], *known["ours"]))

    def is_over(self, proc: str, now: float) -> bool:
        """Return whether the values may be restored by any process."""
        record = self.record
        if now > record["end"] + GRACE:
            return True
        return bool(record["pid"]) and not lives(proc, record["pid"], record["start"])
