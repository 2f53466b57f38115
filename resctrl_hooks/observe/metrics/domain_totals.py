"""Monotonic traffic totals of each memory domain since the first scrape, from the classes' totals.

The guard's rule maps traffic to domains. While the value of a class is unknown, the domains have no value; the traffic
of that time is added later if the class's total includes it.
"""

from collections.abc import Mapping
from typing import Any

from resctrl_hooks.core.node.resctrl.counters import Slot
from resctrl_hooks.observe.node.guard.load import ClassCounts, traffic
from resctrl_hooks.observe.node.guard.snapshots import Domains, counts_of

Values = dict[str, float]
"""By path below ``mon_data``."""


class DomainTotals:
    """Bytes by memory domain, and the classes' totals that they include."""

    def __init__(self, record: dict[str, Any]) -> None:
        self._total: dict[str, float] = record.get("total", {})
        self._seen: dict[str, Values] = record.get("seen", {})

    def add(self, classes: dict[str, Values], slots: Mapping[str, Slot], domains: Domains) -> dict[str, float]:
        """Add the classes' traffic since the last call; return the bytes of each domain, or an empty result if unknown.

        Args:
            classes: The totals of each class with a value now.
            slots: The files by path.
            domains: The node's memory domains.
        """
        now = counts_of(1.0, classes, slots, domains)
        if any(total is None for of in now.counts.values() for total, _ in of.values()):
            return {}
        before = counts_of(0.0, {name: self._start(name, of) for name, of in classes.items()}, slots, domains)
        for one in traffic(ClassCounts(0.0, before.counts), now, domains):
            name = str(one.domain[0])
            self._total[name] = self._total.get(name, 0.0) + (one.rate or 0.0)
        self._seen = {name: dict(of) for name, of in classes.items()}
        return {name: self._total[name] for name in (str(domain[0]) for domain in domains)}

    def _start(self, name: str, now: Values) -> Values:
        """Return the start of a class's totals: 0 for a class that is new or was created again."""
        seen = self._seen.get(name)
        if seen is None or any(now.get(path, value) < value for path, value in seen.items()):
            return dict.fromkeys(now, 0.0)
        return seen

    def as_record(self) -> dict[str, Any]:
        """Return the values for the file."""
        return {"total": self._total, "seen": self._seen}
