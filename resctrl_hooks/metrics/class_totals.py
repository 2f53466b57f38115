"""Monotonic totals of each RDT class and of its ungrouped tasks.

A class's own file drops by a group's whole count when that group is removed, which Prometheus would take for a restart.
So a class's total is the sum of increases: of its groups, including removed ones, and of its ungrouped tasks.
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
"""Values of cumulative counters, by path below ``mon_data``."""


class ClassTotal:
    """One class: the last values of its ``parts`` (groups), its ``total``, and the ungrouped part of that."""

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
        """Add the increases since the last call.

        Args:
            identity: the class's folder; another identity is a new class of that name.
            parts: each group's own value, by the group's identity.
            ungrouped: the class's value less its groups'. The two are read one after the other, so it may decrease
                slightly and then counts as unchanged. After a missing value it counts from the next one.
            inherited: counters of a new group in a known class that start at the RMID's previous value: they count from
                their first value.
            starts: by group, the start value if known.
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
        """Return the values for the file."""
        return {name: getattr(self, name) for name in self.__slots__}


class ClassTotals:
    """The totals of all classes, kept in the state directory across restarts of readers. Hold a lock around it.

    Raises:
        LedgerError: the file cannot be read or written.
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
        """Return a class's totals; empty for a new class."""
        return self.classes.setdefault(rdt_class, ClassTotal({}))

    def save(self, classes: set[str]) -> None:
        """Save the totals of existing classes."""
        kept = {name: total.as_record() for name, total in self.classes.items() if name in classes}
        values = {"format": _FORMAT, "boot": self._boot, "classes": kept, "domains": self.domains.as_record()}
        try:
            write_file(self._path, format_json(values))
        except OSError as error:
            raise LedgerError.of_file(error, self._path) from error
