"""One sample of the node as rows: for each pod, foreign group, class remainder and domain, its counters.

`record` writes these rows into a file, and the resident process into the history.
"""

import posix
import time
from functools import cache

from ....core.node.container.names import RecordedNames
from ....core.node.host.files import kernel_text
from ....core.node.names import printable
from ....core.node.resctrl.absence import has_counters
from ....core.node.resctrl.bandwidth import TOTAL, bandwidth_of
from ....core.node.resctrl.counter_files import layout
from ....core.node.resctrl.counter_totals import summed
from ....core.node.resctrl.counters import AVAILABLE, CUMULATIVE, MON_DATA, Slot
from ....core.node.resctrl.layouts import L3, domain_folder
from ....core.node.resctrl.schemata import limited_in
from ..capacity.capacity import capacities_of_bandwidth
from ..guard.snapshots import domains_of, traffic_of
from ..slowdown.causes.cause import SUPPORTED
from ..slowdown.section import section as slowdown_section
from ..slowdown.status import read_status
from ..snapshot.cache_size import l3_sizes
from ..snapshot.cgroups import CGROUP_COUNTERS
from ..snapshot.growth import ENERGY, growths
from ..snapshot.packages import Packages
from ..snapshot.snapshot import open_files, take
from .class_changes import changes
from .events import GuardEvents, LimitEvents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Protocol

    from ....core.node.context import Context
    from ....core.node.resctrl.counters import Counter, Raw
    from ..guard.snapshots import Domains
    from ..snapshot.snapshot import Snapshot, Values

    Value = str | float | None
    Row = Mapping[str, Value]

    class Names(Protocol):
        """The names of keys."""

        def learn(self, keys: Iterable[str]) -> None:
            """Update the names for the existing keys."""

        def of(self, key: str) -> tuple[str, str, str]:
            """Return namespace, pod and container of a key."""
else:
    Value = Row = object

POD, GROUP, REST, PACKAGE = "pod", "group", "rest", "package"
"""Kinds of rows: a pod, a foreign group, the ungrouped tasks of a class, a processor package."""
MEMORY, GUARD, SCHEMATA = "memory", "guard", "schemata"
"""More kinds: a memory domain with its L3 domains as key, the guard's event, a class's changed schemata."""
SLOWED = "slowdown"
"""Another kind: a pod's ratio by the slowdown part; ``event`` has the causes, ``culprits`` the keys of their pods."""
LOST = "lost"
"""Another kind: what pods of ``namespace`` lost to those of the namespace that is the ``key``."""
LIMIT, UNLIMIT = "limit", "unlimit"
"""Two more: a limit of the pod that began, or ended. A recording begins with the limits that are active then."""
EVENTS = (GUARD, SCHEMATA, LIMIT, UNLIMIT)
"""The kinds of rows that have a text and no counters."""
TRAFFIC, CAPACITY = "memory_bytes_per_second", "capacity_bytes_per_second"
"""The columns of a memory domain: its traffic since the sample before, and its capacity, whose source is ``event``."""
RATIO = "slowdown_ratio"
"""The column of a slowed or normal pod: how many times as long its work takes as in quiet times."""
LOST_SECONDS = "lost_seconds"
"""The column of a ``lost`` row: seconds since the sampling process began to judge pods."""
PACKAGE_ENERGY = "package_energy_joules"
"""The column of a package's own energy (RAPL), of which the cores' energy is a part."""
L3_SIZE = "l3_size_bytes"
"""The column of the ungrouped tasks of the root class in an L3 domain: the bytes of the cache."""
LABELS = (
    *("time", "host", "kind", "key", "namespace", "pod", "container", "rdt_class", "domain"),
    *("missing", "event", "culprits"),
)
COUNTED = "counted_seconds"
"""Seconds that a pod's counters have counted since the recording began; `counted_column` maps counters to columns."""
_EARLIER = "earlier_"
"""The beginning of the same column's name with the whole seconds before the recording began (`earlier_column`)."""
UNKNOWN = "uncounted_groups"
"""The number of a class's groups without a value of memory traffic or energy, if its remainder therefore has none."""
_UNITS = {"By": "bytes", "J": "joules"}
_NO_GROWTH = (None, 0.0)
_OWN_SECONDS = ("mbm_local_bytes",)  # assignable counters, which are counted separately


@cache
def column_of(counter: "Counter") -> str:
    """Return a counter's column: its file's name and its unit."""
    unit = _UNITS.get(counter.unit, "")
    return counter.name if not unit or counter.name.endswith(f"_{unit}") else f"{counter.name}_{unit}"


@cache
def counted_column(counter: str) -> str:
    """Return the column with the seconds for which a counter has counted."""
    return f"{counter}_{COUNTED}" if counter in _OWN_SECONDS else COUNTED


@cache
def earlier_column(counter: str) -> str:
    """Return the column with the whole seconds for which a counter had counted before the recording began.

    Together with those of `counted_column`, they are the seconds in which a total was counted.
    """
    return _EARLIER + counted_column(counter)


def written_time(now: int) -> str:
    """Return a time in milliseconds since 1970 as it stands in rows: ISO 8601 in UTC."""
    whole, milliseconds = divmod(now, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{milliseconds:03}+00:00"


class Sampler:
    """Sampler of the node; raises `HookError` if resctrl is unreadable.

    Args:
        node: the node.
        names: the names of its keys; None for those that hooks record.
    """

    def __init__(self, node: "Context", names: "Names | None" = None) -> None:
        self._node = node
        self._names: "Names" = names or RecordedNames(node.ledger)
        self._host = printable(posix.uname().nodename)
        has_counters(node.monitor.resctrl)  # first: without resctrl where it should be, create nothing
        self._files = open_files()
        self._packages = Packages()
        self._before: "Snapshot | None" = None
        self._domains: "Domains | None" = None
        self._is_judged = slowdown_section(node.settings)["enabled"]
        self._schemata: "dict[str, str]" = {}
        self._guard, self._limits = GuardEvents(node), LimitEvents(node, self._labels)
        self.peaks: "dict[int, float]" = {}
        """The largest bandwidth of each memory domain between two samples, in bytes per second."""
        self._counted: "dict[str, dict[tuple[str, str], float]]" = {}
        """By key, counter and domain."""
        slots = [slot for slot in layout(f"{node.monitor.resctrl.root}/{MON_DATA}") if slot.domain.node is None]
        self._bandwidth = bandwidth_of(slots)
        self._capacities = capacities_of_bandwidth(node, self._bandwidth)
        self._limited = limited_in(node.monitor.resctrl.root, self._bandwidth)
        self._sizes = {domain_folder(L3, number): size for number, size in l3_sizes(node.monitor.resctrl.root).items()}
        counted = [slot.counter for slot in slots] + CGROUP_COUNTERS
        counters = dict.fromkeys(one.name for one in counted if one.kind == CUMULATIVE)
        self.columns = (
            *LABELS,
            *dict.fromkeys(column_of(slot.counter) for slot in slots),
            *map(column_of, CGROUP_COUNTERS),
            *dict.fromkeys(counted_column(name) for name in counters),
            *dict.fromkeys(earlier_column(name) for name in counters),
            UNKNOWN,
            *([L3_SIZE] if self._sizes else []),
            *([PACKAGE_ENERGY] if self._packages.read() else []),
            *((TRAFFIC, CAPACITY) if any(map(self._capacities.reliable, self._bandwidth.numbers)) else ()),
            *([RATIO, LOST_SECONDS] if self._is_judged else []),
        )
        """The columns of a row: `LABELS`, the counters of this machine, and their counting times."""

    def sample(self) -> "list[Row]":
        """Read all counters and return the rows of this moment.

        Raises:
            HookError: resctrl or the state directory is unreadable.
        """
        return self.rows(take(self._node, self._files), int(time.time() * 1000))

    def rows(self, snapshot: "Snapshot", now: int) -> "list[Row]":
        """Return the rows of a snapshot; ``now`` is its time in milliseconds since 1970."""
        when = written_time(now)
        self._names.learn(snapshot.pods)
        rows: "list[Row]" = []
        counted, self._counted = self._counted, {}
        for key, found in snapshot.pods.items():
            labels = self._labels(key)
            held = snapshot.held.get(key, ())
            if len(held) == 1:  # of several, the counters are the sums
                labels["rdt_class"] = next(iter(held))
            readings = [reading for reading in summed(found) if reading.domain.node is None]
            numbers = (
                (Slot(one.domain, one.counter), one.value if one.state == AVAILABLE else one.state) for one in readings
            )
            made = self._rows(when, POD, labels, numbers)
            growth = growths(self._before, snapshot, key) if self._before else {}
            times = self._counted[key] = counted.get(key, {})
            for one in readings:
                place = one.counter.name, one.domain.folder
                row = made.get(place[1]) if one.counter.kind == CUMULATIVE else None
                if row is not None:
                    seconds = times[place] = times.get(place, 0.0) + growth.get(place, _NO_GROWTH)[1]
                    row.setdefault(counted_column(place[0]), round(seconds, 3))
                    earlier = max(round((one.seconds or 0.0) - seconds), 0)  # a whole number takes no space on disk
                    row.setdefault(earlier_column(place[0]), earlier)
            rows += made.values()
        for (rdt_class, name), counts in snapshot.foreign.items():
            labels = {"key": name, "rdt_class": rdt_class}
            rows += self._rows(when, GROUP, labels, _of(counts.values, snapshot.slots)).values()
        for rdt_class, of in sorted(snapshot.classes.items()):
            made = self._rows(when, REST, {"rdt_class": rdt_class}, _of(of.ungrouped, snapshot.slots))
            for path, number in of.unknown.items():
                slot = snapshot.slots[path]
                if slot.domain.node is None and slot.counter.name in (TOTAL, ENERGY):
                    made[slot.domain.folder][UNKNOWN] = number
            for folder in made.keys() & self._sizes if not rdt_class else ():
                made[folder][L3_SIZE] = self._sizes[folder]
            rows += made.values()
        for package, joules in self._packages.read().items():
            rows.append(self._row(when, PACKAGE, package, {PACKAGE_ENERGY: joules}))
        rows += self._memory(when, snapshot)
        rows += self._slowed(when) if self._is_judged else ()
        rows += self._events(when)
        rows += self._changes(when, snapshot)
        self._before = snapshot
        return rows

    def _memory(self, when: str, snapshot: "Snapshot") -> "Iterable[Row]":
        """Return a row for each memory domain with a capacity, and note the peaks of all."""
        if self._domains is None:
            self._domains = domains_of(self._node, snapshot)
        for one in traffic_of(self._before, snapshot, self._domains) if self._before else []:
            if one.rate is not None:
                self.peaks[one.domain[0]] = max(self.peaks.get(one.domain[0], 0.0), one.rate)
            capacity = self._capacities.of(one.domain[0])
            if capacity is not None and not capacity.is_bound:  # no time is full by the largest rate so far
                l3 = [self._bandwidth.folder(number) for number in one.domain]
                rate: "Row" = {"missing": f"{TRAFFIC}:Unknown"} if one.rate is None else {TRAFFIC: one.rate}
                source: "Row" = {CAPACITY: capacity.rate, "event": capacity.source}
                yield self._row(when, MEMORY, l3[0], {"key": " ".join(l3), **rate, **source})

    def _slowed(self, when: str) -> "Iterable[Row]":
        """Return a row for each pod whose last verdict has a ratio, and for each pair of namespaces with lost time."""
        status = read_status(self._node) or {}
        for key, found in (status.get("pods") or {}).items():
            if found["ratio"] is None:
                continue
            labels = self._labels(key)
            supported = [one for one in found["causes"] if one["state"] == SUPPORTED]
            culprits = dict.fromkeys(one["key"] for cause in supported for one in cause["pods"] if not one["outside"])
            if supported:
                labels.update({"event": ", ".join(one["cause"] for one in supported), "culprits": " ".join(culprits)})
            domain = "" if found["domain"] is None else self._bandwidth.folder(found["domain"])
            yield self._row(when, SLOWED, domain, {**labels, RATIO: round(found["ratio"], 3)})
        for pair in status.get("lost", ()):
            names = {"namespace": pair["namespace"], "key": pair["culpritNamespace"]}
            yield self._row(when, LOST, "", {**names, LOST_SECONDS: pair["seconds"]})

    def _events(self, when: str) -> "Iterable[Row]":
        """Return a row for each event since the last sample."""
        for number, values in self._guard.new():
            yield self._row(when, GUARD, self._bandwidth.folder(number), values)
        for is_active, labels in self._limits.new():
            yield self._row(when, LIMIT if is_active else UNLIMIT, "", labels)

    def _changes(self, when: str, snapshot: "Snapshot") -> "Iterable[Row]":
        """Return a row for each class and domain whose schemata changed since the last sample."""
        resctrl, before = self._node.monitor.resctrl, self._schemata
        self._schemata = {  # an unreadable file is no change
            name: kernel_text(f"{resctrl.class_folder(name)}/schemata") or before.get(name, "")
            for name in snapshot.classes
        }
        for name, domain, text in changes(before, self._schemata, self._limited) if self._before else ():
            values: "Row" = {"key": SCHEMATA, "rdt_class": name, "event": text}
            yield self._row(when, SCHEMATA, domain, values)

    def _labels(self, key: str) -> "dict[str, str]":
        """Return the labels of a pod."""
        namespace, pod, container = self._names.of(key)
        return {"key": key, "namespace": namespace, "pod": pod, "container": container}

    def _row(self, when: str, kind: str, domain: str, values: "Row") -> "dict[str, Value]":
        return {"time": when, "host": self._host, "kind": kind, "domain": domain, **values}

    def _rows(
        self, when: str, kind: str, labels: "Row", numbers: "Iterable[tuple[Slot, Raw]]"
    ) -> "dict[str, dict[str, Value]]":
        """Return a row for each domain. ``missing`` names each missing value with its reason."""
        found: "dict[str, dict[str, Value]]" = {}
        for slot, value in numbers:
            if value is None:
                continue
            folder = slot.domain.folder
            row = found.get(folder)
            if row is None:
                row = found[folder] = self._row(when, kind, folder, labels)
            column = column_of(slot.counter)
            if isinstance(value, str):
                row["missing"] = f"{row.get('missing', '')} {column}:{value}".lstrip()
            else:
                row[column] = value
        return found


def _of(values: "Values", slots: "dict[str, Slot]") -> "Iterable[tuple[Slot, Raw]]":
    """Return the values of whole domains."""
    return ((slots[path], value) for path, value in values.items() if slots[path].domain.node is None)
