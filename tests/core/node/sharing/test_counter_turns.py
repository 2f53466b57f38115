"""Bandwidth counters that change hands in turns."""

from pathlib import Path
from typing import Any

import pytest
from conftest import always
from hosts.killed_hook import EACH_OR_FIFTH, each_kill_point, mortal
from hosts.shared_node import TURNS, SharedNode

from resctrl_hooks.core.node.resctrl.counter_share import LOCK as COUNTERS_LOCK
from resctrl_hooks.core.node.resctrl.counter_share import OURS, Holder
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.core.node.sharing import counter_turns
from resctrl_hooks.core.node.sharing.bandwidth_counters import balance, ensure_counted
from resctrl_hooks.core.node.sharing.counter_turns import set_turns, times_of
from resctrl_hooks.lab.simulation.machine import BYTES_PER_SECOND

HOUSES = ("lab",)

TOTAL = "mbm_total_bytes"
COUNTERS = 2
SECONDS = 10


def counted(node: SharedNode) -> list[str]:
    """Return the pods that have a counter for their total."""
    files = {name: f"{node.host.resctrl}/mon_groups/{name}/mbm_L3_assignments" for _, name in node.kernel.groups()}
    return sorted(name for name, path in files.items() if b"mbm_total_bytes:0=e" in node.kernel.read(path))


@EACH_OR_FIFTH
def test_reconcile_killed_at_any_effect_of_a_turn_loses_no_total(tmp_path: Path, step: int) -> None:
    for number, folder, done in each_kill_point(tmp_path, least=10 // step, most=120):
        effects = number * step
        node = node_of(folder, 3, share=TURNS)
        assert len(counted(node)) == COUNTERS
        node.kernel.now += SECONDS
        before = node.totals()
        with mortal(effects, node.kernel) as seam:
            node.reconcile(seam=seam)
            done.append(True)
        killed = node.totals()
        assert all(killed[key] >= before[key] for key in before), effects
        for _ in range(2):
            node.kernel.now += SECONDS
            report = node.reconcile()
            assert not report.events["failed"], (effects, report.events["failed"])
            assert len(counted(node)) == COUNTERS, effects
        totals = node.totals()
        assert all(totals[key] >= killed[key] for key in killed), effects
        most = COUNTERS * 3 * SECONDS * BYTES_PER_SECOND
        assert 0.6 * most <= sum(totals.values()) <= most, effects
        node.check()


@pytest.mark.parametrize("share, times", [
    (None, (90.0, 30.0)), ({}, (90.0, 30.0)), ({"interval": 60}, (60.0, 20.0)),
    ({"interval": 60, "atLeast": 5}, (60.0, 5.0)), ({"atLeast": 0}, (90.0, 0.0)),
])  # fmt: skip
def test_turn_lasts_a_third_of_a_round_by_default(share: Any, times: tuple[float, float]) -> None:
    assert times_of(Settings({"monitoring": {"share": share}})) == times


KEEPS, WAITS, YIELDS = range(3)
ROUNDS: list[tuple[float, dict[str, bool], dict[str, Any]]] = [
    (1000, {"a": True, "b": False}, {"a": (KEEPS, 1000), "b": (WAITS, 1000)}),
    (1029, {"a": True, "b": False}, {"a": None, "b": None}),
    (1030, {"a": True, "b": False}, {"a": (YIELDS, -1000), "b": (WAITS, 1000)}),
    (1050, {"a": False, "b": True}, {"a": None, "b": None}),
    (1060, {"a": False, "b": True}, {"a": (WAITS, 1050), "b": (YIELDS, -1050)}),
    (1085, {"a": True, "b": False, "c": False}, {"a": None, "b": None, "c": None}),
    (1094, {"a": True, "b": False, "c": False}, {"a": (KEEPS, 1085), "b": (WAITS, 1085), "c": (WAITS, 1085)}),
]
"""Successive times, whether the pods' groups have counters, and the pods' places; None without a round."""


def test_round_is_due_after_interval_and_longest_holder_yields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SharedNode(tmp_path)
    node.start()
    monitor = node.context().monitor
    settings = Settings({"monitoring": {"share": {"interval": 30, "atLeast": 10}}})
    monkeypatch.setattr(counter_turns, "chance", lambda: 0.0)
    monkeypatch.setattr(counter_turns, "gap", lambda interval, chance: interval)
    for time, has, places in ROUNDS:
        monkeypatch.setattr(counter_turns, "now", always(time))
        holders = [Holder(f"/{key}/0", {TOTAL: {0: True, 1: of}}, OURS, key) for key, of in has.items()]
        others = Holder("/", {TOTAL: {0: False}}, "root", "")
        set_turns(monitor, settings, [*holders, others], TOTAL)
        assert others.turn is None
        assert {holder.key: holder.turn for holder in holders} == places


def node_of(folder: Path, pods: int, **monitoring: Any) -> SharedNode:
    """Return a node with counters for two pods' totals."""
    node = SharedNode(folder, rmids=8, assignable_counters=2, events=[TOTAL], **monitoring)
    for _ in range(pods):
        node.start()
    return node


def test_busy_counters_are_not_a_failure(tmp_path: Path) -> None:
    node = node_of(tmp_path, 1)
    context = node.context()
    context.monitor.patience = 0.01
    with context.ledger.lock_named(COUNTERS_LOCK, 1):
        ensure_counted(context, node.pods[0].key)
    assert "cannot assign a bandwidth counter to " in node.host.log.read_text()


@pytest.mark.parametrize("share, options, turns", [
    (TURNS, {"in_turns": True}, 1), (TURNS, {"in_turns": True, "dry_run": True}, 0), (TURNS, {}, 0),
    (None, {"in_turns": True}, 0),
])  # fmt: skip
def test_turns_happen_in_reconcile_and_on_request_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: Any, options: dict[str, bool], turns: int
) -> None:
    node = node_of(tmp_path, 3, **({"share": share} if share else {}))
    asked: list[Any] = []
    monkeypatch.setattr(counter_turns, "set_turns", lambda *given: asked.append(given))
    assert balance(node.context(), **options) is not None
    assert len(asked) == turns
    without = SharedNode(tmp_path / "other")
    assert balance(without.context()) is None
    ensure_counted(without.context(), without.start().key)
    assert not without.host.log.exists() or "counter" not in without.host.log.read_text()
