"""Counter data that is carried over the ends of groups on disk, so that a key's totals never decrease.

The lock of `counter_totals` protects its file (`counts_file`). Each count has the seconds in which it was counted, from
one valid value to the next, so that their quotient is the rate in any case.
"""

import time

from .counters import CUMULATIVE, GAUGE, PERF, UNASSIGNED, slot_at
from .counts_file import load_counts, save_counts
from .group_counts import GroupCounts, Inherited, trust
from .turn_counts import end_turn, places_of, turns_and_now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..records import CountsRecord
    from .counters import Raw, Slot

_REMEMBERED_SECONDS = 3600  # a released key that returns, as for a restarted container, continues counting
_REMEMBERED_KEYS = 1000
NOTHING: "CountsRecord" = {"groups": {}}  # for a key without data


class Carried:
    """The file's content. ``slots`` are the present files, ``counting`` the positions of cumulative ones in it.

    Raises:
        LedgerError: it is unreadable.
    """

    def __init__(self, ledger: "Ledger", boot: str) -> None:
        self._ledger = ledger
        self._boot = boot
        self.seen = False
        self.began: "float | None" = None  # when the counters were assigned that have their first value now
        self._now = round(time.clock_gettime(time.CLOCK_BOOTTIME), 3)
        self.layout, self.keys = load_counts(ledger, boot)
        self.slots = [slot_at(path) for path in self.layout]
        self.counting = list(range(len(self.slots)))
        self._turns = places_of(self.slots)
        self.energy = self._energy()

    def _energy(self) -> "list[tuple[int, int]]":
        """Return the PERF_PKG counters' places, among the cumulative ones and among all."""
        return [
            (number, place) for number, place in enumerate(self.counting) if self.slots[place].domain.resource == PERF
        ]

    @property
    def now(self) -> float:
        """Time of this read, in seconds since the boot."""
        return self._now

    def save(self) -> None:
        """Replace the file; raises LedgerError if it can't be written."""
        save_counts(self._ledger, self._boot, self.layout, self.keys)

    def see(self, slots: "list[Slot]") -> None:
        """Set the files to read; the file's data on others is completed, as after a CPU hotplug."""
        if not slots:
            return
        self.seen = True
        self.slots = slots
        self._turns = places_of(slots)
        self.counting = [place for place, slot in enumerate(slots) if slot.counter.kind == CUMULATIVE]
        self.energy = self._energy()
        names = [slots[place].path for place in self.counting]
        if names == self.layout:
            return
        # A counter that is added to a group later begins as a new group's does.
        fresh = {slots[place].path: None if slots[place].domain.resource == PERF else 0 for place in self.counting}
        removed = {place: name for place, name in enumerate(self.layout) if name not in names}
        for kept in self.keys.values():
            for rdt_class in kept["groups"]:
                group = GroupCounts.of_record(kept, rdt_class, self._now)
                group.bank(kept, rdt_class, removed)
                offsets = dict(zip(self.layout, group.every_offset))
                gaps = dict(zip(self.layout, group.every_gap))
                lasts = dict(zip(self.layout, group.lasts))
                group.offsets = [offsets.get(name, fresh[name]) for name in names]
                group.gaps = [gaps.get(name, group.whole) for name in names]
                group.lasts = [lasts.get(name) for name in names]
                group.keep(kept, rdt_class)
        self.layout = names

    def update(self, key: str, groups: "dict[str, tuple[str, list[Raw]]]") -> None:
        """Count a key's groups; by class, the group's identity and its files' content.

        The content becomes 0 for a package in which a group's RMID never ran.
        """
        kept = self.keys.get(key)
        if kept is None:
            if not groups:
                return
            kept = self.keys[key] = {"groups": {}}
        kept.pop("gone", None)
        old = {rdt_class: GroupCounts.of_record(kept, rdt_class, self._now) for rdt_class in kept["groups"]}
        new: "dict[str, GroupCounts]" = {}
        for rdt_class, (identity, values) in groups.items():
            group, fresh = old.get(rdt_class), False
            if group is None or group.identity != identity:
                moved = next((one for one in old.values() if one.identity == identity), None)
                if moved is None:
                    group, fresh = self._first_seen(key, rdt_class, identity), True
                else:
                    group = GroupCounts(identity, moved.starts(), moved.lasts, moved.looked)
            group.set_never_ran(values, self.energy)
            group.read([values[place] for place in self.counting], self._now, fresh=fresh, began=self.began)
            new[rdt_class] = group
        for rdt_class, group in old.items():
            if new.get(rdt_class) is not group:
                self._bank(kept, rdt_class, group)
        kept["groups"], kept["times"] = {}, {}
        for rdt_class, group in new.items():
            group.keep(kept, rdt_class)
        if any(isinstance(said[1][place], str) for said in groups.values() for place in self._turns) or not groups:
            end_turn(kept, *self._so_far(key))
        trust(kept, groups, self.slots, self._now)

    def seconds(self, key: str, rdt_class: str) -> "dict[str, float]":
        """Return the counted seconds of each cumulative counter of a key in a class, by path."""
        kept = self.keys.get(key, NOTHING)
        spent: "dict[str, float]" = kept.get("spent", {}).get(rdt_class, {})
        if rdt_class not in kept["groups"]:
            return spent
        group = GroupCounts.of_record(kept, rdt_class, self._now)
        whole = round(group.whole, 3)
        if not group.gaps and not spent:
            return dict.fromkeys(self.layout, whole)
        return {name: round(whole - gap + spent.get(name, 0), 3) for name, gap in zip(self.layout, group.every_gap)}

    def total(self, key: str, rdt_class: str, path: str) -> "int | float | None":
        """Return the total of a cumulative counter of a key in a class; None if it never had a value.

        For counters without a value now, whose earlier count stays valid.
        """
        kept = self.keys.get(key, NOTHING)
        total: "int | float | None" = kept.get("done", {}).get(rdt_class, {}).get(path)
        if path in self.layout and rdt_class in kept.get("groups", {}):
            value = GroupCounts.of_record(kept, rdt_class, self._now).counted(self.layout.index(path))
            if value is not None:
                total = (total or 0) + value
        return total

    def turns(self, key: str) -> "list[tuple[float, float]]":
        """Return a key's counts in each of its turns, as in `turn_counts`: seconds and bytes."""
        kept = self.keys.get(key)
        return [] if kept is None else turns_and_now(kept, *self._so_far(key))

    def _so_far(self, key: str) -> "tuple[float, int | float]":
        """Return the seconds for which a key's memory traffic was counted, and the bytes; 0 s with several classes."""
        kept = self.keys[key]
        classes = {*kept["groups"], *kept.get("done", {})}
        if len(classes) != 1:
            return 0.0, 0
        (rdt_class,) = classes
        paths = [self.slots[place].path for place in self._turns]
        seconds = self.seconds(key, rdt_class)
        moved = sum(self.total(key, rdt_class, path) or 0 for path in paths)
        return min((seconds.get(path, 0.0) for path in paths), default=0.0), moved

    def _first_seen(self, key: str, rdt_class: str, identity: str) -> GroupCounts:
        """Return the data of a new group, from its creation if that time is known.

        mkdir starts the L3 counters at zero, but PERF_PKG's continue from the RMID's previous user: those count from
        their values at creation, else from their first reading.
        """
        offsets: "list[int | float | None]" = []
        record = self._ledger.read_pod(key) or {}
        perf = [self.slots[place].domain.resource == PERF for place in self.counting]
        if any(perf):
            known, at_creation = record.get("baselines", {}).get(rdt_class, ("", {}))
            names = [self.slots[place].path for place in self.counting]
            bases = [at_creation.get(name) if known == identity else None for name in names]
            offsets = [(None if base is None else -base) if counts else 0 for counts, base in zip(perf, bases)]
        made = min(record.get("since", {}).get(rdt_class, self._now), self._now)
        return GroupCounts(identity, offsets, [None] * len(self.counting), made)

    def inherit(self, key: str, rdt_class: str, identity: str, values: "list[Raw]") -> None:
        """Count a group that a key is about to take over, with RMID and counters, from its present values.

        Idempotent; it adds nothing if the key never gets the group. The giver must be brought up to date first with
        `update`: counts of a group that no longer exists are then added to its total.
        """
        kept = self.keys.setdefault(key, {"groups": {}})
        kept.pop("gone", None)
        if rdt_class in kept["groups"]:
            self._bank(kept, rdt_class, GroupCounts.of_record(kept, rdt_class, self._now))
            del kept["groups"][rdt_class]
            end_turn(kept, *self._so_far(key))
        numbers = [values[place] for place in self.counting]
        # One that is assigned later starts at 0; of one that can't be read just now, the first number is the start.
        offsets = [(0 if n == UNASSIGNED else None) if n is None or isinstance(n, str) else -n for n in numbers]
        lasts = [None if isinstance(n, str) else n for n in numbers]
        GroupCounts(identity, offsets, lasts, self._now).keep(kept, rdt_class)
        lines = {
            slot.path: value
            for slot, value in zip(self.slots, values)
            if slot.counter.kind == GAUGE and value and not isinstance(value, str)
        }
        kept.setdefault("inherited", {})[rdt_class] = Inherited(identity, self._now, lines).as_record()

    def _bank(self, kept: "CountsRecord", rdt_class: str, group: GroupCounts) -> None:
        group.bank(kept, rdt_class, dict(enumerate(self.layout)))

    def forget(self, tracked: "set[str]") -> None:
        """Drop the data of released keys after a while."""
        untracked = self.keys.keys() - tracked
        if not untracked:
            return
        now = int(time.time())
        for key in untracked:
            kept = self.keys[key]
            if "gone" not in kept:
                for rdt_class in kept["groups"]:
                    self._bank(kept, rdt_class, GroupCounts.of_record(kept, rdt_class, self._now))
                kept.update({"groups": {}, "times": {}, "gone": now})
        oldest = sorted(untracked, key=lambda key: int(self.keys[key]["gone"]), reverse=True)
        for place, key in enumerate(oldest):
            if place >= _REMEMBERED_KEYS or now - self.keys[key]["gone"] > _REMEMBERED_SECONDS:
                del self.keys[key]
