"""Counters of resctrl: domains, names, kinds, units, and states without a value. `counter_files` reads them.

Sources: kernel, Documentation/filesystems/resctrl.rst ("mon_data", "RDT allocation and monitoring"); for PERF_PKG the
kernel's arch/x86/kernel/cpu/resctrl/intel_aet.c and the Intel-PMT telemetry definitions that it names.
"""

from .layouts import parse_domain

TYPE_CHECKING = False
if TYPE_CHECKING:
    Raw = int | float | str | None
else:
    Raw = object
# Raw: a number, the reason for a missing one (a state below), or None if the file does not exist.

GAUGE = "gauge"
CUMULATIVE = "cumulative"

AVAILABLE = "available"
UNAVAILABLE = "Unavailable"
UNASSIGNED = "Unassigned"
ERROR = "Error"
KERNEL_WORDS = (UNAVAILABLE, UNASSIGNED, ERROR)
INHERITED = "Inherited"  # our own state: cache lines of an RMID that recently belonged to another workload
WAITING = "Waiting"  # our own state: a key without a group now
INCOMPLETE = "Incomplete"  # our own state: a class's sum with a missing part

MON_DATA = "mon_data"


class Counter:
    """A counter: a file in each domain of each group.

    Args:
        name: the file's name, such as ``mbm_total_bytes``.
        kind: ``gauge`` or ``cumulative``.
        unit: UCUM's: ``By``, ``J``, ``F``, ``{cycle}``; empty if unknown.
        text: its meaning, as a sentence.
    """

    __slots__ = ("kind", "name", "text", "unit")

    def __init__(self, name: str, kind: str, unit: str, text: str) -> None:
        self.name = name
        self.kind = kind
        self.unit = unit
        self.text = text

    def __repr__(self) -> str:
        return f"Counter({self.name!r}, {self.kind!r}, {self.unit!r})"


COUNTERS: "dict[str, Counter]" = {
    name: Counter(name, kind, unit, text)
    for name, kind, unit, text in (
        ("llc_occupancy", GAUGE, "By", "Bytes of the L3 cache that these tasks occupy now."),
        (
            "mbm_total_bytes",
            CUMULATIVE,
            "By",
            "Bytes moved to and from memory: by this L3 cache with any node, or by all processors with this memory.",
        ),
        ("mbm_local_bytes", CUMULATIVE, "By", "Bytes moved between this L3 cache and the memory of its own node."),
        ("core_energy", CUMULATIVE, "J", "Core energy of these tasks, estimated from their instructions."),
        ("activity", CUMULATIVE, "F", "Dynamic capacitance: energy without the share of frequency and voltage."),
        ("stalls_llc_hit", CUMULATIVE, "{cycle}", "Cycles stalled on loads that hit the last-level cache."),
        ("stalls_llc_miss", CUMULATIVE, "{cycle}", "Cycles stalled on loads that missed every local cache."),
        ("c1_res", CUMULATIVE, "{tick}", "Time in C1, in ticks of 100 MHz."),
        ("c6_res", CUMULATIVE, "{tick}", "Time in C6, in ticks of the 25 MHz crystal clock."),
        ("unhalted_core_cycles", CUMULATIVE, "{cycle}", "Core clock cycles that were not halted."),
        ("unhalted_ref_cycles", CUMULATIVE, "{cycle}", "Reference (TSC) clock cycles that were not halted."),
        ("uops_retired", CUMULATIVE, "{uop}", "Micro-operations retired."),
        # Of the pod's cgroup, on every node (`observe.node.snapshot.cgroups`).
        ("cpu_seconds", CUMULATIVE, "s", "CPU time of the pod's tasks."),
        ("cpu_waiting_seconds", CUMULATIVE, "s", "Time in which a task of the pod waited for a CPU (pressure)."),
        ("cpu_throttled_seconds", CUMULATIVE, "s", "CPU time for which the pod's CPU limit stopped its tasks."),
        ("memory_bytes", GAUGE, "By", "Memory of the pod, with its part of the page cache."),
        ("disk_bytes", CUMULATIVE, "By", "Bytes that the pod has read from disks and written to them."),
    )
}


def counter_named(name: str) -> Counter:
    """Return the counter of a file's name; an unknown one is cumulative without a unit."""
    return COUNTERS.get(name) or Counter(name, GAUGE if name.endswith("_occupancy") else CUMULATIVE, "", "")


class Domain:
    """Where something is counted.

    Args:
        folder: its path below ``mon_data``, such as ``mon_L3_00``.
        resource: what counts there: ``L3``, or ``PERF_PKG`` for a package's energy.
        id_: its number there, the attribute ``id``: 0 of ``mon_L3_00``.
        node: with Sub-NUMA Clustering the NUMA node of a part (1 of ``mon_L3_00/mon_sub_L3_01``); the cache's own
            numbers are then the sums of its parts'. None for a whole domain.
    """

    __slots__ = ("folder", "id", "node", "resource")

    def __init__(self, folder: str, resource: str, id_: int, node: "int | None" = None) -> None:
        self.folder = folder
        self.resource = resource
        self.id = id_
        self.node = node

    def __repr__(self) -> str:
        return f"Domain({self.folder!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and self.folder == other.folder

    def __hash__(self) -> int:
        return hash(self.folder)


class Slot:
    """One file of ``mon_data``: its path below that folder, its domain and its counter; ``file`` is below the group."""

    __slots__ = ("counter", "domain", "file", "path")

    def __init__(self, domain: Domain, counter: Counter) -> None:
        self.path = f"{domain.folder}/{counter.name}"
        self.file = f"{MON_DATA}/{self.path}"
        self.domain = domain
        self.counter = counter


class Reading:
    """What one ``counter`` of one ``domain`` says of a workload, in that counter's `unit`.

        >>> for reading in monitor.read("job-17"):
        ...     print(reading.domain.folder, reading.counter.name, reading.value, reading.unit)

    A ``state`` other than ``available`` says why there is no number now: what the kernel calls ``Unavailable``,
    ``Unassigned`` or ``Error`` is not zero, nor is what we call ``Inherited`` (cache lines under an RMID that was
    another's a moment ago) or ``Waiting`` (the key has no group now). ``value`` is then what a cumulative counter had
    counted before; None where it never did, and for a gauge. A cumulative value never goes back while the key is
    tracked. ``rdt_class`` is the class that was counted in, None for the sum of all the key's classes, and where the
    key never had a group. ``seconds`` is for how long a cumulative counter has counted, at least, whatever it says now,
    so that a rate is ``value / seconds``; None for a gauge.
    """

    __slots__ = ("counter", "domain", "rdt_class", "seconds", "state", "value")

    def __init__(
        self,
        domain: Domain,
        counter: Counter,
        value: "int | float | None",
        state: str,
        rdt_class: "str | None" = None,
        seconds: "float | None" = None,
    ) -> None:
        self.domain = domain
        self.counter = counter
        self.value = value
        self.state = state
        self.rdt_class = rdt_class
        self.seconds = seconds

    @property
    def kind(self) -> str:
        """``gauge`` or ``cumulative``."""
        return self.counter.kind

    @property
    def unit(self) -> str:
        """The UCUM unit: ``By``, ``J``, ``F``, …; empty where it isn't known."""
        return self.counter.unit

    def __repr__(self) -> str:
        before = "" if self.value is None else f", {self.value} before"
        what = self.value if self.state == AVAILABLE else self.state + before
        where = "" if self.rdt_class is None else f" in {self.rdt_class or 'the root class'}"
        return f"<{self.domain.folder}/{self.counter.name}{where}: {what}>"


def domain_named(name: str, below: "Domain | None" = None) -> "Domain | None":
    """Return the domain of a folder in ``mon_data``, or with ``below`` of one in a domain's folder; None for others."""
    found = parse_domain(name, part=below is not None)
    if found is None:
        return None
    resource, number = found
    if below:
        return Domain(f"{below.folder}/{name}", below.resource, below.id, number)
    return Domain(name, resource, number)


def slot_at(path: str) -> Slot:
    """Return the slot of a path from `layout`."""
    folder, _, counter = path.rpartition("/")
    name, _, part = folder.partition("/")
    domain = domain_named(name) or Domain(name, name, 0)
    return Slot((domain_named(part, domain) if part else None) or domain, counter_named(counter))
