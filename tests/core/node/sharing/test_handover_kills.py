"""The handover of an RMID, killed at each of its effects: one or two reconciles repair everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosts.killed_hook import each_kill_point, mortal
from hosts.shared_node import RULES, SharedNode

from resctrl_hooks.core.node.reconcile.vanished import read_vanished
from resctrl_hooks.lab.simulation.machine import BYTES_PER_SECOND

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)
MOST_EFFECTS = 80


def repaired(node: SharedNode) -> None:
    """Reconcile until nothing is in limbo, and look whether all promises are kept."""
    for _ in range(2):
        node.kernel.now += 2
        report = node.reconcile()
        assert not report.events["failed"], report.events["failed"]
    assert read_vanished(node.context().settings.state_dir)["total"] == 0, "no other program removed a group"
    assert node.context().ledger.marked("changing") == []
    node.check()


def test_hook_killed_at_any_effect_is_finished_by_reconcile(tmp_path: Path) -> None:
    for effects, folder, finished in each_kill_point(tmp_path, least=15, most=MOST_EFFECTS):
        node = SharedNode(folder, priority=RULES)
        silver, batch = node.start("silver"), node.start("batch", threads=2)
        node.kernel.now += 10
        gold = node.start("gold", effects=effects)
        if gold in node.counted():
            finished.append(True)
        node.kernel.now += 10
        repaired(node)
        assert node.counted() == [silver, gold], effects
        assert node.waiting() == [batch.key], effects
        totals = node.totals()
        rate = totals[silver.key] / (node.kernel.now - 1000)
        # Every count belongs to one pod, once; the uncounted time is that of the moves.
        assert totals[batch.key] >= 2 * 10 * rate - 2 * node.kernel.UNIT, effects
        assert totals[batch.key] + totals[gold.key] <= (2 * 16 + 14) * rate, effects


def test_pod_with_killed_hook_leaves_nothing_at_its_end(tmp_path: Path) -> None:
    for effects in range(40):
        folder = tmp_path / str(effects)
        folder.mkdir()
        node = SharedNode(folder, priority=RULES)
        silver, batch = node.start("silver"), node.start("batch")
        gold = node.start("gold", effects=effects)
        node.end(gold)
        repaired(node)
        assert node.counted() == [silver, batch], effects
        for pod in (silver, batch):
            node.end(pod)
        repaired(node)
        assert node.kernel.groups() == set()
        assert node.context().ledger.keys() == []


def test_reconcile_killed_at_any_effect_of_a_turn_is_finished_by_next(tmp_path: Path) -> None:
    for effects, folder, done in each_kill_point(tmp_path, least=15, most=2 * MOST_EFFECTS):
        node = SharedNode(folder, rmids=2, priority=RULES, share={"interval": 0.001, "atLeast": 0})
        first, second = node.start("gold", threads=2), node.start("gold", threads=2)
        node.kernel.now += 10
        with mortal(effects, node.kernel) as seam:
            node.reconcile(seam=seam)
            done.append(True)
        node.kernel.now += 10
        repaired(node)
        assert len(node.counted()) == 1
        totals = node.totals()
        # Both together were counted while one of them was in the one group that there is, and never twice.
        assert 0 < totals[first.key] + totals[second.key] <= 2 * (node.kernel.now - 1000) * BYTES_PER_SECOND
