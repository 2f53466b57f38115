"""Groups that no container of their pod needs any more: their RMIDs go to waiting pods, and their counts stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hosts.shared_node import SharedNode

from resctrl_hooks.core.node.resctrl.group import SHARED

if TYPE_CHECKING:
    from pathlib import Path

    from hosts.shared_node import Pod

HOUSES = ("lab",)


def full_node(root: Path, *, waiting: bool = True) -> tuple[SharedNode, Pod, Pod | None]:
    """Return a node without a free RMID, with a pod whose init container in class silver has ended, and a waiting pod.

    The root, gold and silver have an RMID each, as have the pod's two groups.
    """
    node = SharedNode(root, rmids=5)
    node.add_classes("gold", "silver")
    pod = node.start(rdt_class="gold")
    init = node.start(rdt_class="silver", beside=pod)
    node.kernel.now += 10
    node.totals()
    node.end(init, pod_lives=True)
    other = node.start(rdt_class="gold") if waiting else None
    return node, pod, other


def test_unneeded_rmid_goes_to_a_waiting_pod_and_counts_stay(tmp_path: Path) -> None:
    node, pod, other = full_node(tmp_path)
    assert other is not None
    assert node.marked() == [other.key]
    before = node.totals()[pod.key]
    assert before > 0
    assert node.reconcile().number("freed") == 1
    assert node.kernel.groups() == {("gold", pod.key)}
    assert node.totals()[pod.key] == before
    node.kernel.now += 10
    node.reconcile()
    assert node.kernel.groups() == {("gold", pod.key), ("gold", other.key)}
    assert node.marked() == []
    assert node.totals()[pod.key] > before
    again = node.start(rdt_class="silver", beside=pod)
    assert node.groups_of(again.pid) == {("silver", "")}
    assert node.totals()[pod.key] > before


def test_unneeded_group_stays_without_a_waiting_pod(tmp_path: Path) -> None:
    node, pod, _ = full_node(tmp_path, waiting=False)
    assert node.reconcile().number("freed") == 0
    assert node.kernel.groups() == {("gold", pod.key), ("silver", pod.key)}


def test_group_of_a_class_with_tasks_stays(tmp_path: Path) -> None:
    node, pod, _ = full_node(tmp_path)
    node.kernel.spawn(f"{pod.cgroup}/sidecar", 1, "silver", pod.key)
    assert node.reconcile().number("freed") == 0
    assert ("silver", pod.key) in node.kernel.groups()


def test_shared_group_stays(tmp_path: Path) -> None:
    node, pod, _ = full_node(tmp_path)
    record = node.pod_record(pod.key)
    record["groups"]["silver"] = SHARED
    node.context().ledger.write_pod(pod.key, record)
    assert node.reconcile().number("freed") == 0
    assert ("silver", pod.key) in node.kernel.groups()


def test_group_of_a_container_that_is_about_to_start_stays(tmp_path: Path) -> None:
    node, pod, _ = full_node(tmp_path)
    context = node.context()
    with context.monitor.hold(pod.key) as locked:
        step = {"feature": "monitoring", "action": "join", "needs": {"class": "silver"}}
        locked.add_member("f" * 64, {"steps": [step]})
    assert node.reconcile().number("freed") == 0
    assert ("silver", pod.key) in node.kernel.groups()


@pytest.mark.parametrize("members", [{}, {"steps": []}])
def test_groups_of_a_programs_own_members_stay(tmp_path: Path, members: dict[str, object]) -> None:
    node, pod, _ = full_node(tmp_path)
    with node.context().monitor.hold(pod.key) as locked:
        locked.add_member("step-1", members)
    assert node.reconcile().number("freed") == bool(members)


def test_pod_without_containers_keeps_its_groups(tmp_path: Path) -> None:
    node, pod, _ = full_node(tmp_path)
    node.end(pod, pod_lives=True)
    node.reconcile()
    assert {("gold", pod.key), ("silver", pod.key)} <= node.kernel.groups()


def test_group_reserved_for_a_further_container_stays_for_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, pod, _ = full_node(tmp_path)
    with node.context().monitor.hold(pod.key) as locked:
        locked.record["reserved"] = {"silver": 1000.0}
        locked.save()
    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.unneeded.time.clock_gettime", lambda _clock: 1059.0)
    assert node.reconcile().number("freed") == 0
    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.unneeded.time.clock_gettime", lambda _clock: 1061.0)
    assert node.reconcile().number("freed") == 1
