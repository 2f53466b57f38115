from pathlib import Path

import pytest
from hosts.machines import MACHINES, machine, write_sysfs

from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.core.node.host.topology import DRAM, FAST, SLOW, UNKNOWN, MemoryNode, Topology
from resctrl_hooks.core.node.host.topology_sysfs import TopologyError, read_topology


@pytest.mark.parametrize("name", MACHINES)
def test_sysfs_gives_machine(name: str, tmp_path: Path) -> None:
    expected = MACHINES[name].as_record()
    assert read_topology(write_sysfs(MACHINES[name], tmp_path)).as_record() == expected
    assert Topology.of_record(expected).as_record() == expected


def test_cores_with_offline_threads_are_read(tmp_path: Path) -> None:
    found = read_topology(write_sysfs(machine(cores=2, threads=2, offline=0b1000), tmp_path))
    assert found.cores == [0b101, 0b10]
    assert found.online == 0b111


def test_memory_kinds_follow_kernel_tiers(tmp_path: Path) -> None:
    small = machine(cores=2)
    small.nodes[0].distances |= {1: 20, 2: 15}
    small.nodes += [
        MemoryNode(1, 0, {0: 20, 1: 10, 2: 20}, 1 << 30, SLOW),
        MemoryNode(2, 0, {0: 15, 1: 20, 2: 10}, 1 << 30, FAST),
    ]
    found = read_topology(write_sysfs(small, tmp_path))
    assert [node.kind for node in found.nodes] == [DRAM, SLOW, FAST]
    assert [node.id for node in found.memory_near(1)] == [0]


def test_older_names_and_cpus_without_memory_are_read(tmp_path: Path) -> None:
    base = tmp_path / "devices/system/cpu"
    for cpu in (0, 1, 2):
        (base / f"cpu{cpu}/topology").mkdir(parents=True)
        (base / f"cpu{cpu}/topology/thread_siblings_list").write_text("2\n" if cpu == 2 else "0-1\n")
        (base / f"cpu{cpu}/topology/core_siblings_list").write_text("0-2\n")
        (base / f"cpu{cpu}/topology/die_cpus_list").write_text("0-2\n")
        (base / f"cpu{cpu}/topology/physical_package_id").write_text("-1\n")
        (base / f"cpu{cpu}/cache/index3").mkdir(parents=True)
        (base / f"cpu{cpu}/cache/index3/level").write_text("3\n")
        (base / f"cpu{cpu}/cache/index3/shared_cpu_list").write_text("0-2\n")
    (base / "online").write_text("0-2\n")
    found = read_topology(str(tmp_path))
    assert (found.cores, found.packages, found.nodes) == ([0b011, 0b100], {0: 0b111}, [])
    assert (found.dies, found.l3) == ({"0.0": 0b111}, {0: 0b111})
    assert found.root.cpus == parse_list("0-2")


def test_missing_sysfs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="lists no CPUs"):
        read_topology(str(tmp_path))


def test_this_machine_is_read() -> None:
    found = read_topology("/sys")
    assert sum(core for core in found.cores) == found.online
    for part in (found.packages, found.l3, found.dies):
        assert not part or sum(part.values()) == found.online


def test_node_with_cpus_is_ordinary_memory_and_node_without_tier_is_unknown(tmp_path: Path) -> None:
    small = machine(1, 2, 1, 1, 1)
    small.nodes[0].distances |= {2: 20, 3: 20}
    small.nodes[1].distances |= {2: 20, 3: 20}
    small.nodes += [MemoryNode(2, 0, {0: 20, 1: 20, 2: 10, 3: 20}, 1 << 30, SLOW)]
    small.nodes += [MemoryNode(3, 0, {0: 20, 1: 20, 2: 20, 3: 10}, 1 << 30, SLOW)]
    sys = write_sysfs(small, tmp_path)
    tiers = tmp_path / "devices/virtual/memory_tiering"
    for tier in tiers.iterdir():
        (tier / "nodelist").unlink()
    for name, nodes in (("memory_tier4", "0"), ("memory_tier10", "1"), ("memory_tier22", "2")):
        (tiers / name).mkdir(exist_ok=True)
        (tiers / name / "nodelist").write_text(nodes)
    assert [node.kind for node in read_topology(sys).nodes] == [DRAM, DRAM, SLOW, UNKNOWN]


def test_machine_without_a_third_cache_is_read(tmp_path: Path) -> None:
    sys = write_sysfs(machine(cores=2, threads=1), tmp_path)
    for level in tmp_path.glob("devices/system/cpu/cpu*/cache/index*/level"):
        level.write_text("2\n")
    assert read_topology(sys).l3 == {}
