"""Totals of counters that never decrease: each key's counts, carried on disk over all changes of its groups.

A group may be recreated, moved to another class, reset, or read by several programs. The file ``totals/counters`` is
read and replaced once per scrape, under its own lock; to save a group's counts before its removal, read its key.
"""

from ..ledger import WAITING as WAITING_KEYS
from .carried import NOTHING, Carried
from .counter_files import layout, read_group
from .counters import AVAILABLE, CUMULATIVE, INHERITED, MON_DATA, WAITING, Reading
from .group_counts import GroupCounts, Inherited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ..ledger import Ledger
    from .counters import Domain, Raw, Slot
    from .filesystem import Resctrl

    class Counted(Protocol):
        """The part of a `Monitor` that counters need."""

        resctrl: Resctrl
        ledger: Ledger
        group_prefix: str
        patience: float
        boot: str

    Found = dict[str, tuple[str, list[Raw]]]  # by class: the group's identity, and each file's value

LOCK = "counters"
_PATIENCE = 0.5  # seconds that a handing-on waits for a scrape to end: a container's start may wait for it


class Look:
    """The result of one read of tracked keys.

    Attributes:
        when: the time, in seconds since the boot.
        slots: the files of each group.
        readings: by key.
        groups: by class and key, the group's identity and each file's value, in the order of ``slots``.
        listed: by class, the names of all of its groups; empty in a read of a few keys.
        turns: by key, the seconds and bytes of each turn of time-sharing keys.
    """

    __slots__ = ("groups", "listed", "readings", "slots", "turns", "when")

    def __init__(self, when: float, slots: "list[Slot]", listed: "dict[str, list[str]]") -> None:
        self.when = when
        self.slots = slots
        self.listed = listed
        self.readings: "dict[str, list[Reading]]" = {}
        self.groups: "dict[tuple[str, str], tuple[str, list[Raw]]]" = {}
        self.turns: "dict[str, list[tuple[float, float]]]" = {}


def look(
    monitor: "Counted",
    keys: "list[str] | None" = None,
    *,
    by_class: bool = True,
    began: "float | None" = None,
    read_one: "Callable[[str, list[Slot]], tuple[str, list[Raw]]]" = read_group,
) -> Look:
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
        return _Scrape(monitor, read_one, began).run(keys, by_class=by_class)


def turns(monitor: "Counted", key: str) -> "list[tuple[float, float]]":
    """Return the seconds and bytes of each turn of a key, from the last read; empty without turns."""
    with monitor.ledger.lock_totals(LOCK, monitor.patience):
        return Carried(monitor.ledger, monitor.boot).turns(key)


def settle(
    monitor: "Counted",
    giver: "tuple[str, str]",
    classes: "list[str]",
    taker: "tuple[str, str]",
    rename: "Callable[[], bool]",
) -> bool:
    """Prepare a handover: save the giver's counts, and start the taker's at the group's present values.

    ``giver`` and ``taker`` are a key and a class each, ``classes`` all in which the giver has groups. ``rename`` is
    called under the counters' lock, so that no scrape intervenes; its result is returned.

    Raises:
        LedgerError, LockTimeoutError: the state directory is unusable; nothing was renamed.
    """
    key, rdt_class = giver
    with monitor.ledger.lock_totals(LOCK, _PATIENCE):
        carried = Carried(monitor.ledger, monitor.boot)
        folders = {name: monitor.resctrl.group_folder(name, monitor.group_prefix + key) for name in classes}
        carried.see(layout(f"{folders[rdt_class]}/{MON_DATA}"))
        found: "Found" = {}
        for name, folder in folders.items():
            try:
                found[name] = read_group(folder, carried.slots)
            except OSError:
                continue
        if rdt_class not in found:
            return False
        carried.update(key, found)
        carried.inherit(*taker, *found[rdt_class])
        carried.save()
        return rename()


class _Scrape:
    """Reader of some keys' raw counters that adds their carried counts."""

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
        self._carried = Carried(monitor.ledger, monitor.boot)
        self._carried.began = began
        self._carried.see(layout(f"{self._resctrl.root}/{MON_DATA}"))

    def run(self, keys: "list[str] | None", *, by_class: bool) -> Look:
        # Listed before the records are read: a listed group of ours has its record already.
        listed = {name: self._resctrl.groups(name) for name in self._classes} if keys is None else {}
        tracked = set(self._monitor.ledger.keys())
        wanted = tracked if keys is None else tracked.intersection(keys)
        found: "dict[str, Found]" = {key: {} for key in sorted(wanted)}
        for rdt_class, key, folder in self._folders(wanted, listed):
            if not self._carried.seen:  # a plain tree whose root has no counters
                self._carried.see(layout(f"{folder}/{MON_DATA}"))
            try:
                found[key][rdt_class] = self._read_one(folder, self._carried.slots)
            except OSError:
                continue  # just removed, or not a group
        for key, groups in found.items():
            self._carried.update(key, groups)
        self._carried.forget(tracked)
        self._carried.save()
        result = Look(self._carried.now, self._carried.slots, listed)
        for key, groups in found.items():
            readings = self._by_class(key, groups)
            result.readings[key] = readings if by_class else summed(readings)
            for rdt_class, group in groups.items():
                result.groups[rdt_class, key] = group
            if "turns" in self._carried.keys.get(key, ()):
                result.turns[key] = self._carried.turns(key)
        return result

    def _folders(self, wanted: "set[str]", listed: "dict[str, list[str]]") -> "list[tuple[str, str, str]]":
        """Class, key and folder of each group that may be there: of those ``listed``, if any are."""
        prefix = self._monitor.group_prefix
        folders = []
        for rdt_class in self._classes:
            base = self._resctrl.group_folder(rdt_class, "")
            keys = {name[len(prefix) :] for name in listed[rdt_class]} & wanted if listed else wanted
            folders += [(rdt_class, key, f"{base}{prefix}{key}") for key in sorted(keys)]
        return folders

    # What to say of a key

    def _by_class(self, key: str, groups: "Found") -> "list[Reading]":
        kept = self._carried.keys.get(key, NOTHING)
        done = kept.get("done", {})
        if not groups:
            return self._of_waiting(key, sorted(done))
        readings: "list[Reading]" = []
        for rdt_class in sorted({*groups, *done}) if done else sorted(groups):
            if rdt_class in groups:
                group = GroupCounts.of_record(kept, rdt_class, self._carried.now)
                values = self._with_totals(groups[rdt_class][1], group.offsets, done.get(rdt_class))
                if rdt_class in kept.get("inherited", ()):
                    values = self._without_inherited(values, Inherited.of_record(kept["inherited"][rdt_class]))
            else:
                values = [done[rdt_class].get(slot.path) for slot in self._carried.slots]
            counted = self._carried.seconds(key, rdt_class).get
            for slot, value in zip(self._carried.slots, values):
                if isinstance(value, str):
                    total = self._carried.total(key, rdt_class, slot.path)
                    readings.append(Reading(slot.domain, slot.counter, total, value, rdt_class, counted(slot.path)))
                elif value is not None:
                    readings.append(Reading(slot.domain, slot.counter, value, AVAILABLE, rdt_class, counted(slot.path)))
        return readings

    def _with_totals(
        self, said: "list[Raw]", offsets: "list[int | float | None]", banked: "dict[str, int | float] | None"
    ) -> "list[Raw]":
        """Return a group's values, with totals for its cumulative counters."""
        if not offsets and not banked:
            return said
        values = list(said)
        for number, place in enumerate(self._carried.counting):
            value = values[place]
            if value is not None and not isinstance(value, str):
                before = banked.get(self._carried.slots[place].path, 0) if banked else 0
                values[place] = value + ((offsets[number] or 0) if offsets else 0) + before
        return values

    def _without_inherited(self, values: "list[Raw]", inherited: Inherited) -> "list[Raw]":
        """Return the same without numbers that may be of the RMID's previous user."""
        return [
            INHERITED if slot.path in inherited.lines and not isinstance(value, str) else value
            for slot, value in zip(self._carried.slots, values)
        ]

    def _of_waiting(self, key: str, classes: "list[str]") -> "list[Reading]":
        """Return the readings of a key without a group: its earlier counts, by class."""
        if not classes and key not in self._waiting:
            return []  # it is not meant to be counted
        readings = []
        none: "list[str | None]" = [None]
        for rdt_class in classes or none:
            counted = self._carried.seconds(key, rdt_class or "") if classes else {}
            for slot in self._carried.slots:
                total = self._carried.total(key, rdt_class or "", slot.path) if classes else None
                seconds = counted.get(slot.path, 0.0) if slot.counter.kind == CUMULATIVE else None
                readings.append(Reading(slot.domain, slot.counter, total, WAITING, rdt_class, seconds))
        return readings


def summed(readings: "list[Reading]") -> "list[Reading]":
    """Return the sums of readings by class; a missing part is marked in the sum.

    A gauge then has no value. A total has the known parts.
    """
    sums: "dict[tuple[Domain, str], Reading]" = {}
    for part in readings:
        place = part.domain, part.counter.name
        known = sums.get(place)
        if known is None:
            sums[place] = Reading(part.domain, part.counter, part.value, part.state, None, part.seconds)
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


def _sum(one: "int | float | None", other: "int | float | None") -> "int | float | None":
    return one if other is None else other if one is None else one + other
