"""Bandwidth counters that change hands in turns, with a reconcile that is killed at each of its effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from killed_hook import mortal
from shared_node import SharedNode

from resctrl_hooks.simulation.machine import BYTES_PER_SECOND

if TYPE_CHECKING:
    from pathlib import Path

COUNTERS = 2
PODS = 3
SECONDS = 10
MOST_EFFECTS = 120


def counted(node: SharedNode) -> list[str]:
    """The pods that have a counter for their total."""
    groups = node.kernel.model.root.monitored
    return sorted(name for name in groups if b"mbm_total_bytes:0=e" in node.kernel.read(assignments(node, name)))


def assignments(node: SharedNode, key: str) -> str:
    return f"{node.host.resctrl}/mon_groups/{key}/mbm_L3_assignments"


def pods_on(folder: Path) -> SharedNode:
    """Three pods where two can be counted at a time."""
    share: dict[str, Any] = {"interval": 0.0001, "atLeast": 0.0}
    node = SharedNode(folder, rmids=8, assignable_counters=COUNTERS, share=share, events=["mbm_total_bytes"])
    for _ in range(PODS):
        node.start()
    assert len(counted(node)) == COUNTERS
    return node


def test_each_pod_has_its_turn_and_its_totals_are_what_was_counted(tmp_path: Path) -> None:
    node = pods_on(tmp_path)
    rounds = 6
    for _ in range(rounds):
        node.kernel.now += SECONDS
        assert node.reconcile().ok
        assert len(counted(node)) == COUNTERS
    totals = node.totals()
    assert len(totals) == PODS
    whole = COUNTERS * rounds * SECONDS * BYTES_PER_SECOND
    assert abs(sum(totals.values()) - whole) <= PODS * rounds * node.kernel.UNIT
    for total in totals.values():
        assert abs(total - whole / PODS) <= whole / PODS / 2, totals


def test_a_reconcile_killed_at_any_effect_of_a_turn_loses_no_total(tmp_path: Path) -> None:
    effects = 0
    done: list[bool] = []
    while not done:
        folder = tmp_path / str(effects)
        folder.mkdir()
        node = pods_on(folder)
        node.kernel.now += SECONDS
        before = node.totals()
        with mortal(effects, node.kernel) as seam:
            node.reconcile(seam)
            done.append(True)
        killed = node.totals()
        assert all(killed[key] >= before[key] for key in before), effects
        for _ in range(2):
            node.kernel.now += SECONDS
            report = node.reconcile()
            assert not report.failures, (effects, report.failures)
            assert len(counted(node)) == COUNTERS, effects
        totals = node.totals()
        assert all(totals[key] >= killed[key] for key in killed), effects
        most = COUNTERS * 3 * SECONDS * BYTES_PER_SECOND
        assert 0.6 * most <= sum(totals.values()) <= most, effects
        node.check()
        effects += 1
        assert effects < MOST_EFFECTS
    assert effects > 10
    print(f"{effects} kill points")
