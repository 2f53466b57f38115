"""How a limit of a memory domain becomes ``schemata`` values, and where the guard must not write.

The domains of ``MB`` must be those that count bandwidth. Other resources, such as ``MB_MIN``, are never written.

Several L3 domains can share a memory: on AMD, and where NUMA is off. Intel's per cent are of each CPU, so all of
them get the same value; AMD's numbers are bandwidth, so the limit is their sum, spread over them by use.
"""

import posix

from ....core.node.host.files import kernel_text
from ....core.node.resctrl.bandwidth import Bandwidth, bandwidth_of
from ....core.node.resctrl.bandwidth_unit import AMD, PER_CENT, convert, is_mbps, rounded, unit_of
from ....core.node.resctrl.counter_files import layout
from ....core.node.resctrl.counters import MON_DATA
from ....core.node.resctrl.layouts import L3
from ....core.node.resctrl.schemata import limited_in
from .limit import Limit, OfRate, PerCent
from .limits import RESOURCE, read_limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ....core.node.host.topology import Topology
    from ....core.node.resctrl.filesystem import Resctrl

_ARM = ("aarch64", "arm64")
_MOST_TASKS = 256  # tasks of a class whose CPUs are read


class Mount:
    """What this mount's MB values mean: unit, scale, and the reason why the guard may only observe here, if any.

    ``bandwidth`` are the domains that count, ``limited`` those that MB limits, ``maps`` whether they are the same.
    """

    def __init__(self, resctrl: "Resctrl", machine: str = "") -> None:
        info = f"{resctrl.root}/info/{RESOURCE}"
        least, step = kernel_text(f"{info}/min_bandwidth"), kernel_text(f"{info}/bandwidth_gran")
        self.least = int(least) if least.isdigit() else -1
        values = read_limits(resctrl, "")
        self.limited = sorted(values)
        found = bandwidth_of(layout(f"{resctrl.root}/{MON_DATA}"))
        self.bandwidth = found if found.numbers else Bandwidth(L3, self.limited)
        scope = limited_in(resctrl.root, self.bandwidth)
        self.maps = scope == self.bandwidth.resource and self.limited == self.bandwidth.numbers
        self.unit = unit_of(self.least, list(values.values()), mbps=is_mbps(resctrl.root))
        self.step = max(1, int(step)) if step.isdigit() else 1
        self.scale: "PerCent | OfRate" = OfRate() if self.unit == AMD else PerCent(self.step)
        self.throttle_mode = kernel_text(f"{info}/thread_throttle_mode")
        self.observe_only = ""
        if not values or self.least < 0:
            self.observe_only = "resctrl limits no memory bandwidth here (no MB in schemata)"
        elif self.unit not in (AMD, PER_CENT):
            self.observe_only = "resctrl is mounted with mba_MBps: the kernel controls the values itself"
        elif not self.maps:
            counted, limited = (", ".join(map(str, of)) for of in (self.bandwidth.numbers, self.limited))
            self.observe_only = (
                f"memory bandwidth is counted in {self.bandwidth.resource} domains {counted}, and {RESOURCE} limits "
                f"{scope} domains {limited}: which of them belong together is unknown"
            )
        elif (machine or posix.uname().machine) in _ARM:
            self.observe_only = "the effect of MB values is unknown on Arm (MPAM)"

    def floor_of(self, value: "int | str", capacity: float) -> int:
        """Return a configured floor as a number of this mount; one that it cannot express is its least."""
        number, problem = convert(f"{value}%" if isinstance(value, int) else value, self.unit, capacity)
        return rounded(max(self.least, 1, 0 if problem else number), self.step)

    def limit(self, name: str, domain: "tuple[int, ...]", found: "dict[int, int]", floor: int) -> "Limit | None":
        """Return the limit of a class in a memory domain as it is found, None where the class has no value."""
        values = [found[number] for number in domain if number in found and self.maps]
        return Limit(self.sum(values), floor) if len(values) == len(domain) else None

    def sum(self, values: "Iterable[int]") -> int:
        """Return the limit in a memory domain that values of its L3 domains make together."""
        return sum(values) if self.unit == AMD else max(values)

    def values(
        self,
        limit: int,
        domain: "Sequence[int]",
        use: "dict[int, float]",
        declared: "dict[int, int]",
        floor: int = 0,
    ) -> "dict[int, int]":
        """Return a limit's value for each L3 domain of a memory domain, at most what is declared.

        ``use`` is the class's mean bytes per second by L3 domain, ``floor`` its least limit in the memory domain.
        """
        if self.unit == AMD:
            return spread(limit, domain, use, declared, floor)
        return {number: min(declared[number], limit) for number in domain}


def spread(
    value: int, domain: "Sequence[int]", use: "dict[int, float]", declared: "dict[int, int]", floor: int = 0
) -> "dict[int, int]":
    """Return the parts of a sum for each L3 domain: by use, at least its part of the floor, at most what is declared.

    An L3 without traffic now may have some in the next second; a limit of one unit would stop it.
    """
    if value >= sum(declared.values()):
        return dict(declared)
    total = sum(use.get(number, 0.0) for number in domain)
    shares = {number: (use.get(number, 0.0) / total if total else 1 / len(domain)) for number in domain}
    least = max(1, floor // len(domain))
    return {number: min(declared[number], max(least, int(value * shares[number]))) for number in domain}


def classes_beside(
    resctrl: "Resctrl", name: str, protected: "Iterable[str]", topology: "Topology | None"
) -> "list[str]":
    """Return the protected classes whose tasks may run on a hyperthread of a core beside a task of a class.

    With ``thread_throttle_mode`` ``max`` the lower value of the two acts on both (resctrl.rst). Without hyperthreads
    there is no such class; with an unknown topology each one may be.
    """
    if topology is None:
        return list(protected)
    threaded = [core for core in topology.cores if core & (core - 1)]
    if not threaded:
        return []
    cpus = _cpus(resctrl, name)
    own = sum(core for core in threaded if core & cpus)
    return [other for other in protected if own & _cpus(resctrl, other)]


def _cpus(resctrl: "Resctrl", name: str) -> int:
    """Return the CPUs on which a class's tasks may run, as a set of bits."""
    found = 0
    for task in sorted(resctrl.tasks(name, ""))[:_MOST_TASKS]:
        try:
            for cpu in posix.sched_getaffinity(task):
                found |= 1 << cpu
        except OSError:
            continue  # it has ended
    return found
