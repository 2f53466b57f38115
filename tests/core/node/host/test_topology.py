"""The machine by sysfs: sets of CPUs, its parts, its memory, and the CPUs near to devices."""

from pathlib import Path

import pytest
from hosts.devices import Devices
from hosts.machines import MACHINES, machine, write_sysfs
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.host import cpulist, locality, topology, topology_sysfs


def test_list_has_kernel_format() -> None:
    shown = {"": "", "0-3,8\n": "0-3,8", "0,2-2": "0,2", "0,,2": "0,2", "0,1": "0-1", "16383": "16383"}
    assert {text: cpulist.format_list(cpulist.parse_list(text)) for text in shown} == shown
    for text in ("a", "3-1", "-1", "16384", "0-99999999", "1-2-3", "0x1", "1;2"):
        with pytest.raises(ValueError, match=r"."):
            cpulist.parse_list(text)


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 5)), max_size=8))
def test_list_and_mask_convert_both_ways(ranges: list[tuple[int, int]]) -> None:
    numbers = {number for start, more in ranges for number in range(start, start + more + 1)}
    mask = sum(1 << number for number in numbers)
    assert cpulist.members(mask) == sorted(numbers)
    assert (cpulist.count(mask), cpulist.lowest(mask)) == (len(numbers), min(numbers, default=-1))
    shown = cpulist.format_list(mask)
    assert cpulist.parse_list(shown) == mask
    assert shown.count(",") == max(sum(number + 1 not in numbers for number in numbers) - 1, 0), "no two ranges touch"
    assert (
        cpulist.parse_list(",".join(f"{start}-{start + more}" if more else str(start) for start, more in ranges))
        == mask
    )


def test_parts_are_ordered_from_tightest_to_whole() -> None:
    found = machine(2, 2, 2, 4, 2)
    assert [(domain.name, domain.height) for domain in found.domains] == [
        *((f"l3-{number}", 0) for number in range(8)),
        *((f"numa{number}", 1) for number in range(4)),
        *((f"package{number}", 2) for number in range(2)),
        ("node", 3),
    ]
    assert [wider.name for wider in found.domains[5].above] == ["l3-5", "numa2", "package1", "node"]
    assert [domain.name for domain in machine(1, 1, 1, 4).domains] == ["node"], "equal parts are listed once"
    assert [domain.name for domain in machine(2, 1, 1, 4).domains] == ["package0", "package1", "node"]
    found = machine(2, 2, 1, 2)
    assert [node.id for node in found.memory_near(found.nodes[1].cpus)] == [1, 0, 2, 3]


@pytest.mark.parametrize("name", MACHINES)
def test_sysfs_gives_machine(name: str, tmp_path: Path) -> None:
    expected = MACHINES[name].as_record()
    assert topology_sysfs.read_topology(write_sysfs(MACHINES[name], tmp_path)).as_record() == expected
    assert topology.Topology.of_record(expected).as_record() == expected
    found = topology_sysfs.read_topology("/sys")  # this machine's
    assert sum(found.cores) == found.online
    for part in (found.packages, found.l3, found.dies):
        assert not part or sum(part.values()) == found.online


def test_offline_threads_missing_caches_older_names_and_cpus_without_memory_are_read(tmp_path: Path) -> None:
    new = tmp_path / "new"
    sys = write_sysfs(machine(cores=2, threads=2, offline=0b1000), new)
    for level in new.glob("devices/system/cpu/cpu*/cache/index*/level"):
        level.write_text("2\n")
    found = topology_sysfs.read_topology(sys)
    assert (found.cores, found.online, found.l3) == ([0b101, 0b10], 0b111, {})
    with pytest.raises(topology_sysfs.TopologyError, match="lists no CPUs"):
        topology_sysfs.read_topology(str(tmp_path / "nowhere"))
    base = tmp_path / "devices/system/cpu"
    for cpu in (0, 1, 2):
        files = {
            "topology/thread_siblings_list": "2" if cpu == 2 else "0-1", "topology/core_siblings_list": "0-2",
            "topology/die_cpus_list": "0-2", "topology/physical_package_id": "-1", "cache/index3/level": "3",
            "cache/index3/shared_cpu_list": "0-2",
        }  # fmt: skip
        for name, text in files.items():
            (base / f"cpu{cpu}/{name}").parent.mkdir(parents=True, exist_ok=True)
            (base / f"cpu{cpu}/{name}").write_text(f"{text}\n")
    (base / "online").write_text("0-2\n")
    found = topology_sysfs.read_topology(str(tmp_path))
    assert (found.cores, found.packages, found.nodes) == ([0b011, 0b100], {0: 0b111}, [])
    assert (found.dies, found.l3) == ({"0.0": 0b111}, {0: 0b111})
    assert found.root.cpus == 0b111


def test_memory_kinds_follow_kernel_tiers(tmp_path: Path) -> None:
    """A node with CPUs is ordinary memory, and one without a tier is unknown."""
    small = machine(cores=2)
    small.nodes[0].distances |= {1: 20, 2: 15}
    small.nodes.append(topology.MemoryNode(1, 0, {0: 20, 1: 10, 2: 20}, 1 << 30, topology.SLOW))
    small.nodes.append(topology.MemoryNode(2, 0, {0: 15, 1: 20, 2: 10}, 1 << 30, topology.FAST))
    sys = write_sysfs(small, tmp_path)
    found = topology_sysfs.read_topology(sys)
    assert [node.kind for node in found.nodes] == [topology.DRAM, topology.SLOW, topology.FAST]
    assert [node.id for node in found.memory_near(1)] == [0]
    tiers = tmp_path / "devices/virtual/memory_tiering"
    for tier in tiers.iterdir():
        (tier / "nodelist").unlink()
    for name, nodes in (("memory_tier10", "0"), ("memory_tier22", "1")):
        (tiers / name).mkdir(exist_ok=True)
        (tiers / name / "nodelist").write_text(nodes)
    assert [node.kind for node in topology_sysfs.read_topology(sys).nodes] == [
        topology.DRAM,
        topology.SLOW,
        topology.UNKNOWN,
    ]


NEAR, OTHER = 0b0011, 0b1100
GPU, NIC = "0000:17:00.0", "0000:ca:02.1"


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    made = Devices(tmp_path)
    gpu = made.add_pci(GPU, 0, NEAR)
    made.add_pci(NIC, 1, OTHER)
    made.add_file(gpu / "drm/card0", "char", "226:0")
    made.add_file(gpu / "nvme/nvme0/nvme0n1", "block", "259:0")
    made.add_file(made.sys / "devices/virtual/mem/null", "char", "1:3")
    made.add_to_iommu_group(12, NIC)
    made.add_nvidia(GPU, 3)
    return made


def test_device_is_near_to_cpus_of_its_hardware(devices: Devices) -> None:
    for path, kind, number, cpus in (
        ("dri/card0", "c", (226, 0), NEAR), ("nvme0n1", "b", (259, 0), NEAR), ("null", "c", (1, 3), 0),
        ("gone", "c", (1, 99), 0), ("fifo", "p", (0, 0), 0), ("vfio/12", "c", (510, 0), OTHER),
        ("vfio/99", "c", (510, 1), 0), ("vfio/vfio", "c", (10, 196), 0), ("nvidia3", "c", (195, 3), NEAR),
        ("nvidia4", "c", (195, 4), 0), ("nvidiactl", "c", (195, 255), 0),
    ):  # fmt: skip
        assert locality.near_device(str(devices.sys), str(devices.proc), f"/dev/{path}", kind, *number) == cpus, path


def test_pci_function_is_near_to_its_cpus_or_to_those_of_its_node(devices: Devices) -> None:
    devices.add_pci("0000:00:1f.0", -1, NEAR | OTHER)
    addresses = ("0000:00:1f.0", "0000:ff:00.0", f"../devices/{GPU}", NIC)
    assert [locality.near_pci(str(devices.sys), address) for address in addresses] == [0, 0, 0, OTHER]
    folder = devices.add_pci("0000:02:00.0", 1, 0)
    node = devices.sys / "devices/system/node/node1"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("2-3\n")
    assert locality.near_pci(str(devices.sys), "0000:02:00.0") == OTHER
    (folder / "numa_node").write_text("7\n")
    assert locality.near_pci(str(devices.sys), "0000:02:00.0") == 0
