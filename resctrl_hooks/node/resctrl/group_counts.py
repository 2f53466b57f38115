"""A group's new values applied to its kept data: offsets, last values, times. `carried` explains their use."""

from .counters import UNASSIGNED, UNAVAILABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..records import CountsRecord, InheritedRecord
    from .counters import Raw, Slot

INHERITED_SECONDS = 60.0  # for which an RMID's cache lines may be its previous user's, who runs on without it


class GroupCounts:
    """A group's kept data: each counter's offset and last value, and the time in which it counted.

    ``offsets`` is empty if all are 0; an offset of None waits for the first value, from which its counter counts.
    ``since`` is when the group began to count and ``looked`` when it was read last, in seconds since the boot; ``gaps``
    are the seconds between them in which each counter did not count, empty if there are none.
    """

    __slots__ = ("gaps", "identity", "lasts", "looked", "offsets", "since")

    def __init__(
        self, identity: str, offsets: "list[int | float | None]", lasts: "list[int | float | None]", since: float
    ) -> None:
        self.identity = identity
        self.offsets = offsets
        self.lasts = lasts
        self.since = self.looked = since
        self.gaps: "list[float]" = []

    @classmethod
    def of_record(cls, kept: "CountsRecord", rdt_class: str, now: float) -> "GroupCounts":
        """Return the counts of a key's group in a class; without recorded times it begins ``now``."""
        identity, offsets, lasts = kept["groups"][rdt_class]
        group = cls(identity, offsets or [], lasts, now)
        if rdt_class in kept.get("times", {}):
            since, gaps, looked = kept["times"][rdt_class]
            group.since, group.gaps, group.looked = since, gaps or [], looked
        return group

    def keep(self, kept: "CountsRecord", rdt_class: str) -> None:
        """Record the counts as those of a key's group in a class."""
        kept["groups"][rdt_class] = [self.identity, self.offsets or 0, self.lasts]
        kept.setdefault("times", {})[rdt_class] = [self.since, self.gaps or 0, self.looked]

    @property
    def every_offset(self) -> "list[int | float | None]":
        """Each counter's offset."""
        return self.offsets or [0] * len(self.lasts)

    @property
    def every_gap(self) -> "list[float]":
        """Each counter's gap."""
        return self.gaps or [0] * len(self.lasts)

    @property
    def whole(self) -> float:
        """The seconds from the start to the last reading."""
        return self.looked - self.since

    def counted(self, number: int) -> "int | float | None":
        """Return a counter's count; None if it never had a value.

        An unassigned one has its whole count in its offset. A negative result is only the start of later counting.
        """
        last, offset = self.lasts[number], self.every_offset[number] or 0
        return None if last is None and offset <= 0 else (last or 0) + offset

    def starts(self) -> "list[int | float | None]":
        """Return the offsets for counting on from here, as in another class.

        A counter without a value yet keeps its start: the value at creation, or its first value (None).
        """
        return [
            -last if last is not None else None if offset is None else min(offset, 0)
            for last, offset in zip(self.lasts, self.every_offset)
        ]

    def set_never_ran(self, values: "list[Raw]", energy: "list[tuple[int, int]]") -> None:
        """Set a PERF_PKG counter in ``values`` to 0 if the kernel says `Unavailable` and nothing was counted before.

        The kernel says so until a task of the group's RMID has run in that package. ``energy`` has the counters'
        places, in this group and in ``values``.
        """
        for number, place in energy:
            if values[place] == UNAVAILABLE and not self.lasts[number] and not (self.offsets and self.offsets[number]):
                values[place] = 0

    def read(self, numbers: "list[Any]", now: float, *, fresh: bool = False, began: "float | None" = None) -> None:
        """Take the group's new numbers.

        The total of a counter that went back stands still, and counts on from there. An unassigned one begins at 0. A
        ``fresh`` group has counted since it was made, another counter with its first value since ``began``, if known.
        """
        for last, number in zip(self.lasts, numbers):
            if last is None or number is None or number.__class__ is str or number < last:
                break
        else:  # every one of them counted on
            self.lasts, self.looked = numbers, now
            return
        offsets, gaps = list(self.every_offset), list(self.every_gap)
        lasts: "list[int | float | None]" = []
        for place, (last, number) in enumerate(zip(self.lasts, numbers)):
            offset, counts, until = offsets[place], False, now
            if number is None or isinstance(number, str):
                lasts.append(last)
                if number == UNASSIGNED and last is not None and offset is not None:
                    offsets[place], lasts[place] = offset + last, None  # what it said is in the offset now
            else:
                lasts.append(number)
                if offset is None:
                    offsets[place] = -number
                elif last is None:
                    offsets[place] = max(offset, -number)  # below the value at creation: it restarted before
                    counts = fresh
                    until = now if began is None else min(max(began, self.looked), now)
                elif number < last:
                    offsets[place] = offset + last - number
                else:
                    counts = True
            if not counts:
                gaps[place] = round(gaps[place] + until - self.looked, 3)
        self.offsets = [] if all(offset == 0 for offset in offsets) else offsets
        self.gaps = gaps if any(gaps) else []
        self.lasts, self.looked = lasts, now

    def bank(self, kept: "CountsRecord", rdt_class: str, names: "dict[int, str]") -> None:
        """Add the counts of these counters, by their places, and their seconds to those of the key's ended groups."""
        for place, name in names.items():
            value = self.counted(place)
            if value is not None:
                done = kept.setdefault("done", {}).setdefault(rdt_class, {})
                done[name] = done.get(name, 0) + value
            seconds = self.whole - self.every_gap[place]
            if seconds > 0:
                spent = kept.setdefault("spent", {}).setdefault(rdt_class, {})
                spent[name] = round(spent.get(name, 0) + seconds, 3)


class Inherited:
    """A group that was another key's: its identity, since when it is this key's, and its gauges' values then."""

    __slots__ = ("identity", "lines", "since")

    def __init__(self, identity: str, since: float, lines: "dict[str, int | float]") -> None:
        self.identity = identity
        self.since = since
        self.lines = lines

    @classmethod
    def of_record(cls, record: "InheritedRecord") -> "Inherited":
        """Return the data of a record."""
        return cls(*record)

    def as_record(self) -> "InheritedRecord":
        """Return the record."""
        return [self.identity, self.since, self.lines]

    def has_waned(self, identity: str, numbers: "dict[str, int | float]", now: float) -> bool:
        """Return whether all that the group's gauges say is this key's own."""
        waned = all(numbers.get(path, start) < start for path, start in self.lines.items())
        return identity != self.identity or waned or not 0 <= now - self.since < INHERITED_SECONDS


def trust(kept: "CountsRecord", groups: "dict[str, tuple[str, list[Raw]]]", slots: "list[Slot]", now: float) -> None:
    """Forget that groups were inherited, once their gauges' values are their own."""
    inherited = kept.get("inherited")
    if not inherited:
        return
    for rdt_class, record in list(inherited.items()):
        identity, values = groups.get(rdt_class, ("", []))
        numbers = {slot.path: n for slot, n in zip(slots, values) if n is not None and not isinstance(n, str)}
        if Inherited.of_record(record).has_waned(identity, numbers, now):
            del inherited[rdt_class]
    if not inherited:
        del kept["inherited"]
