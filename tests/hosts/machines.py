"""Simulated machines: as topologies, and as sysfs trees."""

from pathlib import Path

from resctrl_hooks.core.node.host.cpulist import format_list, members
from resctrl_hooks.core.node.host.topology import DRAM, FAST, SLOW, MemoryNode, Topology


def machine(
    packages: int = 1, nodes: int = 1, caches: int = 1, cores: int = 4, threads: int = 2, *,
    isolated: int = 0, offline: int = 0, efficient: int = 0, memory: int = 8 << 30,
) -> Topology:  # fmt: skip
    """Return a machine with so many packages, NUMA nodes in each, L3 caches in each node, cores in each cache.

    Threads are numbered as Linux does on most machines: first one thread of each core, then the second threads.
    ``efficient`` is the number of the last cores, which have one thread and are of the efficient kind.
    """
    total = packages * nodes * caches * cores
    every = [sum(1 << core + total * thread for thread in range(threads)) for core in range(total)]
    kinds = {}
    if efficient:
        every[-efficient:] = [1 << core for core in range(total - efficient, total)]
        kinds = {"performance": sum(every[:-efficient]), "efficient": sum(every[-efficient:])}
    online = sum(every) & ~offline
    every = [core & online for core in every if core & online]

    def part(number: int, size: int) -> int:
        return sum(core for core in every if ((core & -core).bit_length() - 1) % total // size == number)

    def distance(one: int, other: int) -> int:
        return 10 if one == other else 12 if one // nodes == other // nodes else 21

    per_node, numbers = caches * cores, range(packages * nodes)
    return Topology(
        online,
        every,
        packages={number: part(number, nodes * per_node) for number in range(packages)},
        l3={number: part(number, cores) for number in range(packages * nodes * caches)},
        nodes=[
            MemoryNode(one, part(one, per_node), {other: distance(one, other) for other in numbers}, memory, DRAM)
            for one in numbers
        ],
        isolated=isolated,
        offline=offline,
        kinds={name: cpus & online for name, cpus in kinds.items()},
    )


MACHINES = {
    "one package": machine(),
    "two CPUs": machine(cores=2, threads=1),
    "two packages of two nodes": machine(2, 2, 2, 4, 2),
    "sub-NUMA": machine(1, 4, 1, 3, 2),
    "one thread a core": machine(2, 1, 1, 8, 1),
    "hybrid": machine(1, 1, 1, 12, 2, efficient=8),
    "offline and isolated": machine(2, 1, 2, 4, 2, offline=0b110, isolated=0b1111 << 8 | 0b1111 << 24),
}


def write_sysfs(topology: Topology, root: Path) -> str:
    """Write a machine as a sysfs tree, with the files that other programs need too; return its path."""
    cpu, nodes = root / "devices/system/cpu", root / "devices/system/node"
    online, offline = topology.online, topology.offline
    lists = {"possible": online | offline, "present": online | offline, "online": online, "offline": offline}
    for name, cpus in {**lists, "isolated": topology.isolated}.items():
        _write(cpu / name, format_list(cpus))
    for place, core in enumerate(topology.cores):
        for number in members(core):
            _write_cpu(topology, cpu / f"cpu{number}", number, place, core)
    numbers = sum(1 << node.id for node in topology.nodes)
    for name in ("online", "has_memory", "has_normal_memory"):
        _write(nodes / name, format_list(numbers))
    ranks = {DRAM: 4, SLOW: 22, FAST: 2}
    for node in topology.nodes:
        base = nodes / f"node{node.id}"
        _write(base / "cpulist", format_list(node.cpus))
        for number in members(node.cpus):
            link = cpu / f"cpu{number}/node{node.id}"
            link.unlink(missing_ok=True)
            link.symlink_to(f"../../node/node{node.id}")
        _write(base / "distance", " ".join(str(node.distances[other.id]) for other in topology.nodes))
        _write(base / "meminfo", f"Node {node.id} MemTotal:       {node.memory >> 10} kB\nNode {node.id} MemFree: 1 kB")
        tier = root / f"devices/virtual/memory_tiering/memory_tier{ranks[node.kind]}/nodelist"
        _write(tier, f"{tier.read_text().strip()},{node.id}" if tier.exists() else str(node.id))
    for pmu, kind in (("cpu_core", "performance"), ("cpu_atom", "efficient")):
        if kind in topology.kinds:
            _write(root / f"devices/{pmu}/cpus", format_list(topology.kinds[kind]))
    return str(root)


def _write_cpu(topology: Topology, base: Path, number: int, core_id: int, core: int) -> None:
    _write(base / "topology/core_cpus_list", format_list(core))
    for name, value in {"core_id": core_id, "die_id": 0, "cluster_id": core_id}.items():
        _write(base / "topology" / name, str(value))
    for package, cpus in topology.packages.items():
        if cpus >> number & 1:
            _write(base / "topology/package_cpus_list", format_list(cpus))
            _write(base / "topology/physical_package_id", str(package))
    shared = [(3, cache, cpus, "32768K") for cache, cpus in topology.l3.items() if cpus >> number & 1]
    for level, cache, cpus, size in [(2, core_id, core, "2048K"), *shared]:
        values = {"level": level, "id": cache, "type": "Unified", "size": size, "shared_cpu_list": format_list(cpus)}
        for name, text in values.items():
            _write(base / f"cache/index{level}" / name, str(text))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
