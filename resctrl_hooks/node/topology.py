"""The node's CPUs, caches and memory, from sysfs, as plain sets: what placement policies decide on.

Source: kernel, Documentation/admin-guide/cputopology.rst, mm/numaperf.rst, ABI/testing/sysfs-devices-system-cpu and
sysfs-kernel-mm-memory-tiers.
"""

from .cpusets import count, format_list, members, parse_list
from .errors import HookError
from .files import list_folder, read_kernel_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DRAM, SLOW, FAST, UNKNOWN = "dram", "slow", "fast", "unknown"
_FORMAT = 1
_LAST_LEVEL_CACHE = "3"


class TopologyError(HookError):
    """sysfs doesn't say what CPUs this machine has."""

    reason = "topology"


class MemoryNode:
    """A NUMA node: its number, CPUs, distances to the nodes by number, memory in bytes (0: unknown), and its kind.

    The kind is ``dram``, ``slow`` or ``fast`` as the kernel's memory tiers rank a node without CPUs, else ``unknown``.
    """

    __slots__ = ("cpus", "distances", "id", "kind", "memory")

    def __init__(self, id_: int, cpus: int, distances: "dict[int, int]", memory: int, kind: str) -> None:
        self.id = id_
        self.cpus = cpus
        self.distances = distances
        self.memory = memory
        self.kind = kind


class Domain:
    """A part of the machine whose CPUs are near to each other: its level, a name such as ``package0``, its CPUs.

    ``height`` is 0 for a part without parts, else one more than its highest part's. ``above`` are the parts that
    this one lies in, itself among them.
    """

    __slots__ = ("above", "cpus", "height", "level", "name", "size")

    def __init__(self, level: str, name: str, cpus: int) -> None:
        self.level = level
        self.name = name
        self.cpus = cpus
        self.size = count(cpus)
        self.height = 0
        self.above: "list[Domain]" = []

    def __repr__(self) -> str:
        return f"{self.name}({format_list(self.cpus)})"


class Topology:
    """A machine. All sets of CPUs hold online ones only, but for ``offline``.

    ``isolated`` CPUs are those of the kernel's isolcpus= or of isolated cpuset partitions. ``kinds`` are the CPUs of a
    hybrid processor by kind, ``performance`` and ``efficient``; empty on others.
    """

    __slots__ = ("_domains", "cores", "dies", "isolated", "kinds", "l3", "nodes", "offline", "online", "packages")

    def __init__(
        self,
        online: int,
        cores: "list[int]",
        *,
        packages: "dict[int, int] | None" = None,
        dies: "dict[str, int] | None" = None,
        l3: "dict[int, int] | None" = None,
        nodes: "list[MemoryNode] | None" = None,
        isolated: int = 0,
        offline: int = 0,
        kinds: "dict[str, int] | None" = None,
    ) -> None:
        self.online = online
        self.offline = offline
        self.isolated = isolated & online
        self.cores = sorted(cores, key=_lowest)
        self.packages = packages or {0: online}
        self.dies = dies or {}
        self.l3 = l3 or {}
        self.nodes = nodes or []
        self.kinds = kinds or {}
        self._domains: "list[Domain]" = []

    @property
    def domains(self) -> "list[Domain]":
        """Every distinct set of near CPUs, the smallest first. Not every hook asks."""
        self._domains = self._domains or self._find_domains()
        return self._domains

    def _find_domains(self) -> "list[Domain]":
        found = [Domain("node", "node", self.online)]
        found += [Domain("package", f"package{number}", cpus) for number, cpus in self.packages.items()]
        found += [Domain("die", f"die{name}", cpus) for name, cpus in self.dies.items()]
        found += [Domain("numa", f"numa{node.id}", node.cpus) for node in self.nodes]
        found += [Domain("l3", f"l3-{number}", cpus) for number, cpus in self.l3.items()]
        distinct: "dict[int, Domain]" = {}
        for domain in found:
            if domain.cpus:
                distinct.setdefault(domain.cpus, domain)
        ordered = sorted(distinct.values(), key=lambda domain: (domain.size, _lowest(domain.cpus)))
        for place, domain in enumerate(ordered):
            cpus, higher = domain.cpus, domain.height + 1
            domain.above = [wider for wider in ordered[place:] if cpus & wider.cpus == cpus]
            for wider in domain.above[1:]:
                wider.height = max(wider.height, higher)
        return ordered

    @property
    def root(self) -> Domain:
        """The whole node."""
        return self.domains[-1]

    def domain(self, name: str) -> "Domain | None":
        """The domain of a name."""
        return next((domain for domain in self.domains if domain.name == name), None)

    @property
    def memory_nodes(self) -> int:
        """The numbers of all NUMA nodes, as a set."""
        return sum(1 << node.id for node in self.nodes)

    def memory_near(self, cpus: int) -> "list[MemoryNode]":
        """The nodes of ordinary memory (with CPUs, or ranked as DRAM), the nearest to a set of CPUs first."""
        own = [node for node in self.nodes if node.cpus & cpus]

        def away(node: MemoryNode) -> "tuple[int, int]":
            return min((near.distances.get(node.id, 255) for near in own), default=0), node.id

        ordinary = [node for node in self.nodes if node.cpus or node.kind == DRAM]
        return own + sorted((node for node in ordinary if node not in own), key=away)

    def as_record(self) -> "dict[str, Any]":
        """As plain JSON values; sets are lists as the kernel writes them."""
        return {
            "format": _FORMAT,
            "online": format_list(self.online),
            "offline": format_list(self.offline),
            "isolated": format_list(self.isolated),
            "packages": {str(number): format_list(cpus) for number, cpus in self.packages.items()},
            "dies": {name: format_list(cpus) for name, cpus in self.dies.items()},
            "l3": {str(number): format_list(cpus) for number, cpus in self.l3.items()},
            "cores": [format_list(cpus) for cpus in self.cores],
            "kinds": {name: format_list(cpus) for name, cpus in self.kinds.items()},
            "nodes": [
                {
                    "id": node.id,
                    "cpus": format_list(node.cpus),
                    "distances": {str(other): far for other, far in node.distances.items()},
                    "memory": node.memory,
                    "kind": node.kind,
                }
                for node in self.nodes
            ],
        }

    @classmethod
    def of_record(cls, record: "dict[str, Any]") -> "Topology":
        """The machine that `as_record` wrote down.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it did not.
        """
        if record["format"] != _FORMAT:
            raise ValueError("another format")
        nodes = [
            MemoryNode(
                node["id"],
                parse_list(node["cpus"]),
                {int(other): far for other, far in node["distances"].items()},
                node["memory"],
                node["kind"],
            )
            for node in record["nodes"]
        ]
        return cls(
            parse_list(record["online"]),
            [parse_list(text) for text in record["cores"]],
            packages={int(number): parse_list(text) for number, text in record["packages"].items()},
            dies={name: parse_list(text) for name, text in record["dies"].items()},
            l3={int(number): parse_list(text) for number, text in record["l3"].items()},
            nodes=nodes,
            isolated=parse_list(record["isolated"]),
            offline=parse_list(record["offline"]),
            kinds={name: parse_list(text) for name, text in record["kinds"].items()},
        )


def read_topology(sys_path: str) -> Topology:
    """Reads the machine below a sysfs mount. One CPU of each core is asked, not all of them.

    Raises:
        TopologyError: there are no CPUs there.
    """
    folder = f"{sys_path}/devices/system/cpu"
    online = _list(f"{folder}/online")
    if not online:
        raise TopologyError(
            f"{folder}/online names no CPUs", hint="placement needs sysfs; sysPath in the configuration says where"
        )
    packages: "dict[int, int]" = {}
    dies: "dict[str, int]" = {}
    l3: "dict[int, int]" = {}
    cores: "list[int]" = []
    left = online
    while left:
        cpu = _lowest(left)
        base = f"{folder}/cpu{cpu}/topology"
        core = (_first_list(base, "core_cpus_list", "thread_siblings_list") | 1 << cpu) & online
        cores.append(core)
        left &= ~core
        if not any(cpus >> cpu & 1 for cpus in packages.values()):
            cpus = _first_list(base, "package_cpus_list", "core_siblings_list") & online
            packages[_number(f"{base}/physical_package_id", len(packages))] = cpus or core
        if not any(cpus >> cpu & 1 for cpus in dies.values()):
            cpus = _first_list(base, "die_cpus_list") & online
            if cpus:
                package = next(number for number, cpus_of in packages.items() if cpus_of >> cpu & 1)
                dies[f"{package}.{_number(f'{base}/die_id', len(dies))}"] = cpus
        if not any(cpus >> cpu & 1 for cpus in l3.values()):
            number, cpus = _last_cache(f"{folder}/cpu{cpu}/cache", len(l3))
            if cpus & online:
                l3[number] = cpus & online
    kinds = {
        name: _list(f"{sys_path}/devices/{pmu}/cpus") & online
        for name, pmu in (("performance", "cpu_core"), ("efficient", "cpu_atom"))
    }
    return Topology(
        online,
        cores,
        packages=packages,
        dies=dies,
        l3=l3,
        nodes=_memory_nodes(sys_path, online),
        isolated=_list(f"{folder}/isolated"),
        offline=_list(f"{folder}/offline"),
        kinds={name: cpus for name, cpus in kinds.items() if cpus} if all(kinds.values()) else {},
    )


def _last_cache(folder: str, fallback: int) -> "tuple[int, int]":
    """The L3 cache of a CPU: its id and the CPUs that share it. Usually at index3."""
    for index in ("index3", "index2", "index4", "index1", "index0"):
        if _read(f"{folder}/{index}/level") == _LAST_LEVEL_CACHE:
            return _number(f"{folder}/{index}/id", fallback), _list(f"{folder}/{index}/shared_cpu_list")
    return 0, 0


def _memory_nodes(sys_path: str, online: int) -> "list[MemoryNode]":
    folder = f"{sys_path}/devices/system/node"
    numbers = members(_list(f"{folder}/online"))
    with_memory = _list(f"{folder}/has_memory")
    tiers = _tiers(f"{sys_path}/devices/virtual/memory_tiering")
    cpus = {number: _list(f"{folder}/node{number}/cpulist") & online for number in numbers}
    ranks = [rank for number, rank in tiers.items() if cpus.get(number)]
    ordinary = min(ranks) if ranks else None
    found = []
    for number in numbers:
        if not with_memory >> number & 1 and with_memory:
            continue  # no page of memory can come from it
        distances = [int(text) for text in _read(f"{folder}/node{number}/distance").split() if text.isdigit()]
        kind = DRAM if cpus[number] else UNKNOWN
        if not cpus[number] and ordinary is not None and number in tiers:
            kind = SLOW if tiers[number] > ordinary else FAST if tiers[number] < ordinary else DRAM
        far = dict(zip(numbers, distances))
        found.append(MemoryNode(number, cpus[number], far, _memory(f"{folder}/node{number}/meminfo"), kind))
    return found


def _tiers(folder: str) -> "dict[int, int]":
    """The memory tier of each node: a lower number means faster memory."""
    found = {}
    for name in list_folder(folder):
        rank = name[len("memory_tier") :]
        if name.startswith("memory_tier") and rank.isdigit():
            for number in members(_list(f"{folder}/{name}/nodelist")):
                found[number] = int(rank)
    return found


def _memory(path: str) -> int:
    """Bytes of memory, from the line ``Node 0 MemTotal: 16 kB``."""
    for line in _read(path).splitlines():
        words = line.split()
        if "MemTotal:" in words and words[-2].isdigit():
            return int(words[-2]) << 10
    return 0


def _first_list(base: str, *names: str) -> int:
    """The first of these files that says anything; older kernels have other names."""
    for name in names:
        found = _list(f"{base}/{name}")
        if found:
            return found
    return 0


def _list(path: str) -> int:
    try:
        return parse_list(_read(path))
    except ValueError:
        return 0


def _number(path: str, fallback: int) -> int:
    text = _read(path)
    return int(text) if text.isdigit() else fallback  # an id of -1 means that the firmware has none


def _read(path: str) -> str:
    try:
        return read_kernel_file(path).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
