"""Counters that never go back: what each key has counted, carried on disk over whatever becomes of its groups.

A group may be removed and made anew, move to another class, wrap, be reset, or be read by several programs in turn.
One file of the state directory, ``counters``, holds for each key and class what is done with, and for each group what
it said last; it is read and replaced once per scrape, under a lock of its own. To bank a group's counts before
removing it, read its key: what was seen last is what counts.
"""

import time

from .counters import (
    AVAILABLE,
    CUMULATIVE,
    MON_DATA,
    PERF,
    Reading,
    layout,
    read_group,
    slot_at,
)
from .errors import LedgerError
from .files import format_json, parse_json, read_file, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .counters import Raw, Slot
    from .monitor import Monitor

    # By class: the group's identity, what is to be added to each counter (0 for nothing to any), what each said last.
    Groups = dict[str, list[Any]]
    # "groups"; "done": by class and path what no group holds any more; "gone": since when the key isn't tracked.
    Kept = dict[str, Any]

FILE = "counters"
LOCK = "counters"
_FORMAT = 1
_LIMIT = 64 << 20
_REMEMBERED_SECONDS = 3600  # a key that is released and comes back, as a restarted container's does, goes on counting
_REMEMBERED_KEYS = 1000


def read(monitor: "Monitor", keys: "list[str] | None", *, by_class: bool) -> "dict[str, list[Reading]]":
    """The readings of these keys, or of every tracked key.

    Raises:
        LedgerError: the state directory can't be used.
        NotMountedError: there is no resctrl.
    """
    with monitor.ledger.lock_named(LOCK, monitor.patience):
        return _Scrape(monitor).run(keys, by_class=by_class)


class _Scrape:
    """One reading of some keys, and what the file makes of it."""

    def __init__(self, monitor: "Monitor") -> None:
        self._monitor = monitor
        self._resctrl = monitor.resctrl
        self._classes = ["", *sorted(self._resctrl.classes())]
        self._load()
        self._see(layout(f"{self._resctrl.root}/{MON_DATA}"))

    def run(self, keys: "list[str] | None", *, by_class: bool) -> "dict[str, list[Reading]]":
        tracked = set(self._monitor.ledger.keys())
        wanted = tracked if keys is None else tracked.intersection(keys)
        found: "dict[str, dict[str, tuple[str, list[Raw]]]]" = {key: {} for key in sorted(wanted)}
        for rdt_class, key, folder in self._folders(wanted, few=keys is not None):
            if not self._seen:  # a plain tree whose root has no counters
                self._see(layout(f"{folder}/{MON_DATA}"))
            try:
                found[key][rdt_class] = read_group(folder, self._slots)
            except OSError:
                continue  # it was removed a moment ago, or is no group
        for key, groups in found.items():
            self._update(key, groups)
        self._forget(tracked)
        self._save()
        readings = self._by_class if by_class else self._summed
        return {key: readings(key, groups) for key, groups in found.items()}

    def _folders(self, wanted: "set[str]", *, few: bool) -> "list[tuple[str, str, str]]":
        """Class, key and folder of each group that may be there."""
        prefix = self._monitor.group_prefix
        folders = []
        for rdt_class in self._classes:
            base = self._resctrl.group_folder(rdt_class, "")
            keys = wanted if few else {name[len(prefix) :] for name in self._resctrl.groups(rdt_class)} & wanted
            folders += [(rdt_class, key, f"{base}{prefix}{key}") for key in sorted(keys)]
        return folders

    # The file

    def _load(self) -> None:
        path = f"{self._monitor.ledger.folder}/{FILE}"
        try:
            kept = parse_json(read_file(path, _LIMIT))
        except (FileNotFoundError, ValueError):
            kept = {}
        except OSError as error:
            raise LedgerError(f"{path} can't be read", errno=error.errno or 0) from error
        if not isinstance(kept, dict) or kept.get("format") != _FORMAT or kept.get("boot") != self._monitor.boot:
            kept = {"layout": [], "keys": {}}
        self._kept: "dict[str, Kept]" = kept["keys"]
        self._kept_layout: "list[str]" = kept["layout"]
        self._seen = False
        self._slots = [slot_at(path) for path in self._kept_layout]
        self._counting = list(range(len(self._slots)))

    def _save(self) -> None:
        path = f"{self._monitor.ledger.folder}/{FILE}"
        value = {"format": _FORMAT, "boot": self._monitor.boot, "layout": self._kept_layout, "keys": self._kept}
        try:
            write_file(path, format_json(value))
        except OSError as error:
            raise LedgerError(f"{path} can't be written", errno=error.errno or 0) from error

    def _see(self, slots: "list[Slot]") -> None:
        """Takes these files as those to read; what the file has of others is done with, as after a CPU hotplug."""
        if not slots:
            return
        self._seen = True
        self._slots = slots
        self._counting = [place for place, slot in enumerate(slots) if slot.counter.kind == CUMULATIVE]
        names = [slots[place].path for place in self._counting]
        if names == self._kept_layout:
            return
        # A counter that comes to a group later begins as a new group's does.
        fresh = {slots[place].path: None if slots[place].domain.resource == PERF else 0 for place in self._counting}
        for kept in self._kept.values():
            for rdt_class, group in kept["groups"].items():
                offsets = dict(zip(self._kept_layout, group[1] or [0] * len(self._kept_layout)))
                lasts = dict(zip(self._kept_layout, group[2]))
                for name in self._kept_layout:
                    if name not in names:
                        _add(kept, rdt_class, name, lasts[name], offsets[name])
                group[1] = [offsets.get(name, fresh[name]) for name in names]
                group[2] = [lasts.get(name) for name in names]
        self._kept_layout = names

    # What becomes of a key

    def _update(self, key: str, groups: "dict[str, tuple[str, list[Raw]]]") -> None:
        kept = self._kept.get(key)
        if kept is None:
            if not groups:
                return
            kept = self._kept[key] = {"groups": {}}
        kept.pop("gone", None)
        old: "Groups" = kept["groups"]
        new: "Groups" = {}
        for rdt_class, (identity, values) in groups.items():
            numbers = [values[place] for place in self._counting]
            before = old.get(rdt_class)
            if before is not None and before[0] == identity:
                new[rdt_class] = _counted_on(before, numbers)
            else:
                moved = next((name for name, group in old.items() if group[0] == identity), None)
                new[rdt_class] = (
                    self._first_seen(key, rdt_class, identity, numbers)
                    if moved is None
                    else _counted_on([identity, [-(last or 0) for last in old[moved][2]], old[moved][2]], numbers)
                )
        for rdt_class, group in old.items():
            if rdt_class not in new or new[rdt_class][0] != group[0]:
                self._bank(kept, rdt_class, group)
        kept["groups"] = new

    def _first_seen(self, key: str, rdt_class: str, identity: str, numbers: "list[Raw]") -> "list[Any]":
        """A group that is new to us.

        mkdir starts the L3 counters at zero, but PERF_PKG's go on from the RMID's previous user: those count from what
        they said at creation, else from their first reading.
        """
        offsets: "Any" = 0
        perf = [self._slots[place].domain.resource == PERF for place in self._counting]
        if any(perf):
            record = self._monitor.ledger.read_pod(key) or {}
            known, at_creation = record.get("baselines", {}).get(rdt_class, ("", {}))
            names = [self._slots[place].path for place in self._counting]
            bases = [at_creation.get(name) if known == identity else None for name in names]
            offsets = [(None if base is None else -base) if counts else 0 for counts, base in zip(perf, bases)]
        return _counted_on([identity, offsets, [None] * len(numbers)], numbers)

    def _bank(self, kept: "Kept", rdt_class: str, group: "list[Any]") -> None:
        for name, last, offset in zip(self._kept_layout, group[2], group[1] or [0] * len(group[2])):
            _add(kept, rdt_class, name, last, offset)

    def _forget(self, tracked: "set[str]") -> None:
        """Drops what is kept of keys that are no longer tracked, after a while."""
        untracked = self._kept.keys() - tracked
        if not untracked:
            return
        now = int(time.time())
        for key in untracked:
            kept = self._kept[key]
            if "gone" not in kept:
                for rdt_class, group in kept["groups"].items():
                    self._bank(kept, rdt_class, group)
                kept.update(groups={}, gone=now)
        oldest = sorted(untracked, key=lambda key: int(self._kept[key]["gone"]), reverse=True)
        for place, key in enumerate(oldest):
            if place >= _REMEMBERED_KEYS or now - self._kept[key]["gone"] > _REMEMBERED_SECONDS:
                del self._kept[key]

    # What to say of a key

    def _by_class(self, key: str, groups: "dict[str, tuple[str, list[Raw]]]") -> "list[Reading]":
        kept = self._kept.get(key, {})
        done = kept.get("done", {})
        readings: "list[Reading]" = []
        for rdt_class in sorted({*groups, *done}) if done else sorted(groups):
            if rdt_class in groups:
                values = self._with_totals(groups[rdt_class][1], kept["groups"][rdt_class], done.get(rdt_class))
            else:
                values = [done[rdt_class].get(slot.path) for slot in self._slots]
            for slot, value in zip(self._slots, values):
                if isinstance(value, str):
                    readings.append(Reading(slot.domain, slot.counter, None, value, rdt_class))
                elif value is not None:
                    readings.append(Reading(slot.domain, slot.counter, value, AVAILABLE, rdt_class))
        return readings

    def _with_totals(self, said: "list[Raw]", group: "list[Any]", banked: "dict[str, Any] | None") -> "list[Raw]":
        """What a group said, its cumulative counters as totals."""
        offsets = group[1]
        if not offsets and not banked:
            return said
        values = list(said)
        for number, place in enumerate(self._counting):
            value = values[place]
            if value is not None and not isinstance(value, str):
                before = banked.get(self._slots[place].path, 0) if banked else 0
                values[place] = value + (offsets[number] if offsets else 0) + before
        return values

    def _summed(self, key: str, groups: "dict[str, tuple[str, list[Raw]]]") -> "list[Reading]":
        """The sum over all classes; where one of a key's groups has no number, the sum has none either."""
        parts = self._by_class(key, groups)
        if len(groups) == 1 and "done" not in self._kept.get(key, {}):
            for reading in parts:
                reading.rdt_class = None
            return parts
        sums: "dict[str, Reading]" = {}
        for part in parts:
            path = f"{part.domain.folder}/{part.counter.name}"
            known = sums.get(path)
            if known is None:
                sums[path] = Reading(part.domain, part.counter, part.value, part.state)
            elif known.value is not None and part.value is not None:
                known.value += part.value
            elif known.value is not None:
                known.value, known.state = None, part.state
        return [sums[slot.path] for slot in self._slots if slot.path in sums]


def _counted_on(group: "list[Any]", numbers: "list[Raw]") -> "list[Any]":
    """A group's entry after it said these numbers.

    One that went back counts on from there: the total stands still. An offset of None waits for the first number, from
    which the counter then counts.
    """
    identity, offsets, lasts = group
    for last, number in zip(lasts, numbers):
        if last is None or number is None or number.__class__ is str or number < last:
            break
    else:
        return [identity, offsets, numbers]
    offsets = list(offsets or [0] * len(numbers))
    kept = []
    for place, (last, number) in enumerate(zip(lasts, numbers)):
        if number is None or isinstance(number, str):
            kept.append(last)
            continue
        if offsets[place] is None:
            offsets[place] = -number
        elif last is not None and number < last:
            offsets[place] += last - number
        kept.append(number)
    return [identity, 0 if all(offset == 0 for offset in offsets) else offsets, kept]


def _add(kept: "Kept", rdt_class: str, name: str, last: "int | float | None", offset: "int | float") -> None:
    if last is not None:
        done = kept.setdefault("done", {}).setdefault(rdt_class, {})
        done[name] = done.get(name, 0) + last + offset
