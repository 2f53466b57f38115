"""One sample of the node as rows: for each pod, foreign group, class remainder and domain, its counters."""

import socket
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from resctrl_hooks.inventory.guard import guard_status
from resctrl_hooks.inventory.memory_load import Domains, domains_of, l3_folder, traffic_of
from resctrl_hooks.inventory.package_energy import Packages
from resctrl_hooks.inventory.pod_names import PodNames
from resctrl_hooks.inventory.rates import ENERGY, TOTAL, growths
from resctrl_hooks.inventory.snapshot import Raw, Snapshot, Values, open_files, take
from resctrl_hooks.node.context import Context
from resctrl_hooks.node.resctrl.bandwidth_unit import capacity_of
from resctrl_hooks.node.resctrl.counter_files import layout
from resctrl_hooks.node.resctrl.counter_totals import summed
from resctrl_hooks.node.resctrl.counters import AVAILABLE, CUMULATIVE, MON_DATA, Counter, Slot

POD, GROUP, REST, PACKAGE = "pod", "group", "rest", "package"
"""Kinds of rows: a pod, a foreign group, the ungrouped tasks of a class, a processor package."""
MEMORY, GUARD = "memory", "guard"
"""More kinds: a memory domain with its L3 domains as key, and an event of the bandwidth guard."""
TRAFFIC, CAPACITY = "memory_bytes_per_second", "capacity_bytes_per_second"
"""The columns of a memory domain: its traffic since the sample before, and ``monitoring.capacity``."""
PACKAGE_ENERGY: Final = "package_energy_joules"
"""The column of a package's own energy (RAPL), of which the cores' energy is a part."""
LABELS: Final = (
    *("time", "host", "kind", "key", "namespace", "pod", "container", "rdt_class", "domain", "missing", "event"),
)
COUNTED: Final = "counted_seconds"
"""Seconds that a pod's counters have counted since the recording began; `counted_column` maps counters to columns."""
UNKNOWN: Final = "uncounted_groups"
"""The number of a class's groups without a value of memory traffic or energy, if its remainder therefore has none."""
Value = str | float | None
Row = Mapping[str, Value]
_UNITS = {"By": "bytes", "J": "joules"}
_OWN_SECONDS = ("mbm_local_bytes",)  # assignable counters, which are counted separately


def column_of(counter: Counter) -> str:
    """Return a counter's column: its file's name and its unit."""
    unit = _UNITS.get(counter.unit, "")
    return counter.name if not unit or counter.name.endswith(f"_{unit}") else f"{counter.name}_{unit}"


def counted_column(counter: str) -> str:
    """Return the column with the seconds for which a counter has counted."""
    return f"{counter}_{COUNTED}" if counter in _OWN_SECONDS else COUNTED


class Sampler:
    """Sampler of the node; raises `HookError` if resctrl is unreadable."""

    def __init__(self, node: Context) -> None:
        self._node = node
        self._names = PodNames(node)
        self._host = socket.gethostname()
        node.monitor.resctrl.classes()
        self._files = open_files()
        self._packages = Packages()
        self._before: Snapshot | None = None
        self._domains: Domains | None = None
        self._capacity: dict[str, float] = node.settings.monitoring.get("capacity") or {}
        self._seen_until = time.time()  # the guard's events before are not of this recording
        self.peaks: dict[int, float] = {}
        """The largest bandwidth of each memory domain between two samples, in bytes per second."""
        self._counted: dict[tuple[str, str, str], float] = {}
        slots = [slot for slot in layout(f"{node.monitor.resctrl.root}/{MON_DATA}") if slot.domain.node is None]
        counters = dict.fromkeys(slot.counter.name for slot in slots if slot.counter.kind == CUMULATIVE)
        self.columns = (
            *LABELS,
            *dict.fromkeys(column_of(slot.counter) for slot in slots),
            *dict.fromkeys(counted_column(name) for name in counters),
            UNKNOWN,
            *([PACKAGE_ENERGY] if self._packages.read() else []),
            *((TRAFFIC, CAPACITY) if self._capacity else ()),
        )
        """The columns of a row: `LABELS`, the counters of this machine, and their counting times."""

    def look(self) -> list[Row]:
        """Return the rows of this moment.

        Raises:
            HookError: resctrl or the state directory is unreadable.
        """
        when = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        snapshot = take(self._node, self._files)
        self._names.learn(snapshot.pods)
        rows: list[Row] = []
        for key, found in snapshot.pods.items():
            namespace, pod, container = self._names.of(key)
            labels = {"key": key, "namespace": namespace, "pod": pod, "container": container}
            readings = (reading for reading in summed(found) if reading.domain.node is None)
            numbers = [
                (Slot(one.domain, one.counter), one.value if one.state == AVAILABLE else one.state) for one in readings
            ]
            made = self._rows(when, POD, labels, numbers)
            growth = growths(self._before, snapshot, key) if self._before else {}
            for slot, _ in numbers:
                if slot.counter.kind == CUMULATIVE and slot.domain.folder in made:
                    place = slot.counter.name, slot.domain.folder
                    seconds = self._counted.get((key, *place), 0.0)
                    seconds += growth[place].seconds if place in growth else 0.0
                    self._counted[key, *place] = seconds
                    made[slot.domain.folder].setdefault(counted_column(slot.counter.name), round(seconds, 3))
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
            rows += made.values()
        for package, joules in self._packages.read().items():
            rows.append(self._row(when, PACKAGE, package, {PACKAGE_ENERGY: joules}))
        rows += self._memory(when, snapshot)
        rows += self._events(when)
        self._before = snapshot
        return rows

    def _memory(self, when: str, snapshot: Snapshot) -> Iterable[Row]:
        """Return a row for each memory domain with a capacity, and note the peaks of all."""
        if self._domains is None:
            self._domains = domains_of(self._node, snapshot)
        for one in traffic_of(self._before, snapshot, self._domains) if self._before else []:
            if one.rate is not None:
                self.peaks[one.domain[0]] = max(self.peaks.get(one.domain[0], 0.0), one.rate)
            if capacity := capacity_of(self._capacity, one.domain[0]):
                l3 = [l3_folder(number) for number in one.domain]
                rate: Row = {"missing": f"{TRAFFIC}:Unknown"} if one.rate is None else {TRAFFIC: one.rate}
                yield self._row(when, MEMORY, l3[0], {"key": " ".join(l3), **rate, CAPACITY: capacity})

    def _events(self, when: str) -> Iterable[Row]:
        """Return a row for each event of the guard since the last sample."""
        status = guard_status(self._node)
        for event in status.events if status else []:
            if status is not None and event.time > self._seen_until:
                self._seen_until = event.time
                text = event.text(status.mode, status.unit)
                values: Row = {"key": event.action, "rdt_class": event.rdt_class, "event": text}
                yield self._row(when, GUARD, l3_folder(int(event.domain)), values)

    def _row(self, when: str, kind: str, domain: str, values: Row) -> dict[str, Value]:
        return {"time": when, "host": self._host, "kind": kind, "domain": domain, **values}

    def _rows(
        self, when: str, kind: str, labels: Row, numbers: Iterable[tuple[Slot, Raw]]
    ) -> dict[str, dict[str, Value]]:
        """Return a row for each domain. ``missing`` names each missing value with its reason."""
        found: dict[str, dict[str, Value]] = {}
        for slot, value in numbers:
            if value is None:
                continue
            row = found.setdefault(slot.domain.folder, self._row(when, kind, slot.domain.folder, labels))
            column = column_of(slot.counter)
            if isinstance(value, str):
                row["missing"] = f"{row.get('missing', '')} {column}:{value}".lstrip()
            else:
                row[column] = value
        return found


def _of(values: Values, slots: dict[str, Slot]) -> Iterable[tuple[Slot, Raw]]:
    """Return the values of whole domains."""
    return ((slots[path], value) for path, value in values.items() if slots[path].domain.node is None)
