"""The truths of several keys: whose group each one of the kernel is, and what readers may say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from accounting.kernel import DOMAINS, EVENT, CountedKernel, Meter
from accounting.truth import Counts, Truth

if TYPE_CHECKING:
    from collections.abc import Callable

    from resctrl_hooks.node.resctrl.counters import Reading

PREFIXES = ["", "rh-"]


class Last(NamedTuple):
    """A key at its last quiet read."""

    ended: dict[str, float] = {}  # noqa: RUF012  # nothing changes it
    born: float = 0.0
    mounts: int = 1


class Accounts:
    """The truths.

    Args:
        kernel: counts.
        keys: all that there may be.
        record_of: returns a key's record; empty without one.

    Attributes:
        prefix: of new groups.
    """

    def __init__(self, kernel: CountedKernel, keys: list[str], record_of: Callable[[str], Any]) -> None:
        self.prefix = ""
        self.truths = {key: Truth() for key in keys}
        self._last: dict[str, Last] = {}
        self._kernel = kernel
        self._record_of = record_of
        self._key_of = {prefix + key: key for key in keys for prefix in PREFIXES}
        kernel.changed = self.note

    def key_of(self, rdt_class: str, name: str, meter: Meter) -> str:
        """Return the key whose group has this name; empty for another program's."""
        key = self._key_of.get(name, "")
        if not key or meter.ours or name == self.prefix + key:
            return key
        return key if self._record_of(key).get("names", {}).get(rdt_class) == name else ""

    def groups(self) -> list[tuple[str, str, str, Meter]]:
        """Return each key's groups: key, class, name and meter."""
        found = []
        if self._kernel.mounted:
            for parent in self._kernel.model.all_classes():
                for name, group in parent.monitored.items():
                    meter = self._kernel.meters[group]
                    key = self.key_of(parent.name, name, meter)
                    if key:
                        found.append((key, parent.name, name, meter))
        return found

    def note(self) -> None:
        """Learn whose the groups are now."""
        here: dict[str, list[Meter]] = {key: [] for key in self.truths}
        for key, _, _, meter in self.groups():
            here[key].append(meter)
        for key, meters in here.items():
            self.truths[key].note(meters)

    def recorded(self, key: str) -> set[Meter]:
        """Return a key's groups that have their recorded names."""
        record = self._record_of(key)
        names = {name: record.get("names", {}).get(name, self.prefix + key) for name in record.get("groups", {})}
        return {meter for owner, kind, name, meter in self.groups() if owner == key and names.get(kind) == name}

    def check(self, totals: dict[str, Counts], ended: Callable[[str], dict[str, float]]) -> None:
        """Compare the totals of a quiet read of everything with the truth."""
        self.note()
        for key, found in totals.items():
            last, self._last[key] = self._last.get(key, Last()), Last(ended(key), self.born(key), self._kernel.mounts)
            reported = bool(self._last[key].ended) and self._last[key].ended != last.ended
            # Readers cannot tell such a group from the one that had its inode number before the mount.
            unclear = last.mounts != self._kernel.mounts and any(meter.renamed for meter in self.truths[key].groups)
            lost = self.truths[key].check_quiet(found, self.recorded(key), reported=reported, unclear=unclear)
            released = last.born != self._last[key].born
            assert self._last[key].ended or not lost or released, f"counts of {key} ended unseen, and no reader says so"

    def ended(self, key: str) -> dict[str, float]:
        """Return what a key's last quiet read has reported as ended unseen."""
        return self._last[key].ended

    def born(self, key: str) -> float:
        """Return when a key's record began."""
        return float(self._record_of(key).get("born", 0))

    def check_any(self, totals: dict[str, Counts]) -> None:
        """Check the totals of a read with trouble."""
        self.note()
        for key, found in totals.items():
            self.truths[key].check(found)


def sums(readings: list[Reading]) -> Counts:
    """Return the bytes of readings by domain."""
    found = [0] * DOMAINS
    for one in readings:
        if one.counter.name == EVENT:
            found[one.domain.id] += int(one.value or 0)
    return tuple(found)
