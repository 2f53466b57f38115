"""Reads the node's topology from sysfs.

Source: kernel, Documentation/admin-guide/cputopology.rst, mm/numaperf.rst, ABI/testing/sysfs-devices-system-cpu and
sysfs-kernel-mm-memory-tiers.
"""

from ..errors import HookError
from .cpulist import lowest, members, parse_list
from .files import kernel_text, list_folder
from .topology import DRAM, FAST, SLOW, UNKNOWN, MemoryNode, Topology

_LAST_LEVEL_CACHE = "3"


class TopologyError(HookError):
    """sysfs does not list this machine's CPUs."""

    reason = "topology"


def read_topology(sys_path: str) -> Topology:
    """Read the machine below a sysfs mount, from one CPU of each core.

    Raises:
        TopologyError: it has no CPUs.
    """
    folder = f"{sys_path}/devices/system/cpu"
    online = read_list(f"{folder}/online")
    if not online:
        raise TopologyError(
            f"{folder}/online lists no CPUs", hint="placement needs sysfs; check sysPath in the configuration"
        )
    packages: "dict[int, int]" = {}
    dies: "dict[str, int]" = {}
    l3: "dict[int, int]" = {}
    cores: "list[int]" = []
    left = online
    while left:
        cpu = lowest(left)
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
        name: read_list(f"{sys_path}/devices/{pmu}/cpus") & online
        for name, pmu in (("performance", "cpu_core"), ("efficient", "cpu_atom"))
    }
    return Topology(
        online,
        cores,
        packages=packages,
        dies=dies,
        l3=l3,
        nodes=_memory_nodes(sys_path, online),
        isolated=read_list(f"{folder}/isolated"),
        offline=read_list(f"{folder}/offline"),
        kinds={name: cpus for name, cpus in kinds.items() if cpus} if all(kinds.values()) else {},
    )


def find_topology(sys_path: str) -> "Topology | None":
    """Read the machine as `read_topology` does; None if sysfs does not list its CPUs."""
    try:
        return read_topology(sys_path)
    except TopologyError:
        return None


def _last_cache(folder: str, fallback: int) -> "tuple[int, int]":
    """Return the L3 cache of a CPU: its id and the CPUs that share it. Usually at index3."""
    for index in ("index3", "index2", "index4", "index1", "index0"):
        if kernel_text(f"{folder}/{index}/level") == _LAST_LEVEL_CACHE:
            return _number(f"{folder}/{index}/id", fallback), read_list(f"{folder}/{index}/shared_cpu_list")
    return 0, 0


def _memory_nodes(sys_path: str, online: int) -> "list[MemoryNode]":
    folder = f"{sys_path}/devices/system/node"
    numbers = members(read_list(f"{folder}/online"))
    with_memory = read_list(f"{folder}/has_memory")
    tiers = _tiers(f"{sys_path}/devices/virtual/memory_tiering")
    cpus = {number: read_list(f"{folder}/node{number}/cpulist") & online for number in numbers}
    ranks = [rank for number, rank in tiers.items() if cpus.get(number)]
    ordinary = min(ranks) if ranks else None
    found = []
    for number in numbers:
        if not with_memory >> number & 1 and with_memory:
            continue  # no memory page can come from it
        distances = [int(text) for text in kernel_text(f"{folder}/node{number}/distance").split() if text.isdigit()]
        kind = DRAM if cpus[number] else UNKNOWN
        if not cpus[number] and ordinary is not None and number in tiers:
            kind = SLOW if tiers[number] > ordinary else FAST if tiers[number] < ordinary else DRAM
        far = dict(zip(numbers, distances))
        found.append(MemoryNode(number, cpus[number], far, _memory(f"{folder}/node{number}/meminfo"), kind))
    return found


def _tiers(folder: str) -> "dict[int, int]":
    """Return the memory tier of each node: a lower number means faster memory."""
    found = {}
    for name in list_folder(folder):
        rank = name[len("memory_tier") :]
        if name.startswith("memory_tier") and rank.isdigit():
            for number in members(read_list(f"{folder}/{name}/nodelist")):
                found[number] = int(rank)
    return found


def _memory(path: str) -> int:
    """Return bytes of memory, from the line ``Node 0 MemTotal: 16 kB``."""
    for line in kernel_text(path).splitlines():
        words = line.split()
        if "MemTotal:" in words and words[-2].isdigit():
            return int(words[-2]) << 10
    return 0


def read_list(path: str) -> int:
    """Return the CPUs or nodes in a kernel's file; none if it does not exist or has no list."""
    try:
        return parse_list(kernel_text(path))
    except ValueError:
        return 0


def _first_list(base: str, *names: str) -> int:
    """Return the first of these files with content; older kernels have other names."""
    for name in names:
        found = read_list(f"{base}/{name}")
        if found:
            return found
    return 0


def _number(path: str, fallback: int) -> int:
    text = kernel_text(path)
    return int(text) if text.isdigit() else fallback  # an id of -1 means that the firmware has none
