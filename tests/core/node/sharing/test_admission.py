"""Counted and waiting pods with fewer RMIDs than pods."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from hosts.shared_node import RULES, Pod, SharedNode

from resctrl_hooks.core.node.errors import LockTimeoutError, NoRMIDsError
from resctrl_hooks.core.node.feature import obtain_group
from resctrl_hooks.core.node.ledger import CHANGING
from resctrl_hooks.core.node.resctrl.monitor import Monitor
from resctrl_hooks.core.node.resctrl.rmids import total_rmids

if TYPE_CHECKING:
    from pathlib import Path

    from hosts.faults import Fail

HOUSES = ("lab",)
LOW = [{"namespaces": ["low"], "value": 1}]


@pytest.mark.parametrize(
    "rmids, settings, started, counted",
    [
        (3, {}, "batch batch gold", [0, 1]),  # without rules the first pods
        (3, {"priority": RULES}, "silver batch", [0, 1]),
        (3, {"priority": RULES}, "silver batch gold", [0, 2]),  # the lowest priority waits
        (4, {"priority": RULES}, "batch batch silver gold", [0, 2, 3]),  # and of these the latest pod
        (3, {"priority": RULES}, "gold gold gold gold", [0, 1]),  # equals never preempt each other
        (4, {"priority": RULES, "reserve": {"rmids": 2, "above": 50}}, "silver silver", [0]),
        (4, {"priority": RULES, "reserve": {"rmids": 2, "above": 50}}, "silver silver gold", [0, 2]),
        (2, {"priority": LOW, "reserve": {"rmids": 1}}, "low", [0]),  # a missing part of a reserve is 0
        (2, {"priority": LOW, "reserve": {"above": 500}}, "low", [0]),
    ],
)
def test_pods_are_counted_from_their_first_instruction_by_rank(
    tmp_path: Path, rmids: int, settings: dict[str, Any], started: str, counted: list[int]
) -> None:
    node = SharedNode(tmp_path, rmids=rmids, **settings)
    pods = [node.start(namespace, threads=number + 1) for number, namespace in enumerate(started.split())]
    waiting = [pod.key for number, pod in enumerate(pods) if number not in counted]
    assert (node.host.state / "wake").exists() == bool(waiting)  # another RMID may be free for it
    for _ in range(2):
        assert node.counted() == [pods[number] for number in counted]
        assert (node.waiting(), node.marked(CHANGING)) == (waiting, [])
        if settings:
            node.check()
        assert node.reconcile().ok is bool(settings)
    assert (node.host.state / "rmids").exists() is bool(settings)


def test_totals_are_carried_exactly(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    silver, batch = node.start("silver"), node.start("batch")
    node.kernel.now += 10
    before = node.totals()
    assert before[silver.key] == before[batch.key] > 0
    node.kernel.now += 10  # not read before its handover
    gold = node.start("gold")
    node.kernel.now += 10
    after = node.totals()
    assert after[batch.key] // 2 == pytest.approx(before[batch.key], abs=node.kernel.UNIT)
    assert after[batch.key] + after[gold.key] == after[silver.key]  # the RMID's count, to the byte
    node.kernel.now += 10
    assert node.totals()[batch.key] == after[batch.key]


def test_waiting_pods_are_served_by_priority(tmp_path: Path) -> None:
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


def test_additional_group_without_claim_has_priority_0(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=4)
    node.add_classes("extra")
    pod = node.start("gold")
    node.configure(monitoring={"priority": RULES})
    low = node.start("other")
    context = node.context()
    with context.monitor.hold(pod.key) as locked, pytest.raises(NoRMIDsError):
        obtain_group(locked, "extra", context)  # not that of its equal
    assert node.counted() == [pod, low]
    assert node.waiting() == [pod.key]


@pytest.mark.parametrize("rdt_class", ["", "extra"])
def test_second_container_keeps_claim_and_waits_in_another_class(tmp_path: Path, rdt_class: str) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    node.add_classes("extra")
    batch = node.start("batch")
    before = node.claim(batch)
    node.start("batch", beside=batch, rdt_class=rdt_class)
    assert node.claim(batch) == before
    assert node.waiting() == ([batch.key] if rdt_class else [])


def test_second_container_ranks_pod_from_before_the_rules(tmp_path: Path) -> None:
    node = SharedNode(tmp_path)
    pod, foreign = node.start("silver"), Pod(1, "").key
    assert node.claim(pod) is None
    node.kernel.mkdir(f"{node.host.resctrl}/mon_groups/{foreign}")
    others = node.start("silver")
    node.configure(monitoring={"priority": RULES})
    node.start("silver", beside=pod)
    assert node.claim(pod)["priority"] == 50
    assert node.context().ledger.marked("rmids") == [node.claim(pod)["entry"]]
    node.start("silver", beside=others)
    assert node.claim(others) is None  # its group is foreign, and cannot be handed over


def test_waiting_pod_gets_free_rmid_with_next_container(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    gold, batch = node.start("gold"), node.start("batch")
    assert node.waiting() == [batch.key]
    node.end(gold)
    node.kernel.now += 2
    second = node.start("batch", beside=batch)
    assert second in node.counted()
    assert node.waiting() == []


def test_resource_with_fewest_rmids_counts(tmp_path: Path) -> None:
    node = SharedNode(tmp_path)
    info, resctrl = node.host.resctrl / "info", node.host.context().monitor.resctrl
    for name, number in (("A_MON", None), ("L3_MON", "16"), ("B_MON", "many"), ("Z_MON", "8"), ("L3", "2")):
        (info / name).mkdir(parents=True, exist_ok=True)
        if number:
            (info / name / "num_rmids").write_text(number)
    assert total_rmids(resctrl) == 8


def test_foreign_group_of_pod_does_not_use_reserve(tmp_path: Path) -> None:
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
        assert not report.events["failed"]
        assert [*report.events["handover"]] == []


def test_reconcile_makes_room_without_rename(tmp_path: Path) -> None:
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


def test_pod_with_running_hook_keeps_group_without_rename(tmp_path: Path, fail: Fail) -> None:
    node = SharedNode(tmp_path, priority=RULES)
    node.kernel.refuse_rename = errno.EPERM
    older, newer = node.start("batch"), node.start("batch")
    gold = node.start("gold")
    busy = {older.key, newer.key}
    at_work = LockTimeoutError("its hook is at work on it")
    fail(Monitor, "hold_beside", at_work, when=lambda _monitor, _locked, key, _patience: key in busy)
    report = node.reconcile()
    assert node.counted() == [older, newer]
    assert not report.only_limbo
    busy.remove(older.key)
    assert node.reconcile().only_limbo
    assert node.counted() == [newer]
    node.kernel.now += 2
    node.reconcile()
    assert node.counted() == [newer, gold]
    node.check()


def test_equal_priorities_do_not_wait_for_limbo(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, priority=RULES)
    gold, late = node.start("gold"), node.start("gold")
    report = node.reconcile()
    assert (node.counted(), node.waiting()) == ([gold], [late.key])
    assert list(report.events["waiting"] or report.events["queued"]) == [late.key]
    assert not report.only_limbo


@pytest.mark.parametrize(
    "before, after, first, second, keeps",
    [
        (RULES, [{"namespaces": ["batch"], "value": 500}], "batch", "gold", True),
        (None, RULES, "batch", "silver", False),
        (None, RULES, "gold", "silver", True),
    ],
)
def test_changed_rules_rank_existing_pods(
    tmp_path: Path, before: Any, after: Any, first: str, second: str, *, keeps: bool
) -> None:
    node = SharedNode(tmp_path, rmids=2, **({"priority": before} if before else {}))
    pod = node.start(first)
    node.configure(monitoring={"priority": after})
    node.reconcile()
    other = node.start(second)
    assert (node.counted(), node.waiting()) == (([pod], [other.key]) if keeps else ([other], [pod.key]))
    node.check()
