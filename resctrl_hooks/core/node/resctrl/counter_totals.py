"""Totals of counters that never decrease: each key's counts, carried on disk over all changes of its groups.

A group may be recreated, moved to another class, reset, or read by several programs. The file ``totals/counters`` is
read and replaced once per scrape, under its own lock; `group_moves` saves a group's counts before its removal.
"""

from ..host.files import GONE
from ..ledger import RUNTIMES
from ..ledger import WAITING as WAITING_KEYS
from .carried import Carried
from .counter_files import read_group
from .counters import AVAILABLE, CUMULATIVE, ERROR, INHERITED, WAITING, Reading
from .group_names import Names
from .key_counts import Counts, class_of, group_of, source_of
from .looks import look_at, see
from .total import Total
from .totals_file import LOCK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .carried import Counted
    from .counters import Domain, Raw, Slot
    from .sources import Found


def read_counters(
    monitor: "Counted",
    keys: "list[str] | None" = None,
    *,
    by_class: bool = True,
    began: "float | None" = None,
    read_one: "Callable[[str, list[Slot]], tuple[str, list[Raw]]]" = read_group,
) -> "Scrape":
    """Read the counters of these keys, or of every tracked key, once.

    Args:
        monitor: the node.
        keys: the keys; None for all.
        by_class: return readings of each RDT class rather than the sums over them.
        began: when some of the counters were assigned, in seconds since the boot.
        read_one: reads a group.

    Raises:
        LedgerError: the state directory is unusable.
        NotMountedError: resctrl is not mounted.
    """
    with monitor.ledger.lock_totals(LOCK, monitor.patience):
        return Scrape(monitor, read_one, began).run(keys, by_class=by_class)


def turns(monitor: "Counted", key: str) -> "list[tuple[float, float]]":
    """Return the seconds and bytes of each turn of a key, from the last read; empty without turns."""
    with monitor.ledger.lock_totals(LOCK, monitor.patience):
        return Carried(monitor).turns(key)


def ended(monitor: "Counted", key: str) -> "dict[str, float]":
    """Return the last read of each group of a key that another program has removed, in seconds since the boot.

    The names are those of the groups; the key's own group has the key.
    """
    with monitor.ledger.lock_totals(LOCK, monitor.patience):
        return Carried(monitor).of(key).ended


class Scrape:
    """One read of tracked keys, which adds to their carried counts.

    Attributes:
        when: the time, in seconds since the boot.
        slots: the files of each group.
        readings: by key.
        found: by key, its groups; a group's class, and the name of another group than the key's own, follow from its
            place (`key_counts.class_of`).
        listed: by class, the names of all of its groups; empty in a read of a few keys.
        turns: by key, the seconds and bytes of each turn of time-sharing keys.
        names: the names of the keys' own groups.
        mount: the times of resctrl's folders (`mounts.witnesses`).
    """

    def __init__(
        self,
        monitor: "Counted",
        read_one: "Callable[[str, list[Slot]], tuple[str, list[Raw]]]",
        began: "float | None",
    ) -> None:
        self._monitor = monitor
        self._read_one = read_one
        self._resctrl = monitor.resctrl
        self._classes = ["", *sorted(self._resctrl.classes())]
        self._waiting = set(monitor.ledger.marked(WAITING_KEYS))
        self._carried = Carried(monitor)
        self._carried.began = began
        self._carried.check_mount(self._resctrl.root)
        see(self._resctrl, self._carried, self._resctrl.root)
        self.when, self.mount = self._carried.now, self._carried.mount

    def run(self, keys: "list[str] | None", *, by_class: bool) -> "Scrape":
        """Read these keys, or with None all; return itself."""
        # Listed before the records are read: a listed group of ours has its record already.
        self.listed = {name: self._resctrl.groups(name) for name in self._classes} if keys is None else {}
        self.names = Names(self._monitor)
        tracked = set(self._monitor.ledger.keys())
        requested = tracked if keys is None else tracked.intersection(keys)
        self.found: "dict[str, Found]" = {key: {} for key in sorted(requested)}
        hidden: "set[str]" = set()  # keys with a group that cannot be looked at now
        for place, key, folder in [*self._folders(requested), *self._of_runtimes(requested)]:
            if not self._carried.seen:  # a plain tree whose root has no counters
                see(self._resctrl, self._carried, folder)
            try:
                self.found[key][place] = self._read_one(folder, self._carried.slots)
            except OSError as error:
                if error.errno not in GONE:
                    hidden.add(key)
        for key, groups in self.found.items():
            self._carried.update(key, groups, hidden=key in hidden, look_again=self._look_again)
        self._carried.forget(tracked)
        self._carried.save_or_keep()
        self.slots = self._carried.slots
        by_key = {key: self._by_class(key, groups) for key, groups in self.found.items()}
        self.readings = by_key if by_class else {key: summed(readings) for key, readings in by_key.items()}
        self.turns = {key: turns for key in self.found if (turns := self._carried.turns(key))}
        return self

    def _look_again(self, key: str, groups: "Found") -> bool:
        """Look for a key's groups again, some of which are missing: another program may have renamed them meanwhile.

        Return whether everything could be looked at.
        """
        names = {"", *map(group_of, self._carried.others(key))}
        places: "dict[str, str]" = {}
        for rdt_class in reversed(["", *sorted(self._resctrl.classes())]):
            for name in names:
                folder = self._resctrl.group_folder(rdt_class, name or self.names.of(key, rdt_class))
                places[source_of(rdt_class, name) if name else rdt_class] = folder
        found, hidden = look_at(places, self._carried.slots, self._read_one)
        for place in found:
            groups.pop(place, None)
        groups.update(found)
        return not hidden

    def _folders(self, requested: "set[str]") -> "list[tuple[str, str, str]]":
        """Class, key and folder of each group that may be there: of those that are listed, if any are."""
        folders = []
        for rdt_class in self._classes:
            base = self._resctrl.group_folder(rdt_class, "")
            if self.listed:
                names = self.names.found(rdt_class, self.listed[rdt_class], requested)
            else:
                names = {key: self.names.of(key, rdt_class) for key in requested}
            folders += [(rdt_class, key, f"{base}{names[key]}") for key in sorted(names)]
        return folders

    def _of_runtimes(self, requested: "set[str]") -> "list[tuple[str, str, str]]":
        """Source, key and folder of each group that a runtime may have created for a container of a key.

        A known one is read until it is gone, also if its container is not recorded any more.
        """
        ledger = self._monitor.ledger
        found = {source: key for key in requested for source in self._carried.others(key)}
        if ledger.flagged(RUNTIMES):
            members = [] if self.listed else [member for key in requested for member in ledger.members(key)]
            for rdt_class in self._classes:
                own = {self.names.of(key, rdt_class) for key in requested}
                for name in set(self.listed.get(rdt_class, members)) - own:
                    key = ledger.key_of(name)
                    if key in requested and (ledger.read_member(key, name) or {}).get("runtimeGroup"):
                        found.setdefault(source_of(rdt_class, name), key)
        return [
            (source, key, self._resctrl.group_folder(class_of(source), group_of(source)))
            for source, key in found.items()
        ]

    def _by_class(self, key: str, found: "Found") -> "list[Reading]":
        """Return a key's readings; of a class without a group, its earlier counts."""
        counts = self._carried.of(key)
        slots = self._carried.slots
        lost = {*map(class_of, counts.sources.out_of_view())} if counts.sources.unseen else ()
        if not found and not lost:
            return self._of_waiting(key, counts)
        values: "dict[str, list[Raw]]" = {}
        for source, (_, raw) in found.items():
            name = class_of(source)
            values[name] = list(map(_together, values[name], raw)) if name in values else raw
        values.update({name: [ERROR] * len(slots) for name in lost})
        readings: "list[Reading]" = []
        for rdt_class in sorted(counts.counted.union(values)):
            total = counts.total(rdt_class)
            lines = counts.inherited[rdt_class].lines if rdt_class in counts.inherited else ()
            for slot, value in zip(slots, values.get(rdt_class) or [total.amounts.get(slot.path) for slot in slots]):
                if value is None:
                    continue
                state = AVAILABLE if value.__class__ is not str else value
                if lines and state == AVAILABLE and slot.path in lines:
                    state = INHERITED  # it may be of the RMID's previous user
                readings.append(_reading(slot, state, total, rdt_class, value))
        return readings

    def _of_waiting(self, key: str, counts: Counts) -> "list[Reading]":
        """Return the readings of a key without a group: its earlier counts, by class."""
        classes: "list[str | None]" = [*sorted(counts.counted)]
        if not classes and key not in self._waiting:
            return []  # it is not meant to be counted
        return [
            _reading(slot, WAITING, counts.totals.get(name or "", Total()), name)
            for name in classes or [None]
            for slot in self._carried.slots
        ]


def _reading(slot: "Slot", state: str, total: Total, rdt_class: "str | None", value: "Raw" = None) -> Reading:
    """Return a reading: a total with its seconds, also without a value now, or a gauge's value if it has one."""
    if slot.counter.kind == CUMULATIVE:
        seconds = round(total.seconds.get(slot.path, 0.0), 3)
        return Reading(slot.domain, slot.counter, total.amounts.get(slot.path), state, rdt_class, seconds)
    known = value if state is AVAILABLE and not isinstance(value, str) else None
    return Reading(slot.domain, slot.counter, known, state, rdt_class)


def _together(one: "Raw", other: "Raw") -> "Raw":
    """Return the sum of two groups' values in a file; a word if either has no value."""
    if one is None or isinstance(other, str):
        return other
    return one if other is None or isinstance(one, str) else one + other


def summed(readings: "list[Reading]") -> "list[Reading]":
    """Return the sums of readings by class; a missing part is marked in the sum.

    A gauge then has no value. A total has the known parts.
    """
    if len({part.rdt_class for part in readings}) == 1:
        return [_without_class(part) for part in readings]
    sums: "dict[tuple[Domain, str], Reading]" = {}
    for part in readings:
        place = part.domain, part.counter.name
        known = sums.get(place)
        if known is None:
            sums[place] = _without_class(part)
            continue
        if part.seconds is not None:  # classes may count at the same time, so it is not a sum
            known.seconds = max(known.seconds or 0.0, part.seconds)
        if known.state == AVAILABLE:
            known.state = part.state
        if known.kind == CUMULATIVE or known.state == AVAILABLE:
            known.value = _sum(known.value, part.value)
        else:
            known.value = None
    return list(sums.values())


def _without_class(part: Reading) -> Reading:
    return Reading(part.domain, part.counter, part.value, part.state, None, part.seconds)


def _sum(one: "int | float | None", other: "int | float | None") -> "int | float | None":
    return one if other is None else other if one is None else one + other
