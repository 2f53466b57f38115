"""The machines of the comparison, each with devices near to its NUMA nodes, written as sysfs trees."""

from dataclasses import dataclass, field
from pathlib import Path

from hosts.devices import Devices
from hosts.machines import machine, write_sysfs

from resctrl_hooks.core.node.host.topology import DRAM, FAST, SLOW, MemoryNode, Topology

_GIB = 1 << 30
_FAR = 21  # the distance of another package


@dataclass
class Device:
    """A device file, and the NUMA node of its hardware."""

    path: str
    minor: int
    node: int


@dataclass
class Node:
    """A node: its machine, and the folder with its sysfs tree. The first core is reserved."""

    name: str
    topology: Topology
    devices: list[Device] = field(default_factory=list)

    @property
    def reserved(self) -> int:
        return self.topology.cores[0]

    def memory(self, kind: str) -> int:
        """Return the bytes of one kind of memory."""
        return sum(node.memory for node in self.topology.nodes if node.kind == kind)

    def write(self, root: Path) -> None:
        """Write the sysfs tree below a folder."""
        write_sysfs(self.topology, root / "sys")
        tree = Devices(root)
        for device in self.devices:
            near = next(node.cpus for node in self.topology.nodes if node.id == device.node)
            folder = tree.add_pci(f"0000:{device.minor:02x}:00.0", device.node, near)
            tree.add_file(folder / f"accel/accel{device.minor}", "char", f"{MAJOR}:{device.minor}")


MAJOR = 261
"""The major number of the devices' files (accel)."""


def _with_devices(name: str, topology: Topology) -> Node:
    near = [node.id for node in topology.nodes if node.cpus]
    return Node(name, topology, [Device(f"/dev/accel/accel{place}", place, id_) for place, id_ in enumerate(near)])


def _sub_numa() -> Topology:
    """Two packages of two NUMA nodes; the L3 cache is the package's, as on Intel's processors with SNC."""
    found = machine(2, 2, 1, 12, 2, memory=64 * _GIB)
    found.l3 = dict(found.packages)
    return found


def _tiers() -> Topology:
    """Two packages, each with HBM, and CXL memory at the first one."""
    found = machine(2, 1, 1, 16, 2, memory=128 * _GIB)
    extra = [
        (2, FAST, 32 * _GIB, {0: 13, 1: 23}),
        (3, FAST, 32 * _GIB, {0: 23, 1: 13}),
        (4, SLOW, 256 * _GIB, {0: 24, 1: 34}),
    ]
    for id_, kind, size, near in extra:
        for node in found.nodes:
            node.distances[id_] = near.get(node.id, _FAR + _FAR)
        others = {node.id: node.distances[id_] for node in found.nodes}
        found.nodes.append(MemoryNode(id_, 0, {**others, id_: 10}, size, kind))
    return found


def nodes() -> list[Node]:
    """Return the machines of the table."""
    return [
        _with_devices("16 CPUs", machine(1, 1, 1, 8, 2, memory=64 * _GIB)),
        _with_devices("64 CPUs", machine(2, 1, 1, 16, 2, memory=128 * _GIB)),
        _with_devices("32 CPUs, 1 thread", machine(2, 1, 1, 16, 1, memory=64 * _GIB)),
        _with_devices("96 CPUs, SNC", _sub_numa()),
        _with_devices("128 CPUs, 8 L3", machine(1, 1, 8, 8, 2, memory=256 * _GIB)),
        _with_devices("64 CPUs, HBM, CXL", _tiers()),
        _with_devices("256 CPUs, 32 L3", machine(2, 4, 4, 4, 2, memory=64 * _GIB)),
    ]


__all__ = ["DRAM", "MAJOR", "Device", "Node", "nodes"]
