"""The truths of several keys: whose group each one of the kernel is, and what readers may say of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from accounting.kernel import DOMAINS, EVENT, CountedKernel, Meter
from accounting.truth import Counts, Truth
from resctrl_hooks.core.node.resctrl.counters import Reading

PREFIXES = ["", "rh-"]
ABSENT = -1


class Last(NamedTuple):
    """A key at its last quiet read."""

    ended: dict[str, float] = {}  # noqa: RUF012  # nothing changes it
    born: float = 0.0
    mounts: int = 1


class Accounts:
    """The truths of all keys that there may be; ``record_of`` returns a key's record, empty without one."""

    def __init__(self, kernel: CountedKernel, keys: list[str], record_of: Callable[[str], Any]) -> None:
        self.prefix = ""  # of new groups
        self.truths = {key: Truth() for key in keys}
        self._last: dict[str, Last] = {}
        self._owner: dict[Meter, str] = {}
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
        classes = self._kernel.model.all_classes() if self._kernel.mounted else []
        groups = [group for one in classes for group in one.monitored.values()]
        named = [(group.ctrl.name, group.name, self._kernel.meters[group]) for group in groups]
        return [(key, *group) for group in named if (key := self.key_of(*group))]

    def note(self) -> None:
        here: dict[str, list[Meter]] = {key: [] for key in self.truths}
        for key, _, _, meter in self.groups():
            here[key].append(meter)
        for key, meters in here.items():
            others = {meter for meter in meters if self._owner.setdefault(meter, key) != key}
            self.truths[key].note(meters, others)
            self._owner.update(dict.fromkeys(meters, key))
        for key, meter in self._of_former_prefixes():
            self.truths[key].allow(meter)

    def _of_former_prefixes(self) -> list[tuple[str, Meter]]:
        """Return other programs' groups that readers with former settings take for a key's."""
        if not self._kernel.mounted:
            return []
        named = ((group.ctrl.name, group.name, meter) for group, meter in self._kernel.meters.items())
        keys = ((self._key_of.get(name, ""), self.key_of(kind, name, meter), meter) for kind, name, meter in named)
        return [(key, meter) for key, present, meter in keys if key and not present]

    def recorded(self, key: str) -> set[Meter]:
        """Return a key's groups that have their recorded names."""
        record = self._record_of(key)
        names = {name: record.get("names", {}).get(name, self.prefix + key) for name in record.get("groups", {})}
        return {meter for owner, kind, name, meter in self.groups() if owner == key and names.get(kind) == name}

    def plug(self, domain: int) -> None:
        self._kernel.plug(domain)
        if domain in self._kernel.offline:
            for truth in self.truths.values():
                truth.unplug(domain)

    def _known(self, totals: dict[str, Counts], *, quiet: bool) -> dict[str, Counts]:
        """Return totals with the last ones of domains that are offline or out of view, and check their sum."""
        self.note()
        known: dict[str, Counts] = {}
        for key, found in totals.items():
            hidden = {
                one for one in range(DOMAINS) if one in self._kernel.offline or (found[one] == ABSENT and not quiet)
            }
            highest = self.truths[key].highest
            known[key] = tuple(highest[one] if one in hidden else found[one] for one in range(DOMAINS))
        for domain in range(DOMAINS):
            total = sum(known.get(key, truth.highest)[domain] for key, truth in self.truths.items())
            most = sum(
                meter.counts[domain] for meter in {one for truth in self.truths.values() for one in truth.groups}
            )
            assert total <= most, f"domain {domain}: all totals are {total}, all groups counted {most}"
        return known

    def check(self, totals: dict[str, Counts], ended: Callable[[str], dict[str, float]]) -> None:
        """Compare the totals of a quiet read of everything with the truth."""
        for key, found in self._known(totals, quiet=True).items():
            last, self._last[key] = self._last.get(key, Last()), Last(ended(key), self.born(key), self._kernel.mounts)
            reported = bool(self._last[key].ended) and self._last[key].ended != last.ended
            # Readers cannot tell such a group from the one that had its inode number before the mount.
            unclear = last.mounts != self._kernel.mounts and any(meter.renamed for meter in self.truths[key].groups)
            lost = self.truths[key].check_quiet(
                found, self.recorded(key), reported=reported, unclear=unclear, offline=self._kernel.offline
            )
            released = last.born != self._last[key].born
            assert self._last[key].ended or not lost or released, f"counts of {key} ended unseen, and no reader says so"

    def ended(self, key: str) -> dict[str, float]:
        """Return what a key's last quiet read has reported as ended unseen."""
        return self._last[key].ended

    def born(self, key: str) -> float:
        return float(self._record_of(key).get("born", 0))

    def check_any(self, totals: dict[str, Counts]) -> None:
        for key, found in self._known(totals, quiet=False).items():
            self.truths[key].check(found)


def sums(readings: list[Reading]) -> Counts:
    """Return the bytes of readings by domain; `ABSENT` for a domain that others have and these lack."""
    found: dict[int, int] = {}
    for one in readings:
        if one.counter.name == EVENT:
            found[one.domain.id] = found.get(one.domain.id, 0) + int(one.value or 0)
    return tuple(found.get(domain, ABSENT if found else 0) for domain in range(DOMAINS))
