"""A key's counter data over the ends of its groups, and its form in the file ``totals/counters``.

Version 0.2 and later read and write this form, so that no counter falls after a downgrade: a present group has lists
with an item for each counter, and an amount is the last value and the ``offset``. What lists lack is in ``done``
(amounts) and ``spent`` (seconds).
"""

from .sources import Sources
from .total import GONE, LEFT, OUT_OF_VIEW, Source, Total, exact
from .turn_counts import Turns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .counters_record import CountsRecord
    from .total import Number

_MOST_ENDED = 8
_STATES = (OUT_OF_VIEW, GONE, LEFT)
_INHERITED_SECONDS = 60.0  # for which an RMID's cache lines may be its previous user's, who runs on without it


class Inherited:
    """A group that was another key's: its identity, since when it is this key's, and its gauges' values then."""

    __slots__ = ("identity", "lines", "since")

    def __init__(self, identity: str, since: float, lines: "dict[str, int | float]") -> None:
        self.identity = identity
        self.since = since
        self.lines = lines

    def has_waned(self, identity: str, numbers: "dict[str, int | float]", now: float) -> bool:
        """Return whether the values of the group's gauges are this key's alone."""
        waned = all(numbers.get(path, start) < start for path, start in self.lines.items())
        return identity != self.identity or waned or not 0 <= now - self.since < _INHERITED_SECONDS


def class_of(source: str) -> str:
    """Return the RDT class of a source: a class for the key's own group in it, CLASS/GROUP for another group."""
    return source.partition("/")[0] if "/" in source else source


def source_of(rdt_class: str, group: str) -> str:
    """Return the source of another group than the key's own."""
    return f"{rdt_class}/{group}"


def group_of(source: str) -> str:
    """Return the name of a source's group if it is another one than the key's own, else an empty string."""
    return source.partition("/")[2]


class Counts:
    """A key's data.

    Attributes:
        totals: by class.
        sources: its groups; their places are sources as of `class_of`.
        inherited: by class.
        turns: of a time-sharing key.
        ended: of the last groups that ended without a last read, the time of the last one, by place.
        gone: since when the key is released, in seconds since 1970; ``left`` in seconds since the boot.
    """

    __slots__ = ("ended", "gone", "inherited", "left", "sources", "totals", "turns")

    def __init__(self) -> None:
        self.totals: "dict[str, Total]" = {}
        self.sources = Sources()
        self.inherited: "dict[str, Inherited]" = {}
        self.turns = Turns()
        self.ended: "dict[str, float]" = {}
        self.gone: "int | None" = None
        self.left: "float | None" = None

    @property
    def counted(self) -> "set[str]":
        """The classes in which something was counted."""
        return {rdt_class for rdt_class, total in self.totals.items() if total.amounts}

    def total(self, rdt_class: str) -> Total:
        """Return the total of a class."""
        total = self.totals.get(rdt_class)
        if total is None:
            total = self.totals[rdt_class] = Total()
        return total

    def so_far(self, paths: "list[str]") -> "tuple[float, Number]":
        """Return the seconds for which memory traffic was counted, and the bytes; 0 s with several classes."""
        classes = self.counted.union(map(class_of, self.groups))
        if len(classes) != 1:
            return 0.0, 0
        total = self.total(classes.pop())
        seconds = [total.seconds.get(path, 0.0) for path in paths]
        return round(min(seconds, default=0.0), 3), sum(total.amounts.get(path, 0) for path in paths)

    def end_turn(self, paths: "list[str]") -> None:
        """End the present turn; ``paths`` are the files of memory traffic."""
        self.turns.finish(*self.so_far(paths))

    @property
    def groups(self) -> "dict[str, Source]":
        """The groups that the last read has seen, by place."""
        return self.sources.seen

    def note_ended(self, name: str, read: float) -> None:
        """Note the last read of a group that ended before another one: its last counts are lost."""
        self.ended.pop(name, None)
        self.ended = dict([*self.ended.items(), (name, read)][-_MOST_ENDED:])

    def take(self, place: str, group: Source) -> None:
        """Count a group at a place, as when it comes from another class or key, from its last values."""
        self.groups[place] = group
        group.place = place
        for path in group.lasts:
            self.total(class_of(place)).amounts.setdefault(path, 0)

    @classmethod
    def of_record(cls, stored: "CountsRecord", layout: "list[str]", now: float) -> "Counts":
        """Return the data of a record; a group without recorded times was read ``now``."""
        counts = cls()
        for rdt_class, amounts in stored.get("done", {}).items():
            counts.total(rdt_class).amounts = amounts
        for rdt_class, spent in stored.get("spent", {}).items():
            counts.total(rdt_class).seconds = spent
        times: "Any" = stored.get("times", {})
        groups: "list[Any]" = [
            (name, record, times.get(name) or (now, 0, now)) for name, record in stored["groups"].items()
        ]
        unseen: "dict[str, Any]" = stored.get("unseen", {})
        others = ((name, record, (read, 0, read)) for name, (read, *record) in stored.get("others", {}).items())
        groups += [other for other in others if other[1][0] not in unseen]
        for source, (identity, offsets, lasts), (since, gaps, read) in groups:
            group, total = Source(identity, read, place=source), counts.total(class_of(source))
            counts.groups[source] = group
            if not (offsets or total.amounts or None in lasts):  # the usual group
                group.lasts = dict(zip(layout, lasts))
                total.amounts = {**group.lasts}
            else:
                _split(total, group, zip(layout, lasts, offsets or [0] * len(layout)))
            if read > since:
                for path, gap in zip(layout, gaps or [0] * len(layout)):
                    total.seconds[path] = round(total.seconds.get(path, 0.0) + read - since - gap, 3)
        for identity, (place, state, certain, read, offsets, lasts) in unseen.items():
            group = counts.sources.unseen[identity] = Source(identity, read, place=place)
            group.state, group.is_certain = _STATES[state], certain
            _split(Total(), group, zip(layout, lasts, offsets))
        counts.inherited = {name: Inherited(*record) for name, record in stored.get("inherited", {}).items()}
        counts.turns.each, counts.turns.end = stored.get("turns", []), stored.get("turn", counts.turns.end)
        counts.ended = stored.get("ended", {})
        counts.gone, counts.left = stored.get("gone"), stored.get("left")
        return counts

    def as_record(self, layout: "list[str]") -> "CountsRecord":
        """Return the record."""
        stored: "CountsRecord" = {"groups": {}, "times": {}}
        others, done, spent = {}, {}, {}
        for source, group in self.groups.items():
            lasts = [*map(group.lasts.get, layout)]
            if source == class_of(source):
                stored["groups"][source] = [group.identity, _offsets(self.total(source).amounts, group, layout), lasts]
                stored["times"][source] = _times(self.total(source), group, layout)
            else:  # its amounts are in its class's total
                others[source] = [group.read, group.identity, _negative(group, layout), lasts]
        for identity, group in self.sources.unseen.items():
            if group.state == OUT_OF_VIEW:  # earlier versions do not read "unseen", and would count it from 0
                last = [group.read, identity, _negative(group, layout), [*map(group.lasts.get, layout)]]
                others[source_of(class_of(group.place), f"~{identity}")] = last
        for rdt_class, total in self.totals.items():
            present = self.groups.get(rdt_class)
            if present is None:
                done[rdt_class], spent[rdt_class] = total.amounts, total.seconds
            elif total.amounts.keys() != present.lasts.keys():
                done[rdt_class] = {path: one for path, one in total.amounts.items() if path not in present.lasts}
                spent[rdt_class] = {path: one for path, one in total.seconds.items() if path not in layout}
        optional = {
            "done": {name: amounts for name, amounts in done.items() if amounts},
            "spent": {
                name: {path: round(one, 3) for path, one in seconds.items()}
                for name, seconds in spent.items()
                if seconds
            },
            "others": others,
            "unseen": {
                identity: [
                    *(group.place, _STATES.index(group.state), group.is_certain, group.read),
                    *(_negative(group, layout), [*map(group.lasts.get, layout)]),
                ]
                for identity, group in self.sources.unseen.items()
            }
            if self.sources.unseen
            else None,
            "inherited": {name: [one.identity, one.since, one.lines] for name, one in self.inherited.items()},
            "turns": self.turns.each,
            "turn": self.turns.each and self.turns.end,
            "ended": self.ended,
            "gone": self.gone,
            "left": self.left if self.gone else None,
        }
        stored.update({name: value for name, value in optional.items() if value})  # type: ignore[typeddict-item]  # its keys
        return stored


def _split(total: Total, group: Source, values: "Iterable[tuple[str, Number | None, Number | None]]") -> None:
    """Set a group's last values, or where it has none the start values, and add to its amounts."""
    for path, last, offset in values:
        amount = (last or 0) + (offset or 0)
        if last is not None:
            group.lasts[path] = last
        elif amount <= 0:
            group.starts[path] = None if offset is None else -offset
            continue
        total.amounts[path] = exact(total.amounts.get(path, 0) + amount)


def _offsets(amounts: "dict[str, Number]", group: Source, layout: "list[str]") -> "list[Number | None] | int":
    """Return the amounts less the last values, or without one the negative start values; 0 if all are 0."""
    if amounts == group.lasts and len(amounts) == len(layout):
        return 0
    return _less(amounts, group, layout)


def _negative(group: Source, layout: "list[str]") -> "list[Number | None]":
    """Return the negative last values, or without one the negative start values."""
    return _less(dict.fromkeys(layout, 0), group, layout)


def _less(amounts: "dict[str, Number]", group: Source, layout: "list[str]") -> "list[Number | None]":
    found: "list[Number | None]" = []
    for path in layout:
        last, start = group.lasts.get(path), group.start(path)
        found.append(exact(amounts[path] - last) if last is not None else start and -start)
    return found


def _times(total: Total, group: Source, layout: "list[str]") -> "list[Any]":
    """Return when the longest count began, the seconds that each count lacks (0 if all are 0), and the last read."""
    seconds = [*map(total.seconds.get, layout)]
    whole = max(filter(None, seconds), default=0.0)
    gaps = [round(whole - (one or 0.0), 3) for one in seconds] if {*seconds} != {whole} else None
    return [round(group.read - whole, 3), gaps if gaps and any(gaps) else 0, group.read]
