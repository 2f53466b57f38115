"""Monotonic totals of each RDT class, of its ungrouped tasks, and of the node.

A class's own file drops by a group's whole count when that group is removed, which Prometheus would take for a restart.
So a class's total is the sum of increases: of its groups, including removed ones, and of its ungrouped tasks. The
node's total is the sum of the classes', including removed ones. A group that is renamed into another class, or that a
snapshot does not see, continues from its last values.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from resctrl_hooks.annotations import LogCallable
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.log import silent
from resctrl_hooks.core.node.resctrl.counters import Raw
from resctrl_hooks.core.node.resctrl.layouts import PERF, is_of
from resctrl_hooks.core.node.resctrl.mounts import is_same_mount
from resctrl_hooks.core.node.resctrl.total import Source, Total, exact
from resctrl_hooks.core.node.resctrl.totals_file import CLASSES, load_totals, save_or_keep
from resctrl_hooks.core.node.shapes import Annotated, Anything, NotRequired, Number, Text, TypedDict, fits
from resctrl_hooks.observe.node.snapshot.packages import Packages

from .domain_totals import DomainTotals

Values = dict[str, float]
"""Values of cumulative counters, by path below ``mon_data``."""

_MOST_UNSEEN = 64
_Values = dict[Text, Number]


class ClassRecord(TypedDict):
    """A class's data in the file; by the path of a counter, ``parts`` by the identity of a group."""

    identity: Text
    parts: dict[Text, _Values]
    total: _Values
    ungrouped: _Values
    rest: NotRequired[_Values]


class DomainsRecord(TypedDict):
    """The data of `DomainTotals`."""

    total: _Values
    seen: dict[Text, _Values]


class PackagesRecord(TypedDict):
    """The data of `Packages`."""

    total: _Values
    last: _Values


class ClassesRecord(TypedDict):
    """The file ``totals/class-counters``; a class with damaged data is forgotten."""

    classes: dict[Text, Annotated[ClassRecord, Anything]]
    removed: NotRequired[_Values]
    domains: NotRequired[DomainsRecord]
    packages: NotRequired[PackagesRecord]
    when: NotRequired[Number]
    saved: NotRequired[Number]
    unseen: NotRequired[dict[Text, _Values]]
    mount: NotRequired[list[Text]]


class Parts(dict[str, Source]):
    """The groups of all classes, by identity: a group that a rename moves to another class continues there.

    One that a snapshot does not see keeps its last values.
    """

    def __init__(self, record: Mapping[str, Mapping[str, float]] | None = None) -> None:
        super().__init__({identity: Source(identity, lasts=lasts) for identity, lasts in (record or {}).items()})

    def keep(self, seen: set[str], *, is_whole: bool) -> dict[str, Values]:
        """Return the last values of the unseen groups; after a snapshot of the whole node, of the last few only."""
        unseen = [identity for identity in self if identity not in seen]
        for identity in unseen[:-_MOST_UNSEEN] if is_whole else ():
            del self[identity]
        return {identity: self[identity].lasts for identity in unseen if identity in self}


class ClassTotal:
    """One class: its groups and its ungrouped tasks, and the amounts of both.

    Args:
        identity: the class's folder.
        record: the class's data in the file; None for a new class, whose counters begin at 0.
        parts: the groups of all classes.
    """

    def __init__(self, identity: str, record: Mapping[str, Any] | None = None, parts: Parts | None = None) -> None:
        self.identity = identity
        self._is_new = record is None
        record = record or {}
        self._grouped, self._ungrouped = Total(), Total()
        self._ungrouped.amounts = {**record.get("ungrouped", {})}
        self._grouped.amounts = together(record.get("total", {}), {path: -one for path, one in self.ungrouped.items()})
        self._parts = Parts() if parts is None else parts
        self._parts.update(Parts(record.get("parts", {})))
        self.seen = {*record.get("parts", {})}
        self._rest = Source("", lasts=record.get("rest", self.ungrouped))

    @property
    def ungrouped(self) -> Values:
        """The amounts of the ungrouped tasks."""
        return self._ungrouped.amounts

    @property
    def total(self) -> Values:
        """The amounts of all tasks."""
        return together(self._grouped.amounts, self.ungrouped)

    def begins(self, part: str, paths: Sequence[str]) -> bool:
        """Return whether a group's counter has no last value yet."""
        source = self._parts.get(part)
        return any(source is None or path not in source.lasts for path in paths)

    def add(
        self,
        parts: Mapping[str, Mapping[str, Raw]],
        ungrouped: Values,
        paths: Sequence[str],
        starts: Mapping[str, Values] | None = None,
        *,
        is_doubtful: bool = False,
    ) -> None:
        """Add the increases since the last call.

        Args:
            parts: each group's own values, by the group's identity.
            ungrouped: the class's values less its groups'. The two are read one after the other, so one may decrease
                slightly and then counts as unchanged. After a missing value it counts from the next one.
            paths: the cumulative counters.
            starts: by group, the known start values of energy.
            is_doubtful: whether the identities may be those of other groups than before: see `Source.weaken`.
        """
        first = dict.fromkeys(paths, 0 if self._is_new else None)
        self.seen = {*parts}
        for part, values in parts.items():
            before = self._parts.pop(part, None)
            source = self._parts[part] = before or Source(part)
            if is_doubtful:
                source.weaken(values.items())
            begin = first if self._is_new and before is None else {}
            source.starts = {**begin, **(starts or {}).get(part, {})}
            self._grouped.add(source, [(path, values.get(path)) for path in paths], 0.0)
        lasts = {path: last for path, last in self._rest.lasts.items() if path in ungrouped}
        if is_doubtful:
            lasts = {path: last for path, last in lasts.items() if not is_of(PERF, path)}
        self._rest = Source("", starts=first, lasts=lasts)
        rest = [(path, max(ungrouped[path], lasts.get(path, 0))) for path in paths if path in ungrouped]
        self._ungrouped.add(self._rest, rest, 0.0)
        self._is_new = False

    def as_record(self) -> dict[str, Any]:
        """Return the values for the file."""
        return {
            "identity": self.identity,
            "parts": {name: self._parts[name].lasts for name in self._parts if name in self.seen},
            "total": self.total,
            "ungrouped": self.ungrouped,
            "rest": self._rest.lasts,
        }


class ClassTotals:
    """The totals of all classes and of the node, kept in the state directory across restarts of readers.

    Hold the lock of `totals_file` around it.

    Attributes:
        domains: the totals of memory domains.
        packages: the totals of processor packages.
        when: when the last snapshot was taken, in seconds since the boot; an older one adds nothing.

    Raises:
        LedgerError: the file cannot be read or written.
    """

    def __init__(self, ledger: Ledger, boot: str, log: LogCallable = silent) -> None:
        self._ledger, self._boot, self._log = ledger, boot, log
        record = load_totals(ledger, boot, CLASSES, ClassesRecord, log)
        classes = [(name, of) for name, of in record.get("classes", {}).items() if fits(ClassRecord, of)]
        self._parts = Parts(record.get("unseen", {}))
        self._classes = {name: ClassTotal(of["identity"], of, self._parts) for name, of in classes}
        self._mount: list[str] = record.get("mount", [])
        self._removed: Values = record.get("removed", {})
        self.domains = DomainTotals(record.get("domains", {}))
        self.packages = Packages(record=record.get("packages", {}))
        self.when: float = record.get("when", 0.0)

    def of(self, rdt_class: str, identity: str = "") -> ClassTotal:
        """Return a class's totals; with another identity than before, those of a new class of that name."""
        total = self._classes.get(rdt_class)
        if total is None or (identity and identity != total.identity):
            self._remove(rdt_class)
            total = self._classes[rdt_class] = ClassTotal(identity, parts=self._parts)
        return total

    def _remove(self, rdt_class: str) -> None:
        if rdt_class in self._classes:
            self._removed = together(self._removed, self._classes.pop(rdt_class).total)

    @property
    def node(self) -> Values:
        """The amounts of all classes, including removed ones."""
        return together(self._removed, *(total.total for total in self._classes.values()))

    def see_mount(self, mount: list[str]) -> bool:
        """Return whether resctrl may have been mounted again since the last call, given its folders' times."""
        before, self._mount = self._mount, mount
        return not is_same_mount(mount, before)

    def save(self, classes: set[str], *, is_whole: bool = True) -> None:
        """Save the totals; those of classes that no longer exist are only in the node's.

        While they cannot be written, the next read of this process continues with these.

        Args:
            classes: the existing classes.
            is_whole: whether everything could be read.
        """
        for name in self._classes.keys() - classes:
            self._remove(name)
        fields = {
            "classes": {name: total.as_record() for name, total in self._classes.items()},
            "unseen": self._parts.keep({part for of in self._classes.values() for part in of.seen}, is_whole=is_whole),
            "removed": self._removed,
            "mount": self._mount,
            "domains": self.domains.as_record(),
            "packages": self.packages.as_record(),
            "when": self.when,
        }
        save_or_keep(self._ledger, self._boot, CLASSES, self, lambda: fields, self._log)


def together(*parts: Values) -> Values:
    """Return the sums by path."""
    paths = dict.fromkeys(path for part in parts for path in part)
    return {path: exact(sum(part.get(path, 0) for part in parts)) for path in paths}
