"""Groups that container runtimes create are a part of the pod: their tasks stay, and their counts are added."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from hosts.shared_node import Pod, SharedNode

from resctrl_hooks.core.cli import show
from resctrl_hooks.core.inventory.gather import pod_of
from resctrl_hooks.core.node.resctrl.counter_totals import ended
from resctrl_hooks.core.node.watch import move
from resctrl_hooks.core.node.watch.containers import Containers

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)
MINUTE = 60


class Node(SharedNode):
    """A node with containers whose runtime creates a group for them."""

    def counter(self, *groups: str) -> int:
        """Return the sum of the kernel's counters of groups, read beside the product."""
        self.kernel.show_counters()
        folders = [self.host.resctrl / "mon_groups" / group for group in groups]
        return sum(int(path.read_text()) for one in folders for path in one.glob("mon_data/*/mbm_total_bytes"))

    def stop(self, pod: Pod, *, group: bool = True) -> None:
        """End a container while its pod lives on; its runtime first removes the group, then calls poststop."""
        if group:
            self.kernel.rmdir(self.group_of_runtime(pod))
        self.end(pod, pod_lives=True)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, rmids=16, limbo=0)


def test_runtimes_group_is_a_part_of_its_pod_and_keeps_its_tasks(node: Node) -> None:
    pod = node.start("shop", threads=3, own_group=True)
    for _ in range(2):
        assert node.groups_of(pod.pid) == {("", pod.id)}
        assert len(node.kernel.groups()) == 1, "the pod takes no second RMID"
        report = node.reconcile()
        assert (report.ok, report.number("moved"), report.events["waiting"], report.number("repaired")) == (
            True,
            0,
            {},
            0,
        )
    found = pod_of(node.context(), pod.key)
    assert found is not None
    assert (found.state, found.outside) == ("assigned", 0)
    assert [(group.origin, group.name, group.tasks) for group in found.groups] == [("runtime", pod.id, 3)]
    node.kernel.now += 3
    node.kernel.show_counters()
    whole = sum(one.value or 0 for one in node.context().monitor.read(pod.key) if one.counter.name == "mbm_total_bytes")
    assert whole == node.counter(pod.id) > 0


def test_container_that_no_hook_has_seen_is_recorded_and_stays(node: Node) -> None:
    pod = node.start("shop", own_group=True, effects=0)
    assert node.context().ledger.key_of(pod.id) == ""
    node.reconcile()
    assert node.context().ledger.key_of(pod.id) == pod.key
    assert node.groups_of(pod.pid) == {("", pod.id)}
    node.kernel.now += 5
    assert node.totals()[pod.key] == node.counter(pod.id) > 0


@pytest.mark.parametrize("own_first", [False, True])
def test_pods_counts_are_the_sum_of_its_group_and_its_runtimes(node: Node, own_first: bool) -> None:
    first = node.start("shop", own_group=not own_first)
    second = node.start("shop", beside=first, own_group=own_first)
    node.reconcile()
    for _ in range(3):
        node.kernel.now += 7
        own = second if own_first else first
        assert node.totals()[first.key] == node.counter(first.key, own.id) > 0
    assert {node.kernel.where(one.pid)[1] for one in (first, second)} == {first.key, own.id}


def test_counts_stay_after_the_runtime_has_removed_the_group(node: Node) -> None:
    pod = node.start("shop", own_group=True)
    node.start("shop", beside=pod)
    node.kernel.now += 5
    node.kernel.show_counters()
    node.reconcile()  # reads late
    before = node.counter(pod.id)
    own = node.counter(pod.key)
    read_at = node.context().monitor.read_counters().when
    node.stop(pod)
    assert node.totals()[pod.key] == before + own
    assert ended(node.context().monitor, pod.key) == {pod.id: pytest.approx(read_at, abs=0.01)}
    found = pod_of(node.context(), pod.key)
    assert found is not None
    shown = show._details(node.context(), found).counted_until
    assert shown == {pod.id: pytest.approx(time.time(), abs=MINUTE)}


def test_group_that_outlives_its_container_counts_until_it_is_gone(node: Node) -> None:
    pod = node.start("shop", own_group=True)
    node.start("shop", beside=pod)
    node.kernel.now += 5
    counted = node.totals()[pod.key]
    node.stop(pod, group=False)  # the poststop comes first
    assert node.totals()[pod.key] >= counted
    again = node.totals()[pod.key]
    assert node.totals()[pod.key] == again == node.counter(pod.key, pod.id)
    node.kernel.rmdir(node.group_of_runtime(pod))
    assert node.totals()[pod.key] == again


def test_handover_of_the_pods_own_group_does_not_count_the_runtimes_group_twice(tmp_path: Path) -> None:
    rules: dict[str, Any] = {"priority": [{"namespaces": ["gold"], "value": 100}]}
    node = Node(tmp_path, rmids=3, limbo=0, **rules, reserve={"runtimes": 0})
    pod = node.start("batch", own_group=True)
    node.start("batch", beside=pod)
    node.kernel.now += 5
    before = node.totals()[pod.key]
    high = node.start("gold")
    assert node.counted() == [high]
    assert node.totals()[pod.key] == before


def test_restarts_leave_no_trace_in_the_record(node: Node) -> None:
    pod = node.start("shop")
    total = 0
    for _ in range(4):
        own = node.start("shop", beside=pod, own_group=True)
        node.kernel.now += 2
        node.kernel.show_counters()
        node.reconcile()
        total += node.counter(own.id)
        node.stop(own)
    record = node.context().ledger.read_pod(pod.key)
    assert record is not None
    assert len(record["since"]) <= 2
    assert node.totals()[pod.key] == total + node.counter(pod.key)


@pytest.mark.parametrize("take_over", [False, True])
def test_process_that_enters_joins_its_containers_group(tmp_path: Path, take_over: bool) -> None:
    node = Node(tmp_path, rmids=16, limbo=0, takeOver=take_over)
    pod = node.start("shop", own_group=True)
    entered = node.kernel.spawn(pod.cgroup)
    context = node.context()
    assert move.serve(context, Containers(context.ledger), entered).what == move.MOVED
    assert node.kernel.where(entered) == ("", pod.key if take_over else pod.id)
    swept = node.kernel.spawn(pod.cgroup)
    node.reconcile()
    assert node.kernel.where(swept) == ("", pod.key if take_over else pod.id)
    assert len(node.kernel.groups()) == 1 + take_over


def test_container_joins_its_pods_group_once_the_runtimes_is_gone(node: Node) -> None:
    pod = node.start("shop", own_group=True)
    node.kernel.rmdir(node.group_of_runtime(pod))
    node.kernel.show_tasks()
    node.reconcile()
    assert node.groups_of(pod.pid) == {("", pod.key)}


def test_runtime_without_support_leaves_the_container_to_its_pods_group(node: Node) -> None:
    pod = node.start("shop", linux={"intelRdt": {"enableMonitoring": True}})
    assert node.groups_of(pod.pid) == {("", pod.key)}


def test_renamed_group_keeps_counting(node: Node) -> None:
    node.add_classes("gold")
    pod = node.start("shop", own_group=True)
    node.kernel.now += 5
    node.reconcile()
    before = node.totals()[pod.key]
    node.kernel.rename(node.group_of_runtime(pod), node.group_of_runtime(pod, "gold"))
    assert node.totals()[pod.key] == before > 0
    node.reconcile()
    assert node.groups_of(pod.pid) == {("gold", pod.id)}
    assert node.totals()[pod.key] == before


def test_full_node_serves_a_container_that_has_its_runtimes_group(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=3, limbo=0, reserve={"runtimes": 0})
    pod, other = node.start("shop", own_group=True), node.start("shop")
    waits = node.start("shop")
    assert node.waiting() == [waits.key]
    node.reconcile()
    assert node.waiting() == [waits.key]
    assert node.counted() == [other]
    assert node.groups_of(pod.pid) == {("", pod.id)}


def test_node_without_such_containers_reads_no_further_file(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.start("shop")
    node.kernel.mkdir(f"{node.context().monitor.resctrl.root}/mon_groups/pqos-7-0")
    context = node.context()
    monkeypatch.setattr(type(context.ledger), "key_of", lambda *_: pytest.fail("was read"))
    context.monitor.read_all()
