from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING, Any

import pytest
from shared_node import RULES, Pod, SharedNode

from resctrl_hooks.node.ledger import Ledger, Lock
from resctrl_hooks.node.refusals import RefusedError
from resctrl_hooks.node.resctrl.locked_key import LockedKey
from resctrl_hooks.node.resctrl.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_without_rules_whoever_comes_first_is_counted(tmp_path: Path) -> None:
    node = SharedNode(tmp_path)
    first, second, third = node.start("batch"), node.start("batch"), node.start("gold")
    assert node.counted() == [first, second]
    assert node.waiting() == [third.key]
    assert not (node.host.state / "rmids").exists()


def test_a_pod_of_higher_priority_is_counted_from_its_first_instruction_and_the_lowest_waits(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    silver, batch = node.start("silver"), node.start("batch", threads=3)
    gold = node.start("gold", threads=2)
    assert node.counted() == [silver, gold]
    assert node.waiting() == [batch.key]
    node.check()


def test_equals_never_lose_to_each_other(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    pods = [node.start("gold") for _ in range(4)]
    assert node.counted() == pods[:2]
    assert node.reconcile().ok
    assert node.counted() == pods[:2]
    node.check()


def test_the_last_to_come_of_the_lowest_yields_first(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=4, priority=RULES)
    older, newer, silver = node.start("batch"), node.start("batch"), node.start("silver")
    gold = node.start("gold")
    assert node.counted() == [older, silver, gold]
    assert node.waiting() == [newer.key]


def test_totals_are_carried_exactly(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    silver, batch = node.start("silver"), node.start("batch")
    node.kernel.now += 10
    before = node.totals()
    assert before[silver.key] == before[batch.key] > 0
    node.kernel.now += 10  # which nobody reads before it is handed on
    gold = node.start("gold")
    node.kernel.now += 10
    after = node.totals()
    assert after[batch.key] // 2 == pytest.approx(before[batch.key], abs=node.kernel.UNIT)
    assert after[batch.key] + after[gold.key] == after[silver.key]  # what the RMID counted, to the byte
    node.kernel.now += 10
    assert node.totals()[batch.key] == after[batch.key]


def test_who_waits_is_served_by_priority_when_somebody_ends(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    first = node.start("gold")
    batch, silver, gold = node.start("batch"), node.start("silver"), node.start("gold")
    assert node.counted() == [first]
    for ended, served in ((first, gold), (gold, silver), (silver, batch)):
        node.end(ended)
        node.kernel.now += 2
        node.reconcile()
        assert node.counted() == [served]
        node.check()


def test_a_reserve_is_kept_for_those_above_it(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=4, priority=RULES, reserve={"rmids": 2, "above": 50})
    silver = node.start("silver")
    late = node.start("silver")
    assert node.counted() == [silver]
    assert node.waiting() == [late.key]
    assert node.reconcile().ok
    assert node.counted() == [silver]
    gold = node.start("gold")
    assert node.counted() == [silver, gold]
    node.check()


def test_a_group_that_somebody_else_has_made_for_a_pod_is_no_part_of_the_reserve(tmp_path: Path) -> None:
    turns: dict[str, Any] = {"share": {"interval": 0.0001, "atLeast": 0.0}}
    node = SharedNode(tmp_path, rmids=4, priority=RULES, reserve={"rmids": 1, "above": 50}, **turns)
    first, key = node.start("silver"), Pod(1, "").key
    node.kernel.mkdir(f"{node.host.resctrl}/mon_groups/{key}")
    second = node.start("silver")
    assert second.key == key
    for _ in range(2):
        assert node.counted() == [first, second]
        assert node.waiting() == []
        report = node.reconcile()
        assert not report.failures
        assert report.turns == []


def test_where_groups_cannot_be_renamed_reconcile_makes_room(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    node.kernel.refuse_rename = errno.EPERM
    batch = node.start("batch")
    node.kernel.now += 10
    gold = node.start("gold")
    assert node.counted() == [batch]
    counted = node.totals()[batch.key]
    node.reconcile()
    node.kernel.now += 2
    node.reconcile()
    assert node.counted() == [gold]
    assert node.totals()[batch.key] == counted
    node.check()


def test_other_rules_rank_anew(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch = node.start("batch")
    node.host.configure(
        monitoring={"priority": [{"namespaces": ["batch"], "value": 500}]}, runtimeRoots={"crun": f"{tmp_path}/crun"}
    )
    node.reconcile()
    gold = node.start("gold")
    assert node.counted() == [batch]
    assert node.waiting() == [gold.key]
    node.check()


@pytest.mark.parametrize("namespace", ["batch", "gold"])
def test_rules_that_come_later_rank_who_is_there_already(tmp_path: Path, namespace: str) -> None:
    node = SharedNode(tmp_path, rmids=2)
    pod = node.start(namespace)
    node.host.configure(monitoring={"priority": RULES}, runtimeRoots={"crun": f"{tmp_path}/crun"})
    node.reconcile()
    silver = node.start("silver")
    assert node.counted() == [silver if namespace == "batch" else pod]
    node.check()


def at_its_turn(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Does something when the next hook asks for its turn, and has let go of its key."""
    real = Ledger.lock_named

    def lock_named(ledger: Ledger, name: str, patience: float) -> Lock:
        if name == "handover":
            monkeypatch.undo()
            act()
        return real(ledger, name, patience)

    monkeypatch.setattr(Ledger, "lock_named", lock_named)


def test_a_refusal_keeps_the_group_that_another_container_of_the_pod_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    scheduling: dict[str, Any] = {"enabled": True, "failurePolicy": "fail", "classes": {"small": {"cpuWeight": 20}}}
    scheduling["defaults"] = {"namespaces": {"gold": "small"}}
    node.host.configure(**json.loads(node.host.config.read_text()) | {"scheduling": scheduling})
    batch = node.start("batch")
    began: list[Pod] = []

    def start_beside() -> None:
        refused = node.pods[-1]
        weight = node.host.cgroup / Pod(len(node.pods), "gold").beside(refused).cgroup.lstrip("/") / "cpu.weight"
        weight.parent.mkdir(parents=True)
        weight.write_text("100")
        began.append(node.start("gold", beside=refused))

    at_its_turn(monkeypatch, start_beside)
    with pytest.raises(RefusedError, match="the cpu controller"):
        node.start("gold")
    refused, (beside,) = node.pods[1], began
    node.kernel.end(refused.pid)
    refused.pid = 0
    assert node.counted() == [beside]
    assert node.waiting() == [batch.key]
    node.check()


def test_who_has_its_turn_and_not_its_key_lets_the_turn_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    node.host.configure(**json.loads(node.host.config.read_text()) | {"deadlineSeconds": 0.2})
    batch = node.start("batch")
    others: list[LockedKey] = []
    real = LockedKey.lock_again

    def lock_again(locked: LockedKey, patience: float) -> None:
        with node.context().ledger.lock_named("handover", 0):
            others.pop().unlock()
        real(locked, patience)

    def hold_its_key() -> None:
        monkeypatch.setattr(LockedKey, "lock_again", lock_again)
        others.append(node.context().monitor.hold(node.pods[-1].key))

    at_its_turn(monkeypatch, hold_its_key)
    gold = node.start("gold")
    assert others == []
    assert (node.counted(), node.waiting()) == ([batch], [gold.key])
    node.check()


def test_others_locks_are_waited_for_within_a_share_of_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch = node.start("batch")
    node.host.configure(deadlineSeconds=0.5, monitoring={"priority": RULES}, runtimeRoots={"crun": f"{tmp_path}/crun"})
    asked: list[float] = []
    hold_beside = Monitor.hold_beside

    def noted(monitor: Monitor, locked: LockedKey, key: str, patience: float) -> LockedKey:
        asked.append(patience)
        return hold_beside(monitor, locked, key, patience)

    monkeypatch.setattr(Monitor, "hold_beside", noted)
    with node.context().ledger.lock(batch.key, 0):
        node.start("gold")
    assert node.counted() == [batch]
    assert max(asked) <= 0.2
