"""The hook and reconcile killed at every system call with an effect, while interrupts leave or return.

strace kills them, as in `test_kill_features`. The files of interrupts are files here.
"""

from typing import Any

import pytest
from conftest import Host
from hosts.interrupts import EXCLUSIVE, InterruptHost, without
from hosts.traced_hook import SystemCall, TracedHook

from resctrl_hooks.node.reconcile.reconcile import reconcile

pytestmark = pytest.mark.no_cover
MOVED = without("0,16")


@pytest.fixture
def node(host: Host) -> InterruptHost:
    return InterruptHost(host)


def points(node: InterruptHost, state: dict[str, Any], command: str = "hook") -> tuple[TracedHook, list[SystemCall]]:
    """Return the traced hook, and the calls with an effect of an undisturbed run."""
    traced = TracedHook(node.host)
    assert traced.run(state, command=command).returncode == 0
    return traced, [call for call in traced.calls() if call.is_effect and call.name != "openat"]


def reconciled(node: InterruptHost) -> None:
    assert reconcile(node.host.context()).problems == []
    again = reconcile(node.host.context())
    assert (again.problems, again.repaired) == ([], 0)


def started(node: InterruptHost) -> dict[str, Any]:
    node.process("a")
    return node.state("a", 2000, **EXCLUSIVE)


def test_start_killed_anywhere_leaves_interrupts_that_reconcile_moves_and_restores(node: InterruptHost) -> None:
    node.start("a", 500)  # creates the state directory
    node.stop("a")
    traced, calls = points(node, started(node))
    assert node.changed() == MOVED
    node.stop("a")
    assert len(calls) > len(MOVED)
    for point in calls:
        for dead in (False, True):
            traced.run(started(node), point.kill())
            assert traced.was_killed_at(point)
            if dead:
                node.die("a")
            reconciled(node)
            recorded = bool(node.host.records())
            assert node.changed() == (MOVED if recorded else {})
            assert not (dead and recorded)
            if not dead:
                node.stop("a")
            assert node.changed() == {}
            assert not node.record.exists()
    print(f"start: {len(calls)} kill points")


def test_end_killed_anywhere_is_completed_by_reconcile(node: InterruptHost) -> None:
    node.start("a", 2000, **EXCLUSIVE)
    node.die("a")
    traced, calls = points(node, node.state("a", status="stopped"))
    assert node.changed() == {}
    for point in calls:
        node.start("a", 2000, **EXCLUSIVE)
        assert node.changed() == MOVED
        node.die("a")
        traced.run(node.state("a", status="stopped"), point.kill())
        assert traced.was_killed_at(point)
        reconciled(node)
        assert node.changed() == {}
        assert not node.record.exists()
    print(f"end: {len(calls)} kill points")


def test_reconcile_killed_anywhere_after_placement_is_disabled_restores_interrupts_in_the_end(
    node: InterruptHost,
) -> None:
    node.start("a", 2000, **EXCLUSIVE)
    node.configure(enabled=False)
    traced, calls = points(node, {}, "reconcile")
    assert node.changed() == {}
    for point in calls:
        node.configure()
        reconciled(node)
        assert node.changed() == MOVED
        node.configure(enabled=False)
        traced.run({}, point.kill(), command="reconcile")
        assert traced.was_killed_at(point)
        reconciled(node)
        assert node.changed() == {}
        assert not node.record.exists()
