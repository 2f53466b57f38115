"""A group's new values applied to its kept data: offsets, last values, times. `carried` explains their use."""

from .counters import UNASSIGNED, UNAVAILABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..records import CountsRecord, GroupCountsRecord, GroupTimesRecord, InheritedRecord
    from .counters import Raw, Slot

INHERITED_SECONDS = 60.0  # for which an RMID's cache lines may be its previous user's, who runs on without it


class GroupCounts:
    """A group's kept data: its identity, each counter's offset, and each counter's last value.

    ``offsets`` is empty if all are 0. An offset of None waits for the first value, from which its counter counts.
    """

    __slots__ = ("identity", "lasts", "offsets")

    def __init__(self, identity: str, offsets: "list[int | float | None]", lasts: "list[int | float | None]") -> None:
        self.identity = identity
        self.offsets = offsets
        self.lasts = lasts

    @classmethod
    def of_record(cls, record: "GroupCountsRecord") -> "GroupCounts":
        """Return the counts that a record has."""
        return cls(record[0], record[1] or [], record[2])

    def as_record(self) -> "GroupCountsRecord":
        """Return the record."""
        return [self.identity, self.offsets or 0, self.lasts]

    @property
    def every_offset(self) -> "list[int | float | None]":
        """Each counter's offset."""
        return self.offsets or [0] * len(self.lasts)

    def counted(self, number: int) -> "int | float | None":
        """Return a counter's count, as `counted` does."""
        return counted(self.lasts[number], self.offsets[number] if self.offsets else 0)

    def set_never_ran(self, values: "list[Raw]", energy: "list[tuple[int, int]]") -> None:
        """Set a PERF_PKG counter in ``values`` to 0 if the kernel says `Unavailable` and nothing was counted before.

        The kernel says so until a task of the group's RMID has run in that package. ``energy`` has the counters'
        places, in this group and in ``values``.
        """
        for number, place in energy:
            if values[place] == UNAVAILABLE and not self.lasts[number] and not (self.offsets and self.offsets[number]):
                values[place] = 0

    def after(self, numbers: "list[Any]") -> "GroupCounts":
        """Return the counts after the group said these numbers, which are its ``lasts`` if all of them counted on.

        The total of a counter that went back stands still, and counts on from there. An unassigned one begins at 0.
        """
        for last, number in zip(self.lasts, numbers):
            if last is None or number is None or number.__class__ is str or number < last:
                break
        else:
            return GroupCounts(self.identity, self.offsets, numbers)
        offsets = list(self.every_offset)
        kept: "list[int | float | None]" = []
        for place, (last, number) in enumerate(zip(self.lasts, numbers)):
            offset = offsets[place]
            if number is None or isinstance(number, str):
                if number == UNASSIGNED and last is not None and offset is not None:
                    offsets[place] = offset + last
                    last = None  # noqa: PLW2901  # what it said is in the offset now
                kept.append(last)
                continue
            if offset is None:
                offsets[place] = -number
            elif last is not None and number < last:
                offsets[place] = offset + last - number
            kept.append(number)
        return GroupCounts(self.identity, [] if all(offset == 0 for offset in offsets) else offsets, kept)


class GroupTimes:
    """Since when a group counts, the seconds in which each counter did not, and when it was read last.

    ``gaps`` is empty if each counter counted all the time. Times are in seconds since the boot.
    """

    __slots__ = ("gaps", "looked", "since")

    def __init__(self, since: float, gaps: "list[float]", looked: float) -> None:
        self.since = since
        self.gaps = gaps
        self.looked = looked

    @classmethod
    def of_record(cls, record: "GroupTimesRecord") -> "GroupTimes":
        """Return the times that a record has."""
        return cls(record[0], record[1] or [], record[2])

    def as_record(self) -> "GroupTimesRecord":
        """Return the record."""
        return [self.since, self.gaps or 0, self.looked]

    @property
    def whole(self) -> float:
        """The seconds from the start to the last reading."""
        return self.looked - self.since

    def after(
        self, before: GroupCounts, numbers: "list[Raw]", now: float, *, fresh: bool, began: "float | None" = None
    ) -> "GroupTimes":
        """Return the times after the group said these numbers. A ``fresh`` group has counted since it was made.

        A counter with its first value has counted since ``began``, if that is known.
        """
        gaps = list(self.gaps or [0.0] * len(numbers))
        offsets = before.every_offset
        for place, (last, number) in enumerate(zip(before.lasts, numbers)):
            until = now
            if number is None or isinstance(number, str):
                counts = False
            elif last is None:
                counts = fresh and offsets[place] is not None
                if began is not None and offsets[place] is not None:
                    until = min(max(began, self.looked), now)
            else:
                counts = number >= last
            if not counts:
                gaps[place] = round(gaps[place] + until - self.looked, 3)
        return GroupTimes(self.since, gaps if any(gaps) else [], now)


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


def spend(kept: "CountsRecord", rdt_class: str, name: str, seconds: float) -> None:
    """Add seconds that a counter of a class has counted, of a group that is done with."""
    if seconds > 0:
        spent = kept.setdefault("spent", {}).setdefault(rdt_class, {})
        spent[name] = round(spent.get(name, 0) + seconds, 3)


def counted(last: "int | float | None", offset: "int | float | None") -> "int | float | None":
    """Return the count of a group's counter; None if it never had a value.

    An unassigned one has its whole count in its offset. A negative result is only the start of later counting.
    """
    offset = offset or 0
    return None if last is None and offset <= 0 else (last or 0) + offset


def add(
    kept: "CountsRecord", rdt_class: str, name: str, last: "int | float | None", offset: "int | float | None"
) -> None:
    """Add the count of a class's counter in an ended group."""
    value = counted(last, offset)
    if value is not None:
        done = kept.setdefault("done", {}).setdefault(rdt_class, {})
        done[name] = done.get(name, 0) + value


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
