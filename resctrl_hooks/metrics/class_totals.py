"""Totals of each RDT class that never go back, and what of them is in no group.

A class's own file is the sum of its tasks and of its groups that there are now: it drops by all that a group counted
when that group is removed, which Prometheus would take for a restart and count once more. So a class's total is made
of increases: of its groups, of which some are gone at the next look, and of what is in no group.
"""

from collections.abc import Collection
from typing import Any, Final

from resctrl_hooks.node.errors import LedgerError
from resctrl_hooks.node.host.files import format_json, parse_json, read_file, write_file
from resctrl_hooks.node.ledger import TOTALS, Ledger

from .domain_totals import DomainTotals

FILE: Final = "class-counters"
_FORMAT: Final = 1
_LIMIT: Final = 64 << 20
Values = dict[str, float]
"""By path below ``mon_data``, of cumulative counters that have a number."""


class ClassTotal:
    """One class: what its ``parts`` (groups) said last, its ``total``, and the part of that which is in no group."""

    __slots__ = ("identity", "parts", "rest", "total", "ungrouped")

    def __init__(self, kept: dict[str, Any]) -> None:
        self.identity: str = kept.get("identity", "")
        self.parts: dict[str, Values] = kept.get("parts", {})
        self.total: Values = kept.get("total", {})
        self.ungrouped: Values = kept.get("ungrouped", {})
        self.rest: Values = kept.get("rest", dict(self.ungrouped))

    def add(
        self,
        identity: str,
        parts: dict[str, Values],
        ungrouped: Values,
        inherited: Collection[str],
        starts: dict[str, Values] | None = None,
    ) -> None:
        """Counts on to what is said now.

        Args:
            identity: which folder the class has; another one is another class of that name.
            parts: by group, called by its identity, what it says itself.
            ungrouped: what of the class's own numbers its groups leave. The two are read one after the other, so it can
                be a little less than before: then it stands still. After a time without a number it counts from there.
            inherited: what a group that is new to a known class has from others: it counts from what it says first.
            starts: by group, where it began, as far as that is known.
        """
        new = identity != self.identity
        if new:
            self.identity, self.parts, self.total, self.ungrouped, self.rest = identity, {}, {}, {}, {}
        for part, values in parts.items():
            before = self.parts.get(part)
            if before is None:
                before = {} if new else {path: values[path] for path in values.keys() & set(inherited)}
                before |= (starts or {}).get(part, {})
            for path, value in values.items():
                last = before.get(path, 0)
                self.total[path] = self.total.get(path, 0) + (value - last if value >= last else value)
        self.parts = {part: self.parts.get(part, {}) | values for part, values in parts.items()}
        lasts = {path: self.rest.get(path, 0 if new else value) for path, value in ungrouped.items()}
        for path, last in lasts.items():
            growth = max(ungrouped[path] - last, 0)
            self.total[path] = self.total.get(path, 0) + growth
            self.ungrouped[path] = self.ungrouped.get(path, last) + growth
        self.rest = {path: max(ungrouped[path], last) for path, last in lasts.items()}

    def as_record(self) -> dict[str, Any]:
        """What goes into the file."""
        return {name: getattr(self, name) for name in self.__slots__}


class ClassTotals:
    """All classes' totals, carried in the state directory over restarts of whoever reads them. Hold a lock around it.

    Raises:
        LedgerError: the file can't be read, or written.
    """

    def __init__(self, ledger: Ledger, boot: str) -> None:
        self._path = f"{ledger.folder}/{TOTALS}/{FILE}"
        self._boot = boot
        try:
            kept = parse_json(read_file(self._path, _LIMIT))
        except (FileNotFoundError, ValueError):
            kept = {}
        except OSError as error:
            raise LedgerError.of_file(error, self._path) from error
        ours = isinstance(kept, dict) and (kept.get("format"), kept.get("boot")) == (_FORMAT, boot)
        self.classes = {name: ClassTotal(values) for name, values in kept["classes"].items()} if ours else {}
        self.domains = DomainTotals(kept.get("domains", {}) if ours else {})

    def of(self, rdt_class: str) -> ClassTotal:
        """Return a class's totals; nothing yet for one that is new."""
        return self.classes.setdefault(rdt_class, ClassTotal({}))

    def save(self, classes: set[str]) -> None:
        """Write down those of the classes that there are."""
        kept = {name: total.as_record() for name, total in self.classes.items() if name in classes}
        values = {"format": _FORMAT, "boot": self._boot, "classes": kept, "domains": self.domains.as_record()}
        try:
            write_file(self._path, format_json(values))
        except OSError as error:
            raise LedgerError.of_file(error, self._path) from error
