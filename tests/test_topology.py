from pathlib import Path

import pytest
from machines import MACHINES, machine, write_sysfs

from resctrl_hooks.node.cpusets import parse_list
from resctrl_hooks.node.topology import DRAM, FAST, SLOW, MemoryNode, Topology, TopologyError, read_topology


@pytest.mark.parametrize("name", MACHINES)
def test_what_sysfs_says_is_the_machine(name: str, tmp_path: Path) -> None:
    expected = MACHINES[name].as_record()
    assert read_topology(write_sysfs(MACHINES[name], tmp_path)).as_record() == expected
    assert Topology.of_record(expected).as_record() == expected


def test_parts_from_the_tightest_to_the_whole() -> None:
    found = machine(2, 2, 2, 4, 2)
    assert [(domain.name, domain.height) for domain in found.domains] == [
        *((f"l3-{number}", 0) for number in range(8)),
        *((f"numa{number}", 1) for number in range(4)),
        *((f"package{number}", 2) for number in range(2)),
        ("node", 3),
    ]
    assert [wider.name for wider in found.domains[5].above] == ["l3-5", "numa2", "package1", "node"]


def test_what_is_the_same_as_a_wider_part_is_not_named_twice() -> None:
    assert [domain.name for domain in machine(1, 1, 1, 4).domains] == ["node"]
    assert [domain.name for domain in machine(2, 1, 1, 4).domains] == ["package0", "package1", "node"]


def test_cores_of_which_a_thread_is_offline(tmp_path: Path) -> None:
    found = read_topology(write_sysfs(machine(cores=2, threads=2, offline=0b1000), tmp_path))
    assert found.cores == [0b101, 0b10]
    assert found.online == 0b111


def test_memory_kinds_by_the_kernels_tiers(tmp_path: Path) -> None:
    small = machine(cores=2)
    small.nodes[0].distances |= {1: 20, 2: 15}
    small.nodes += [
        MemoryNode(1, 0, {0: 20, 1: 10, 2: 20}, 1 << 30, SLOW),
        MemoryNode(2, 0, {0: 15, 1: 20, 2: 10}, 1 << 30, FAST),
    ]
    found = read_topology(write_sysfs(small, tmp_path))
    assert [node.kind for node in found.nodes] == [DRAM, SLOW, FAST]
    assert [node.id for node in found.memory_near(1)] == [0]


def test_the_nearest_memory_first() -> None:
    found = machine(2, 2, 1, 2)
    assert [node.id for node in found.memory_near(found.nodes[1].cpus)] == [1, 0, 2, 3]


def test_older_names_and_nothing_but_cpus(tmp_path: Path) -> None:
    base = tmp_path / "devices/system/cpu"
    for cpu in (0, 1):
        (base / f"cpu{cpu}/topology").mkdir(parents=True)
        (base / f"cpu{cpu}/topology/thread_siblings_list").write_text("0-1\n")
        (base / f"cpu{cpu}/topology/core_siblings_list").write_text("0-1\n")
        (base / f"cpu{cpu}/topology/physical_package_id").write_text("-1\n")
    (base / "online").write_text("0-1\n")
    found = read_topology(str(tmp_path))
    assert (found.cores, found.packages, found.nodes) == ([3], {0: 3}, [])
    assert found.root.cpus == parse_list("0-1")


def test_no_sysfs(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="names no CPUs"):
        read_topology(str(tmp_path))


def test_this_machine() -> None:
    found = read_topology("/sys")
    assert sum(core for core in found.cores) == found.online
    for part in (found.packages, found.l3, found.dies):
        assert not part or sum(part.values()) == found.online
