"""The one door to the capacity of memory domains.

The configured value comes first, then the firmware's bandwidth of the NUMA nodes (HMAT), then a part of the peak of the
memory modules (SMBIOS). At last comes the largest rate so far. It is a lower bound, so rules that need the true
capacity use `Capacities.reliable`, in which it is unknown.

Sources: kernel, Documentation/admin-guide/mm/numaperf.rst, "NUMA Performance": ``read_bandwidth`` is in MB/s, and
``access1`` leaves out initiators without a CPU.
"""

from functools import lru_cache
from typing import NamedTuple

from ....core.node.host.files import kernel_text, read_file
from ....core.node.host.topology_sysfs import find_topology
from ....core.node.resctrl.bandwidth import Bandwidth, bandwidth_of
from ....core.node.resctrl.bandwidth_unit import capacity_of
from ....core.node.resctrl.counter_files import layout
from ....core.node.resctrl.counters import MON_DATA
from ....core.node.resctrl.layouts import L3
from .domains import domains_of_bandwidth
from .record import read_record
from .shares import by_array, by_node, cpus_of
from .smbios import LIMIT, TABLE, peaks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ....core.node.context import Context
    from ....core.node.host.topology import Topology
    from ....core.node.resctrl.counters import Reading, Slot

CONFIGURED, HMAT, SMBIOS, SEEN = "configured", "hmat", "smbios", "seen"
SOURCES = (CONFIGURED, HMAT, SMBIOS, SEEN)
"""The sources, the best first."""
_REACHED = 0.8
"""The part of the modules' peak that a processor reaches: refresh and changes of direction take the rest."""
_REFUTED = 1 / _REACHED
"""A measured rate above this multiple of a table's value proves that the table is wrong."""
_MEGABYTE = 10**6
_PLAUSIBLE = range(100, 100_000_000)  # MB/s of a NUMA node
_DIGITS = 12


class Capacity(NamedTuple):
    """Bytes per second that a memory domain carries, and their source."""

    rate: float
    source: str

    def load(self, rate: "float | None") -> "float | None":
        """Return the part of the capacity that a rate needs; by a bound it is 1 at most. None for an unknown rate."""
        if rate is None:
            return None
        return min(1.0, rate / self.rate) if self.is_bound else rate / self.rate

    @property
    def is_bound(self) -> bool:
        """Whether the capacity is at least this rate, so that a load by it is an upper bound."""
        return self.source == SEEN


class Capacities:
    """The capacities of a node's memory domains.

    Args:
        configured: the compiled ``monitoring.capacity``.
        tables: bytes per second by the firmware, by the lowest id of each domain.
        source: that of ``tables``.
        seen: the largest rate of each domain so far.
    """

    def __init__(
        self,
        configured: "Mapping[str, float] | None" = None,
        tables: "Mapping[int, float] | None" = None,
        source: str = "",
        seen: "Mapping[int, float] | None" = None,
    ) -> None:
        self._configured = dict(configured or {})
        self.tables = dict(tables or {})
        self.source = source
        self.seen = dict(seen or {})

    def look(self, folder: str) -> None:
        """Read the largest rates again, which the sampling process keeps in the state directory."""
        self.seen.update(_by_number(read_record(folder)["seen"]))

    def of(self, domain: int) -> "Capacity | None":
        """Return the capacity of a memory domain by its lowest id; None if nothing is known."""
        configured = capacity_of(self._configured, domain)
        if configured:
            return Capacity(configured, CONFIGURED)
        table, seen = self.tables.get(domain, 0.0), self.seen.get(domain, 0.0)
        if table and seen <= _REFUTED * table:
            return Capacity(max(table, seen), self.source)
        return Capacity(seen, SEEN) if seen else None

    def reliable(self, domain: int) -> float:
        """Return a memory domain's bytes per second; 0 where only a lower bound is known."""
        found = self.of(domain)
        return found.rate if found is not None and not found.is_bound else 0.0


def capacities_of(context: "Context", slots: "Iterable[Slot | Reading]") -> Capacities:
    """Return the capacities of a node's memory domains from its counters."""
    return capacities_of_bandwidth(context, bandwidth_of(slots))


def capacities_of_bandwidth(context: "Context", bandwidth: "Bandwidth") -> Capacities:
    """Return the capacities of the memory domains of the domains that count bandwidth."""
    record = read_record(context.settings.state_dir)
    tables, source = tables_of(context, bandwidth)
    if not source and record["source"] in SOURCES:
        tables, source = _by_number(record["tables"]), record["source"]
    return Capacities(context.settings.monitoring.get("capacity"), tables, source, _by_number(record["seen"]))


def capacities_by_domain(context: "Context") -> "dict[int, Capacity | None]":
    """Return the capacity of each memory domain of a node, without reading a counter."""
    bandwidth = bandwidth_of(layout(f"{context.monitor.resctrl.root}/{MON_DATA}"))
    found = capacities_of_bandwidth(context, bandwidth)
    return {domain[0]: found.of(domain[0]) for domain in _domains_of(context, bandwidth)[1]}


def tables_of(context: "Context", bandwidth: "Bandwidth") -> "tuple[dict[int, float], str]":
    """Return bytes per second of each memory domain by a table of the firmware, and the table; empty without one."""
    topology, domains = _domains_of(context, bandwidth)
    return _tables(context.settings.sys_path, bandwidth.resource, topology, domains)


def _domains_of(context: "Context", bandwidth: "Bandwidth") -> "tuple[Topology | None, tuple[tuple[int, ...], ...]]":
    by = context.settings.monitoring["memoryDomains"]
    return _domains(context.settings.sys_path, bandwidth.resource, tuple(bandwidth.numbers), by)


@lru_cache(maxsize=4)
def _domains(
    sys_path: str, resource: str, numbers: "tuple[int, ...]", by: str
) -> "tuple[Topology | None, tuple[tuple[int, ...], ...]]":
    """Return the machine and its memory domains, read once: each scrape of the metrics asks for them."""
    topology = find_topology(sys_path)
    return topology, tuple(domains_of_bandwidth(Bandwidth(resource, numbers), topology, by))


@lru_cache(maxsize=4)
def _tables(
    sys_path: str, resource: str, topology: "Topology | None", domains: "tuple[tuple[int, ...], ...]"
) -> "tuple[dict[int, float], str]":
    """Return what the firmware says of the memory domains, and the table; nothing where no table is usable.

    Tables do not change after boot, so a process reads them once.
    """
    bandwidth = Bandwidth(resource, [number for domain in domains for number in domain])
    cpus = cpus_of(domains, bandwidth, topology) if topology else {}
    found = by_node(cpus, topology, _read_hmat(sys_path, topology)) if topology else {}
    if found:
        return found, HMAT
    if topology is None and bandwidth.resource != L3:
        return {}, ""  # some of its domains may be memory of devices
    try:
        rates = peaks(read_file(f"{sys_path}/{TABLE}", LIMIT))
    except OSError:
        return {}, ""  # the firmware has none, or this process may not read it
    found = {domain: _REACHED * rate for domain, rate in by_array(domains, cpus, topology, rates).items()}
    return found, SMBIOS if found else ""


def _read_hmat(sys_path: str, topology: "Topology") -> "dict[int, float]":
    """Return bytes per second of each NUMA node that has a plausible value."""
    found = {}
    for node in topology.nodes:
        for access in ("access0", "access1"):
            text = kernel_text(f"{sys_path}/devices/system/node/node{node.id}/{access}/initiators/read_bandwidth")
            if text.isdigit() and len(text) <= _DIGITS and int(text) in _PLAUSIBLE:
                found[node.id] = float(int(text) * _MEGABYTE)
                break
    return found


def _by_number(found: "Mapping[str, float]") -> "dict[int, float]":
    return {int(name): rate for name, rate in found.items() if name.isdigit() and len(name) <= _DIGITS and rate > 0}
