"""Counter data that is carried over the ends of groups on disk, so that a key's totals never decrease.

The lock of `totals_file` protects its file. Each amount has the seconds in which it was counted, from one valid value
to the next, so that their quotient is the rate in any case.
"""

import time

from ..shapes import fits
from .counters import CUMULATIVE, GAUGE, UNASSIGNED, slot_at
from .counters_record import CountersRecord, CountsRecord
from .key_counts import Counts, Inherited, class_of, group_of
from .layouts import PERF
from .mounts import witnesses
from .sources import began_at, drop_repeats, is_new, new_source
from .total import GONE, LEFT, OUT_OF_VIEW, Source, Total
from .totals_file import KEYS, load_totals, save_or_keep, save_totals, take_saved
from .turn_counts import counted_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from ..ledger import Ledger
    from ..log import LogCallable
    from .counters import Raw, Slot
    from .filesystem import Resctrl
    from .sources import Found

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
        slots: the files to read; before `see`, the cumulative ones of the last read.
        known: the files of the last read, as far as this process knows them.
        mount: the times of resctrl's folders (`mounts.witnesses`).
        seen: whether `see` has set the files.
        began: when the counters were assigned that have their first value now, if known.
        now: the time of this read, in seconds since the boot.

    Raises:
        LedgerError: the file is unreadable.
    """

    def __init__(self, node: "Counted") -> None:
        self._ledger = node.ledger
        self._boot = node.boot
        self._log = node.log
        self.began: "float | None" = None
        self.now = round(time.clock_gettime(time.CLOCK_BOOTTIME), 3)
        self._layout: "list[str]" = []
        self._unparsed: "dict[str, CountsRecord]" = {}
        self._counts: "dict[str, Counts]" = {}
        self._sources: "dict[str, Source] | None" = None
        self.mount: "list[str]" = []
        saved = take_saved(node.ledger, node.boot, KEYS)
        if saved:
            self._layout, self._unparsed, self._counts, self.mount, self.known = saved
        else:
            fields = load_totals(node.ledger, node.boot, KEYS, CountersRecord, node.log)
            self._layout, self._unparsed = fields.get("layout", []), fields.get("keys", {})
            self.mount = fields.get("mount", [])
            self.known = list(map(slot_at, self._layout))
        self.seen = False
        self.slots = list(map(slot_at, self._layout))
        self._cumulative: "list[tuple[int, str]]" = []
        self._energy: "list[tuple[int, str]]" = []
        self._in_turns = [path for _, path in counted_in(self.slots)]
        self._turn_places: "list[int]" = []

    def save(self) -> None:
        """Replace the file; raises LedgerError if it can't be written."""
        save_totals(self._ledger, self._boot, KEYS, self._fields(), self._content())

    def save_or_keep(self) -> None:
        """Replace the file; while it can't be written, the next read of this process continues from memory."""
        save_or_keep(self._ledger, self._boot, KEYS, self._content(), self._fields, self._log)

    def _fields(self) -> "dict[str, Any]":
        read = {key: counts.as_record(self._layout) for key, counts in self._counts.items()}
        return {"layout": self._layout, "keys": {**self._unparsed, **read}, "mount": self.mount}

    def _content(self) -> "Any":
        return self._layout, self._unparsed, self._counts, self.mount, self.known

    def keys(self) -> "set[str]":
        """Return the keys with data."""
        return {*self._unparsed, *self._counts}

    def of(self, key: str) -> Counts:
        """Return a key's data, which is empty if there is none or if it is damaged."""
        if key in self._unparsed:
            record = self._unparsed.pop(key)
            if fits(CountsRecord, record):
                self._counts[key] = Counts.of_record(record, self._layout, self.now)
        return self._counts.get(key) or Counts()

    def see(self, slots: "list[Slot]") -> None:
        """Set the files to read. A file that returns, as after a CPU hotplug, begins as a new group's does."""
        if not slots:
            return
        self.seen, self.slots, self.known = True, slots, slots
        places = [(place, slot) for place, slot in enumerate(slots) if slot.counter.kind == CUMULATIVE]
        self._cumulative = [(place, slot.path) for place, slot in places]
        self._energy = [(place, slot.path) for place, slot in places if slot.domain.resource == PERF]
        in_turns = counted_in(slots)
        self._in_turns = [path for _, path in in_turns]
        self._turn_places = [place for place, _ in in_turns]
        paths = [slot.path for _, slot in places]
        if paths == self._layout:
            return
        gone = set(self._layout).difference(paths)
        for group in self._all_sources():  # records that are not read yet have the former layout
            for path in gone:
                group.forget(path)
        self._layout = paths

    def check_mount(self, root: str) -> None:
        """Let all groups be uncertain if resctrl may have been mounted again since the last read."""
        before = self.mount
        self.mount, is_same = witnesses(root, before)
        if not is_same:
            for key in self.keys():
                self.of(key).sources.doubt()

    def _all_sources(self) -> "list[Source]":
        counts = map(self.of, self.keys())
        return [group for one in counts for group in (*one.sources.unseen.values(), *one.groups.values())]

    def update(
        self,
        key: str,
        groups: "Found",
        *,
        hidden: bool = False,
        look_again: "Callable[[str, Found], bool] | None" = None,
    ) -> None:
        """Count a key's groups; by place (see `class_of`), the group's identity and its files' content.

        The content becomes 0 for a package in which a group's RMID never ran.

        Args:
            key: the key.
            groups: those that were found.
            hidden: whether there may be more, which could not be looked at.
            look_again: adds groups that were missed, and returns whether everything could be looked at.
        """
        counts = self.of(key)
        if not groups and key not in self._counts:
            return
        self._counts[key], counts.gone = counts, None
        new: "set[str] | tuple[()]" = ()
        if not counts.sources.are_as_before(groups):
            if look_again is not None and not hidden and counts.sources.lack(groups):
                hidden = not look_again(key, groups)
            new = self._observe(key, counts, groups, hidden=hidden)
        parts: "dict[str, list[Total]]" = {}
        alone = len({*map(class_of, groups)}) == len(groups)
        for place, (identity, values) in groups.items():
            rdt_class, group = class_of(place), counts.groups[place]
            if identity in new:
                since: "float | None" = group.read
            else:
                since = None if self.began is None else min(max(self.began, group.read), self.now)
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
        is_ungrouped = not groups and not hidden
        if is_ungrouped or any(isinstance(of[1][place], str) for of in groups.values() for place in self._turn_places):
            counts.end_turn(self._in_turns)
        if counts.inherited:
            self._trust(counts, groups)

    def _observe(self, key: str, counts: Counts, groups: "Found", *, hidden: bool) -> "set[str]":
        """Find each group's source, and note the groups that ended; return the identities of the new ones."""
        drop_repeats(groups)
        record = self._ledger.read_pod(key) or {}
        missed = {identity for identity, group in counts.sources.unseen.items() if group.state == GONE}
        new: "set[str]" = set()

        def judge(known: "Source | None", place: str, identity: str) -> Source:
            other, began = self._elsewhere(identity), began_at(record, place)
            if known is not None and known.is_certain:
                return known if other is None or other.read <= known.read else other.continued()
            values = [(path, groups[place][1][number]) for number, path in self._cumulative]
            if known is not None and not is_new(known, began):
                known.is_certain = True
                if known.weaken(values) or began is None:
                    counts.note_ended(group_of(place) or key, known.read)
                return known
            if known is None and other is not None and (began is None or began <= other.read):
                return other.continued()  # another program renamed it
            new.add(identity)
            return new_source(record, place, identity, self.now)

        for group in counts.sources.observe(groups, judge, hidden=hidden):
            counts.note_ended(group_of(group.place) or key, group.read)
        for place, group in counts.groups.items():
            name = group_of(place) or key
            if group.identity in missed and counts.ended.get(name) == group.read:
                del counts.ended[name]
            counts.take(place, group)
        return new

    def _elsewhere(self, identity: str) -> "Source | None":
        """Return the source of any key with this identity that was read last."""
        if self._sources is None:
            self._sources = {group.identity: group for group in sorted(self._all_sources(), key=lambda one: one.read)}
        return self._sources.get(identity)

    def others(self, key: str) -> "list[str]":
        """Return the places of a key's other groups than its own, which were not gone at the last read."""
        sources = self.of(key).sources
        places = [*sources.seen]
        if sources.unseen:
            places += [group.place for group in sources.unseen.values() if group.state != GONE]
        return [place for place in dict.fromkeys(places) if "/" in place]

    def turns(self, key: str) -> "list[tuple[float, float]]":
        """Return a key's counts in each of its turns, as in `turn_counts`: seconds and bytes."""
        counts = self.of(key)
        return counts.turns.with_present(*counts.so_far(self._in_turns)) if counts.turns.each else []

    def inherit(self, key: str, rdt_class: str, identity: str, values: "list[Raw]") -> None:
        """Count a group that a key is about to take over, with RMID and counters, from its present values.

        Idempotent; it adds nothing if the key never gets the group. The giver must be brought up to date first with
        `update`.
        """
        counts = self._counts[key] = self.of(key)
        counts.gone = None
        if rdt_class in counts.groups:
            counts.sources.leave(OUT_OF_VIEW, [rdt_class])
            counts.end_turn(self._in_turns)
        counts.sources.unseen.pop(identity, None)
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

    def leave(self, key: str, classes: "list[str]") -> None:
        """Note that a key is about to give away or to remove its groups in these classes, which have just been read."""
        self.of(key).sources.leave(LEFT, classes)

    def _trust(self, counts: Counts, groups: "Found") -> None:
        """Forget that groups were inherited, once their gauges' values are their own."""
        for rdt_class, inherited in list(counts.inherited.items()):
            identity, values = groups.get(rdt_class, ("", []))
            numbers = {slot.path: n for slot, n in zip(self.slots, values) if isinstance(n, (int, float))}
            if inherited.has_waned(identity, numbers, self.now):
                del counts.inherited[rdt_class]

    def forget(self, tracked: "set[str]") -> None:
        """Drop the data of released keys after a while."""
        released: "list[tuple[float, str]]" = []
        for key in self.keys() - tracked:
            counts = self.of(key)
            if counts.gone is None:
                counts.sources.leave(GONE)  # a shared one may stay, and returns with its key
                counts.gone, counts.left = int(time.time()), None
            counts.left = min(self.now, counts.left if counts.left is not None else self.now)
            released.append((counts.left, key))
        for number, (left, key) in enumerate(sorted(released, reverse=True)):
            if number >= _REMEMBERED_KEYS or self.now - left > _REMEMBERED_SECONDS:
                self._counts.pop(key, None)
