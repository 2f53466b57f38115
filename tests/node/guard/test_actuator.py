"""What this mount's MB values mean, and where the guard must not write."""

import posix

import pytest
from conftest import Host

from resctrl_hooks.node.guard.actuator import Mount, shared_cores
from resctrl_hooks.node.guard.limit import Limit
from resctrl_hooks.node.host.topology import UNKNOWN, MemoryNode, Topology

from .node import FULL, Node

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
    assert shared_cores(resctrl, "bronze", ["silver", "gold"], TOPOLOGY) is shared
    assert shared_cores(resctrl, "bronze", ["silver"], TOPOLOGY) is False


@pytest.mark.parametrize(
    "mode, topology, lowers", [("max", True, False), ("max", False, True), ("per-thread", True, True)]
)
def test_class_on_cores_of_a_protected_one_is_not_lowered(
    host: Host, monkeypatch: pytest.MonkeyPatch, mode: str, *, topology: bool, lowers: bool
) -> None:
    node = Node(host)
    (node.root / "info/MB/thread_throttle_mode").write_text(f"{mode}\n")
    run_on(node, monkeypatch, bronze=0b0010, gold=0b0001)
    node.pass_time(node.guard(topology=TOPOLOGY if topology else None), FULL, 6)
    assert bool(node.fs.writes) is lowers
    assert any("shares processor cores with a protected class" in line for line in node.lines) is not lowers


def test_cut_class_that_comes_to_share_cores_is_raised_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(host)
    (node.root / "info/MB/thread_throttle_mode").write_text("max\n")
    run_on(node, monkeypatch, bronze=0b1000, gold=0b0001)
    guard = node.guard(topology=TOPOLOGY)
    node.pass_time(guard, FULL, 6)
    assert node.limit("bronze") == "MB:0=90"
    run_on(node, monkeypatch, bronze=0b0010, gold=0b0001)
    node.pass_time(guard, FULL, 30)
    assert node.limit("bronze") == "MB:0=90"
    assert len([line for line in node.lines if "its value stays at 90 or more" in line]) == 1
    node.pass_time(guard, {"gold": 1.0, "silver": 1.0, "bronze": 1.0}, 120)
    assert node.limit("bronze") == "MB:0=100"
