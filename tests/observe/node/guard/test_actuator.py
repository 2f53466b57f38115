"""What this mount's MB values mean, and where the guard must not write."""

import posix

import pytest
from conftest import Host

from resctrl_hooks.core.node.host.topology import UNKNOWN, MemoryNode, Topology
from resctrl_hooks.observe.node.guard.actuator import Mount, classes_beside
from resctrl_hooks.observe.node.guard.limit import Limit

from .node import Node

TOPOLOGY = Topology(0b1111, [0b0011, 0b1100], l3={0: 0b1111}, nodes=[MemoryNode(0, 0b1111, {}, 1, UNKNOWN)])


@pytest.mark.parametrize("missing", ["info/MB/min_bandwidth", "schemata"])
def test_mount_without_bandwidth_limits_is_only_observed(host: Host, missing: str) -> None:
    node = Node(host)
    (node.root / missing).write_text("L3:0=fff\n")
    mount = Mount(node.context().monitor.resctrl)
    assert mount.observe_only == "resctrl limits no memory bandwidth here (no MB in schemata)"


def test_unknown_granularity_is_one_per_cent(host: Host) -> None:
    node = Node(host)
    (node.root / "info/MB/bandwidth_gran").unlink()
    assert Mount(node.context().monitor.resctrl).scale.down(Limit(100, 20), 0.0, 1) == 99


def run_on(node: Node, monkeypatch: pytest.MonkeyPatch, **cpus: int | None) -> None:
    """Give each class one task that may run on these CPUs; None: it has ended."""
    of_task: dict[int, int | None] = {}
    for number, (name, mask) in enumerate(cpus.items()):
        of_task[100 + number] = mask
        (node.root / name / "tasks").write_text(f"{99 - number}\n{100 + number}\n")

    def affinity(task: int) -> set[int]:
        mask = of_task.get(task)
        if mask is None:
            raise ProcessLookupError
        return {cpu for cpu in range(4) if mask >> cpu & 1}

    monkeypatch.setattr(posix, "sched_getaffinity", affinity)


@pytest.mark.parametrize(
    "bronze, gold, shared",
    [(0b0010, 0b0001, True), (0b0010, 0b1100, False), (0b1111, 0b0001, True), (None, 0b1111, False), (1, None, False)],
)
def test_classes_share_a_core_if_their_tasks_may(
    host: Host, monkeypatch: pytest.MonkeyPatch, bronze: int, gold: int, *, shared: bool
) -> None:
    node = Node(host)
    run_on(node, monkeypatch, bronze=bronze, gold=gold)
    resctrl = node.context().monitor.resctrl
    assert classes_beside(resctrl, "bronze", ["silver", "gold"], TOPOLOGY) == (["gold"] if shared else [])
    assert classes_beside(resctrl, "bronze", ["silver"], TOPOLOGY) == []


def test_classes_meet_on_no_core_without_hyperthreads(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(host)
    run_on(node, monkeypatch, bronze=0b1111, gold=0b1111)
    resctrl = node.context().monitor.resctrl
    assert classes_beside(resctrl, "bronze", ["gold"], Topology(0b1111, [1, 2, 4, 8])) == []
    hybrid = Topology(0b1111, [0b0011, 4, 8])
    assert classes_beside(resctrl, "bronze", ["gold"], hybrid) == ["gold"]
    run_on(node, monkeypatch, bronze=0b1100, gold=0b1100)
    assert classes_beside(resctrl, "bronze", ["gold"], hybrid) == [], "these cores have one thread each"
    assert classes_beside(resctrl, "bronze", ["gold"], None) == ["gold"]
