"""The node's CPUs, caches and memory as plain sets, the basis of placement policies. `topology_sysfs` reads them."""

from ..shapes import Annotated, Bit, Count, Text, TypedDict, fits
from .cpulist import count, format_list, lowest, parse_list

DRAM, SLOW, FAST, UNKNOWN = "dram", "slow", "fast", "unknown"
LEVELS = ("l3", "numa", "die", "package", "node")
"""The levels of domains. A domain with the CPUs of a wider one has that one's level."""
_FORMAT = 1


class MemoryNodeRecord(TypedDict):
    """A `MemoryNode`."""

    id: Bit
    cpus: Text
    distances: dict[Text, Count]
    memory: Count
    kind: Text


class TopologyRecord(TypedDict):
    """A `Topology`; sets of CPUs as the kernel writes lists."""

    format: Count
    online: Annotated[str, lambda value: fits(Text, value) and value != ""]
    offline: Text
    isolated: Text
    packages: dict[Text, Text]
    dies: dict[Text, Text]
    l3: dict[Text, Text]
    cores: list[Text]
    kinds: dict[Text, Text]
    nodes: list[MemoryNodeRecord]


class MemoryNode:
    """A NUMA node: its number, CPUs, distances to the nodes by number, memory in bytes (0: unknown), and kind.

    The kind is ``dram``, ``slow`` or ``fast`` by the kernel's memory tier for a node without CPUs, else ``unknown``.
    """

    __slots__ = ("cpus", "distances", "id", "kind", "memory")

    def __init__(self, id_: int, cpus: int, distances: "dict[int, int]", memory: int, kind: str) -> None:
        self.id = id_
        self.cpus = cpus
        self.distances = distances
        self.memory = memory
        self.kind = kind


class Domain:
    """A part of the machine whose CPUs are close to each other: its level, a name such as ``package0``, its CPUs.

    ``height`` is 0 for a part without parts, else one more than its highest part's. ``above`` are the parts that
    contain it, including itself.
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
    """A machine. All sets of CPUs contain online ones only, except ``offline``.

    ``isolated`` CPUs are those of the kernel's isolcpus= or of isolated cpuset partitions. ``kinds`` are the CPUs of a
    hybrid processor by kind, ``performance`` and ``efficient``; empty for others.
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
        self.cores = sorted(cores, key=lowest)
        self.packages = packages or {0: online}
        self.dies = dies or {}
        self.l3 = l3 or {}
        self.nodes = nodes or []
        self.kinds = kinds or {}
        self._domains: "list[Domain]" = []

    @property
    def domains(self) -> "list[Domain]":
        """Every distinct set of near CPUs, the smallest first; computed on demand."""
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
        ordered = sorted(distinct.values(), key=lambda domain: (domain.size, lowest(domain.cpus)))
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
        """Return a domain by its name."""
        return next((domain for domain in self.domains if domain.name == name), None)

    @property
    def memory_nodes(self) -> int:
        """The numbers of all NUMA nodes, as a set."""
        return sum(1 << node.id for node in self.nodes)

    def memory_near(self, cpus: int, kind: str = DRAM) -> "list[MemoryNode]":
        """Return the nodes of one kind of memory, the nearest to a set of CPUs first.

        Nodes with CPUs and those that the kernel ranks as DRAM have ordinary memory.
        """
        own = [node for node in self.nodes if node.cpus & cpus]

        def away(node: MemoryNode) -> "tuple[int, int]":
            return min((near.distances.get(node.id, 255) for near in own), default=0), node.id

        if kind != DRAM:
            return sorted((node for node in self.nodes if node.kind == kind and not node.cpus), key=away)
        ordinary = [node for node in self.nodes if node.cpus or node.kind == DRAM]
        return own + sorted((node for node in ordinary if node not in own), key=away)

    def as_record(self) -> "TopologyRecord":
        """Return plain JSON values; sets are lists in the kernel's format."""
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
    def of_record(cls, record: "TopologyRecord") -> "Topology":
        """Return the machine from the values of `as_record`.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: they are invalid.
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
