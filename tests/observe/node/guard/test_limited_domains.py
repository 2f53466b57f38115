"""The guard acts where `MB` limits in the domains that count bandwidth; elsewhere it observes and says why."""

from pathlib import Path

import pytest
from conftest import Host

from resctrl_hooks.core.node.host.topology import Topology
from resctrl_hooks.observe.inventory.guard import guard_status
from resctrl_hooks.observe.node.guard.actuator import Mount

from .node import FULL, Node

NODES = (0, 2, 10)


def scope(node: Node, word: str) -> None:
    """Write what MB limits, as the schemata's own description has it."""
    folder = node.root / "info/MB/resource_schemata/MB"
    folder.mkdir(parents=True)
    (folder / "scope").write_text(f"{word}\n")


def extra(node: Node, *lines: str) -> None:
    """Add lines of other resources to the schemata of each class, before and behind MB."""
    for file in (node.root / "schemata", *node.root.glob("*/schemata")):
        file.write_text("".join(f"{line}\n" for line in lines) + file.read_text())


@pytest.mark.parametrize("counted_in, of", [("L3", ""), ("L3", "L3"), ("MB", ""), ("MB", "NODE"), ("NODE", "NODE")])
def test_guard_acts_where_mb_limits_in_the_domains_that_count(host: Host, counted_in: str, of: str) -> None:
    node = Node(host, l3=NODES, counted_in=counted_in)
    if of:
        scope(node, of)
    guard = node.guard(topology=Topology(0b111, [1, 2, 4], l3={0: 1, 2: 2, 10: 4}) if counted_in == "L3" else None)
    node.pass_time(guard, FULL, 6)
    assert guard.mode == "act", node.lines
    assert node.limit("bronze") == "MB:0=90;10=100;2=100"
    assert guard.end()
    assert node.limit("bronze") == "MB:0=100;10=100;2=100"


@pytest.mark.parametrize("counted_in, of", [("MB", "L3"), ("NODE", ""), ("NODE", "L3"), ("L3", "NODE"), ("X", "")])
def test_guard_observes_where_mb_limits_in_other_domains(host: Host, counted_in: str, of: str) -> None:
    node = Node(host, l3=NODES, counted_in=counted_in)
    if of:
        scope(node, of)
    guard = node.guard()
    node.pass_time(guard, FULL, 8)
    assert guard.mode == "observe"
    assert node.limit("bronze") == "MB:0=100;2=100;10=100"
    assert f"bandwidth is counted in {counted_in} domains 0, 2, 10, and MB limits {of or 'L3'} domains" in node.lines[0]


def test_guard_observes_where_the_ids_differ(host: Host) -> None:
    node = Node(host, l3=NODES, counted_in="MB")
    for file in (node.root / "schemata", *node.root.glob("*/schemata")):
        file.write_text("MB:1=100;2=100\n")
    guard = node.guard()
    node.pass_time(guard, FULL, 8)
    assert guard.mode == "observe"
    assert "MB domains 0, 2, 10, and MB limits MB domains 1, 2" in node.lines[0]
    assert node.fs.writes == []


def test_load_at_the_memory_is_exact_and_ignores_local_bytes(host: Host) -> None:
    node = Node(host, l3=NODES, counted_in="MB")
    guard = node.guard()
    node.pass_time(guard, {"gold": 30.0}, 3)
    found = guard_status(node.context())
    assert found is not None
    assert [(one.domain, one.l3, one.load, one.estimated) for one in found.domains] == [
        ("0", [0], pytest.approx(0.3), False),
        ("2", [2], 0.0, False),
        ("10", [10], 0.0, False),
    ]


def test_other_resources_are_never_taken_for_mb(host: Host) -> None:
    node = Node(host)
    extra(node, "MB_MIN:0=5", "MB_MAX:0=7", "MB_REGION0_OPT:0=1", "GMB:0=8")
    mount = Mount(node.context().monitor.resctrl)
    assert (mount.limited, mount.observe_only) == ([0], "")
    (node.root / "schemata").write_text("MB_MIN:0=5\nGMB:0=8\n")
    assert "no MB in schemata" in Mount(node.context().monitor.resctrl).observe_only
    assert Path(node.root / "schemata").read_text() == "MB_MIN:0=5\nGMB:0=8\n"
