"""Counter data that is carried over the ends of groups on disk, so that a key's totals never decrease.

The lock of `totals_file` protects its file. Each amount has the seconds in which it was counted, from one valid value
to the next, so that their quotient is the rate in any case.
"""

import time

from ..file_shapes import COUNTERS, COUNTS
from .counters import CUMULATIVE, GAUGE, UNASSIGNED, slot_at
from .key_counts import Counts, Inherited, class_of, group_of
from .layouts import PERF
from .total import Source, Total
from .totals_file import KEYS, load_totals, save_totals, take_saved
from .turn_counts import is_counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from ..ledger import Ledger
    from ..log import LogCallable
    from ..node_records import CountsRecord
    from .counters import Raw, Slot
    from .filesystem import Resctrl

    class Counted(Protocol):
        """The part of a `Monitor` that counters need."""

        resctrl: Resctrl
        ledger: Ledger
        group_prefix: str
        patience: float
        boot: str
        log: LogCallable


_REMEMBERED_SECONDS = 3600  # a released key that returns, as for a restarted container, continues counting
_REMEMBERED_KEYS = 1000


class Carried:
    """The file's content.

    Attributes:
        slots: the files to read; before `see`, those of the last read.
        seen: whether `see` has set the files.
        began: when the counters were assigned that have their first value now, if known.
        now: the time of this read, in seconds since the boot.

    Raises:
        LedgerError: the file is unreadable.
    """

    def __init__(self, node: "Counted") -> None:
        self._ledger = node.ledger
        self._boot = node.boot
        self.began: "float | None" = None
        self.now = round(time.clock_gettime(time.CLOCK_BOOTTIME), 3)
        self._layout: "list[str]" = []
        self._unread: "dict[str, CountsRecord]" = {}
        self._counts: "dict[str, Counts]" = {}
        saved = take_saved(node.ledger, node.boot, KEYS)
        if saved:
            self._layout, self._unread, self._counts = saved
        else:
            fields = load_totals(node.ledger, node.boot, KEYS, COUNTERS, node.log)
            self._layout, self._unread = fields.get("layout", []), fields.get("keys", {})
        self.seen = False
        self.slots = list(map(slot_at, self._layout))
        self._cumulative: "list[tuple[int, str]]" = []
        self._energy: "list[tuple[int, str]]" = []
        self._in_turns = [(place, slot.path) for place, slot in enumerate(self.slots) if is_counted(slot)]

    def save(self) -> None:
        """Replace the file; raises LedgerError if it can't be written."""
        read = {key: counts.as_record(self._layout) for key, counts in self._counts.items()}
        content = self._layout, self._unread, self._counts
        fields = {"layout": self._layout, "keys": {**self._unread, **read}}
        save_totals(self._ledger, self._boot, KEYS, fields, content)

    def keys(self) -> "set[str]":
        """Return the keys with data."""
        return {*self._unread, *self._counts}

    def of(self, key: str) -> Counts:
        """Return a key's data, which is empty if there is none or if it is damaged."""
        if key in self._unread:
            record = self._unread.pop(key)
            if COUNTS(record):
                self._counts[key] = Counts.of_record(record, self._layout, self.now)
        return self._counts.get(key) or Counts()

    def see(self, slots: "list[Slot]") -> None:
        """Set the files to read. A file that returns, as after a CPU hotplug, begins as a new group's does."""
        if not slots:
            return
        self.seen, self.slots = True, slots
        places = [(place, slot) for place, slot in enumerate(slots) if slot.counter.kind == CUMULATIVE]
        self._cumulative = [(place, slot.path) for place, slot in places]
        self._energy = [(place, slot.path) for place, slot in places if slot.domain.resource == PERF]
        self._in_turns = [(place, slot.path) for place, slot in places if is_counted(slot)]
        paths = [slot.path for _, slot in places]
        if paths == self._layout:
            return
        for group in [group for key in self.keys() for group in self.of(key).groups.values()]:
            for path in set(self._layout).difference(paths):
                group.forget(path)
        self._layout = paths

    def update(self, key: str, groups: "dict[str, tuple[str, list[Raw]]]") -> None:
        """Count a key's groups; by source (see `class_of`), the group's identity and its files' content.

        The content becomes 0 for a package in which a group's RMID never ran.
        """
        counts = self.of(key)
        if not groups and key not in self._counts:
            return
        self._counts[key], counts.gone = counts, None
        before, counts.groups = counts.groups, {}
        known = {group.identity: (source, group) for source, group in before.items()}
        counts.note_ended(before, {identity for identity, _ in groups.values()})
        parts: "dict[str, list[Total]]" = {}
        alone = len({*map(class_of, groups)}) == len(groups)
        for source, (identity, values) in groups.items():
            rdt_class = class_of(source)
            if identity in known:
                place, group = known[identity]
                since = None if self.began is None else min(max(self.began, group.read), self.now)
            else:
                place, group = source, self._new(key, source, identity)
                since = group.read
            if class_of(place) == rdt_class:
                counts.groups[source] = group
            else:
                counts.take(source, group)
            for number, path in self._energy:
                if group.is_unused(path, values[number]):
                    values[number] = 0
            total = counts.total(rdt_class)
            part = total if alone else total.without_seconds()
            parts.setdefault(rdt_class, []).append(part)
            part.add(group, [(path, values[number]) for number, path in self._cumulative], self.now, since)
        if not alone:
            for rdt_class, of_class in parts.items():
                counts.total(rdt_class).spend(of_class)
        if not groups or any(isinstance(of[1][place], str) for of in groups.values() for place, _ in self._in_turns):
            counts.turns.finish(*self._so_far(counts))
        if counts.inherited:
            self._trust(counts, groups)

    def others(self, key: str) -> "list[str]":
        """Return the sources of a key's other groups than its own, as of the last read."""
        return [source for source in self.of(key).groups if group_of(source)]

    def turns(self, key: str) -> "list[tuple[float, float]]":
        """Return a key's counts in each of its turns, as in `turn_counts`: seconds and bytes."""
        counts = self.of(key)
        return counts.turns.with_present(*self._so_far(counts)) if counts.turns.each else []

    def _so_far(self, counts: Counts) -> "tuple[float, int | float]":
        """Return the seconds for which memory traffic was counted, and the bytes; 0 s with several classes."""
        classes = counts.counted.union(map(class_of, counts.groups))
        if len(classes) != 1:
            return 0.0, 0
        total = counts.total(classes.pop())
        seconds = [total.seconds.get(path, 0.0) for _, path in self._in_turns]
        return round(min(seconds, default=0.0), 3), sum(total.amounts.get(path, 0) for _, path in self._in_turns)

    def _new(self, key: str, source: str, identity: str) -> Source:
        """Return a new group, which counts from its creation if that time is known, and its energy from the value then.

        mkdir starts the L3 counters at zero, but PERF_PKG's continue from the RMID's previous user.
        """
        record = self._ledger.read_pod(key) or {}
        made = record.get("since", {}).get(source, self.now)
        of, starts = record.get("baselines", {}).get(source, ("", {}))
        return Source(identity, min(made, self.now), starts if of == identity else None)

    def inherit(self, key: str, rdt_class: str, identity: str, values: "list[Raw]") -> None:
        """Count a group that a key is about to take over, with RMID and counters, from its present values.

        Idempotent; it adds nothing if the key never gets the group. The giver must be brought up to date first with
        `update`.
        """
        counts = self._counts[key] = self.of(key)
        counts.gone = None
        if counts.groups.pop(rdt_class, None):
            counts.turns.finish(*self._so_far(counts))
        group = Source(identity, self.now)
        for place, path in self._cumulative:
            value = values[place]
            if isinstance(value, (int, float)):
                group.lasts[path] = value
            elif value != UNASSIGNED:
                group.starts[path] = None  # unreadable just now: the next value is the start
        counts.take(rdt_class, group)
        gauges = {
            slot.path: value
            for slot, value in zip(self.slots, values)
            if slot.counter.kind == GAUGE and value and not isinstance(value, str)
        }
        counts.inherited[rdt_class] = Inherited(identity, self.now, gauges)

    def _trust(self, counts: Counts, groups: "dict[str, tuple[str, list[Raw]]]") -> None:
        """Forget that groups were inherited, once their gauges' values are their own."""
        for rdt_class, inherited in list(counts.inherited.items()):
            identity, values = groups.get(rdt_class, ("", []))
            numbers = {slot.path: n for slot, n in zip(self.slots, values) if isinstance(n, (int, float))}
            if inherited.has_waned(identity, numbers, self.now):
                del counts.inherited[rdt_class]

    def forget(self, tracked: "set[str]") -> None:
        """Drop the data of released keys after a while."""
        now = int(time.time())
        released: "list[tuple[int, str]]" = []
        for key in self.keys() - tracked:
            counts = self.of(key)
            if counts.gone is None:
                counts.groups, counts.gone = {}, now
            released.append((counts.gone, key))
        for number, (gone, key) in enumerate(sorted(released, reverse=True)):
            if number >= _REMEMBERED_KEYS or now - gone > _REMEMBERED_SECONDS:
                self._counts.pop(key, None)
