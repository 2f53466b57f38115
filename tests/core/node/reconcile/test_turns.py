from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from conftest import always
from hosts.shared_node import RULES, SharedNode

from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.reconcile import turns
from resctrl_hooks.core.node.reconcile.discovery import observe
from resctrl_hooks.core.node.reconcile.report import Report
from resctrl_hooks.core.node.sharing.claims import holders
from resctrl_hooks.core.node.sharing.decision import Claim

if TYPE_CHECKING:
    from pathlib import Path

    from resctrl_hooks.core.node.resctrl.locked_key import LockedKey

HOUSES = ("lab",)
EVERY_PASS: dict[str, Any] = {"share": {"interval": 0.0001, "atLeast": 0.0}}


def test_all_containers_of_pod_are_counted_in_its_turn(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, **EVERY_PASS)
    first, second = node.start(threads=2), node.start()
    sidecar = node.start(threads=2, beside=second)
    assert node.counted() == [first]
    report = node.reconcile()
    assert [*report.events["handover"]] == [second.key]
    assert list(report.events["queued"]) == [first.key] == node.waiting()
    assert node.counted() == [second, sidecar]
    node.reconcile()
    assert node.counted() == [first]
    node.check()


def test_shorter_interval_counts_from_the_next_pass_on(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, share={"interval": 3600.0, "atLeast": 0.0})
    first, second = node.start(), node.start()
    assert [*node.reconcile().events["handover"]] == [second.key]
    assert [*node.reconcile().events["handover"]] == []
    node.host.configure(monitoring=EVERY_PASS)
    assert [*node.reconcile().events["handover"]] == [first.key]


def test_container_in_another_class_waits_during_turn_of_its_pod(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=3, **EVERY_PASS)
    node.add_classes("gold")
    first, second = node.start(), node.start()
    other = node.start(beside=second, rdt_class="gold")
    assert node.counted() == [first]
    report = node.reconcile()
    assert [*report.events["handover"]] == [second.key]
    assert node.counted() in ([second], [other])
    assert node.waiting() == sorted([first.key, second.key])
    assert sorted(report.events["queued"]) == node.waiting()
    node.check()


def test_pod_with_ended_containers_releases_turn_and_is_not_waiting(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, **EVERY_PASS)
    first, second = node.start(), node.start()
    node.kernel.end(first.pid)  # its pod is still there, and may start another
    first.pid = 0
    report = node.reconcile()
    assert [*report.events["handover"]] == [second.key]
    assert list(report.events["queued"]) == node.waiting() == []
    assert node.counted() == [second]
    again = node.start(beside=first)
    assert node.waiting() == [first.key]
    node.reconcile()
    assert node.counted() == [again]
    node.check()


@pytest.mark.parametrize("namespace", ["gold", "silver"])
def test_group_in_second_class_respects_reserve(tmp_path: Path, namespace: str) -> None:
    node = SharedNode(tmp_path, rmids=5, priority=RULES, reserve={"rmids": 2, "above": 50})
    node.add_classes("extra")
    pod = node.start(namespace)
    other = node.start(namespace, beside=pod, rdt_class="extra")
    assert node.counted() == ([pod, other] if namespace == "gold" else [pod])
    assert node.waiting() == ([] if namespace == "gold" else [pod.key])
    node.kernel.spawn(pod.cgroup, 1, "extra")  # another thread of the first container, in a class of its own
    node.reconcile()
    in_groups = {("", pod.key), ("extra", pod.key)} if namespace == "gold" else {("", pod.key)}
    assert node.kernel.groups() == in_groups


def test_group_in_second_class_preempts_lower_priority(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=4, priority=RULES)
    node.add_classes("extra")
    pod, batch = node.start("gold"), node.start("batch")
    other = node.start("gold", beside=pod, rdt_class="extra")
    assert node.counted() == [pod, other]
    assert node.waiting() == [batch.key]
    node.check()


def test_namespace_limit_holds_in_every_turn_and_each_pod_gets_some(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=4, limits={"batch": 1}, **EVERY_PASS)
    batch = [node.start("batch") for _ in range(3)]
    shop = [node.start("shop") for _ in range(4)]
    assert node.counted() == [batch[0], *shop[:2]]
    served: set[str] = set()
    for _ in range(40):
        node.reconcile()
        counted = node.counted()
        assert [pod.namespace for pod in counted].count("batch") <= 1
        served |= {pod.key for pod in counted}
        if len(served) == len(batch + shop):
            return
    pytest.fail(f"counted were {served}")


def test_turn_of_pods_that_another_program_has_changed_is_left_out(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, rmids=2, **EVERY_PASS)
    first, second = node.start(), node.start()
    report = Report()
    giver, taker = (Claim(pod.key, 0, -1.0) for pod in (first, second))
    assert not turns._hand_on(node.context(), giver, taker, {}, report)
    assert (node.counted(), report.events["queued"]) == ([first], {})


@pytest.mark.parametrize("given_back", [False, True])
def test_giver_of_a_failed_handover_waits_if_its_rmid_was_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, given_back: bool
) -> None:
    monkeypatch.setattr(turns, "hand_on", always(value=False))
    monkeypatch.setattr(turns, "give_back", always(given_back))
    node = SharedNode(tmp_path, rmids=2, **EVERY_PASS)
    first, second = node.start(), node.start()
    report = node.reconcile()
    assert [*report.events["handover"]] == ([second.key] if given_back else [])
    assert (first.key in report.events["queued"]) is given_back
    assert second.key in report.events["queued"]


@pytest.mark.parametrize("unread", [False, True])
def test_pod_that_cannot_be_ranked_is_reported(tmp_path: Path, *, unread: bool) -> None:
    node = SharedNode(tmp_path, rmids=4, priority=RULES)
    first, second = node.start("gold"), node.start("silver")
    context, report = node.context(), Report()
    containers = observe(context).containers
    for pod in (first, second):
        record = context.ledger.read_pod(pod.key) or {}
        del record["claim"]
        context.ledger.write_pod(pod.key, record)
    hold = context.monitor.hold

    def refuse(key: str, patience: float | None = None) -> LockedKey:
        if key == first.key:
            raise LedgerError("the disk is gone")
        return hold(key, patience)

    context.monitor.hold = refuse  # type: ignore[method-assign]
    turns.refresh(context, [] if unread else containers, report)
    assert list(report.events["failed"]) == [first.key]
    index = [claim.key for claim in holders(context.ledger)]
    assert index == [first.key] if unread else sorted(index) == sorted([first.key, second.key])
