"""Preemption by a hook: within its time, and with concurrent changes by others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hosts.shared_node import RULES, Pod, SharedNode

from resctrl_hooks.core.node.errors import LockTimeoutError
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.refusals import RefusedError
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.resctrl.monitor import Monitor
from resctrl_hooks.core.node.sharing import admission
from resctrl_hooks.core.node.sharing.claims import entry_of
from resctrl_hooks.core.node.sharing.decision import Claim

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from resctrl_hooks.core.node.locks import Lock

HOUSES = ("lab",)


def at_its_turn(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do something when the next hook asks for its turn, and has let go of its key."""
    real = Ledger.lock_named

    def lock_named(ledger: Ledger, name: str, patience: float) -> Lock:
        if name == "handover":
            monkeypatch.undo()
            act()
        return real(ledger, name, patience)

    monkeypatch.setattr(Ledger, "lock_named", lock_named)


def test_refusal_keeps_group_created_meanwhile_by_another_container(
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


def test_group_created_meanwhile_by_another_program_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SharedNode(tmp_path, rmids=4, priority=RULES, reserve={"rmids": 1, "above": 100})
    node.start("silver")
    batch = node.start("batch")
    others: list[str] = []

    def make_it() -> None:
        others.append(node.pods[-1].key)
        node.kernel.mkdir(f"{node.host.resctrl}/mon_groups/{others[0]}")

    at_its_turn(monkeypatch, make_it)
    gold = node.start("gold")
    assert others == [gold.key]
    assert "EEXIST" not in node.host.log.read_text()
    assert batch in node.counted()
    assert not node.reconcile().events["failed"]
    assert {batch, gold} <= set(node.counted())
    assert node.waiting() == []


def test_turn_is_released_if_key_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    node.host.configure(**json.loads(node.host.config.read_text()) | {"deadlineSeconds": 0.2})
    batch = node.start("batch")
    others: list[LockedKey] = []
    real = LockedKey.lock_again

    def lock_again(locked: LockedKey, patience: float) -> None:
        with node.context().ledger.lock_named("handover", 0):
            if others:  # the search for dead pods releases the key again
                others.pop().unlock()
        real(locked, patience)

    def hold_its_key() -> None:
        monkeypatch.setattr(LockedKey, "lock_again", lock_again)
        others.append(node.context().monitor.hold(node.pods[-1].key))

    at_its_turn(monkeypatch, hold_its_key)
    gold = node.start("gold")
    assert others == []
    assert "reason=no-rmids" in node.host.log.read_text()
    assert (node.counted(), node.waiting()) == ([batch], [gold.key])
    node.check()


def test_foreign_locks_are_waited_for_within_share_of_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    batch = node.start("batch")
    node.configure(deadlineSeconds=0.5, monitoring={"priority": RULES})
    asked: list[float] = []
    hold_beside = Monitor.hold_beside

    def noted(monitor: Monitor, locked: LockedKey, key: str, patience: float) -> LockedKey:
        asked.append(patience)
        return hold_beside(monitor, locked, key, patience)

    def turn(ledger: Ledger, name: str, patience: float) -> Lock:
        if name == "handover":
            asked.append(patience)
        return lock_named(ledger, name, patience)

    def again(locked: LockedKey, patience: float) -> None:
        if len(asked) == 1:  # it has its turn
            asked.append(patience)
        try_lock(locked, patience)

    lock_named, try_lock = Ledger.lock_named, LockedKey.try_lock
    monkeypatch.setattr(Monitor, "hold_beside", noted)
    monkeypatch.setattr(Ledger, "lock_named", turn)
    monkeypatch.setattr(LockedKey, "try_lock", again)
    with node.context().ledger.lock(batch.key, 0):
        node.start("gold")
    assert node.counted() == [batch]
    assert len(asked) >= 3
    assert max(asked) <= 0.2


@pytest.mark.parametrize("busy", [0, 1, 2, 3, 4])
def test_busy_pod_is_asked_twice_with_longer_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: int) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    older, newer = node.start("batch"), node.start("batch")
    asked: list[tuple[str, bool]] = []
    hold_beside = Monitor.hold_beside

    def noted(monitor: Monitor, locked: LockedKey, key: str, patience: float) -> LockedKey:
        asked.append((key, patience > 0.1))
        if len(asked) <= busy:
            raise LockTimeoutError("its hook is at work on it")
        return hold_beside(monitor, locked, key, patience)

    monkeypatch.setattr(Monitor, "hold_beside", noted)
    gold = node.start("gold")
    each = [(newer.key, False), (older.key, False), (newer.key, True), (older.key, True)]
    assert asked == each[: busy + 1]
    giver = {0: newer, 1: older, 2: newer, 3: older}.get(busy)
    assert node.counted() == [pod for pod in (older, newer, gold) if pod is not (giver or gold)]
    assert node.waiting() == [(giver or gold).key]
    node.check()


def test_stale_index_entry_is_removed_and_next_is_asked(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    batch, silver = node.start("batch"), node.start("silver")
    ledger = node.context().ledger
    was = node.claim(batch)
    earlier = Claim(batch.key, was["priority"], was["since"] + 1)
    for stale in (earlier, Claim("gone", -100, 1.0)):
        ledger.mark("rmids", entry_of(stale))
    gold = node.start("gold")
    assert node.counted() == [silver, gold]
    assert sorted(ledger.marked("rmids")) == sorted(node.claim(pod)["entry"] for pod in (silver, gold))


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_number_of_asked_pods_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    node = SharedNode(tmp_path, rmids=4, priority=RULES)
    batch = [node.start("batch", threads=2) for _ in range(3)]
    asked: list[str] = []

    def refuse(giver: LockedKey, *_: Any, **_named: Any) -> bool:
        asked.append(giver.key)
        return False

    monkeypatch.setattr(admission, "hand_on", refuse)
    monkeypatch.setattr(admission, "_MOST_ASKED", most)
    gold = node.start("gold")
    assert asked == [pod.key for pod in reversed(batch)][:most]
    assert node.waiting() == [gold.key]
    assert "reason=no-rmids" in node.host.log.read_text()
