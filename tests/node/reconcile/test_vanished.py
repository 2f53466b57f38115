"""Groups of living pods that another program removes, as nri-resctrl-mon does with groups that it did not create."""

import time
import uuid
from pathlib import Path

import pytest
from hosts.cluster import POD, Cluster, SimulatedNode
from hosts.faults import failing
from hosts.shared_node import RULES, SharedNode

from resctrl_hooks.node.reconcile import vanished
from resctrl_hooks.node.reconcile.report import Report
from resctrl_hooks.node.reconcile.vanished import read_vanished
from resctrl_hooks.node.resctrl.filesystem import Resctrl


def remove_like_resctrl_mon(cluster: Cluster) -> list[str]:
    """Remove every group of the root class with a UUID as its name; resctrl-mon tracks none of ours."""
    removed = []
    folder = f"{cluster.host.resctrl}/mon_groups"
    for name in cluster.kernel.listdir(folder):
        try:
            uuid.UUID(name)
        except ValueError:
            continue
        cluster.kernel.rmdir(f"{folder}/{name}")
        removed.append(name)
    return removed


def removed_once_more(cluster: Cluster) -> Report:
    """Let the other program remove all groups, and return the report of the next pass."""
    remove_like_resctrl_mon(cluster)
    return cluster.reconcile()


def total(cluster: SimulatedNode) -> int:
    return read_vanished(str(cluster.host.state))["total"]


def test_vanished_group_is_counted_logged_and_recreated(cluster: Cluster) -> None:
    _, pid = cluster.start(1)
    (cluster.host.state / vanished.VANISHED).write_bytes(b"\xff[")  # a damaged count starts again
    assert remove_like_resctrl_mon(cluster) == [POD]
    for _ in range(2):
        assert cluster.reconcile().ok
        assert total(cluster) == 1
    assert cluster.groups_of(pid) == {("", POD)}
    assert f"group of {POD} vanished while its tasks live" in cluster.host.log.read_text()


def test_killed_reconcile_that_recreates_a_group_counts_once(cluster: Cluster) -> None:
    _, pid = cluster.start(1)
    remove_like_resctrl_mon(cluster)
    with failing(Resctrl, "create", KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        cluster.reconcile()
    assert cluster.reconcile().ok
    assert (cluster.groups_of(pid), total(cluster)) == ({("", POD)}, 1)
    removed_once_more(cluster)
    assert total(cluster) == 2


def test_pod_with_groups_in_two_classes_counts_once(cluster: Cluster) -> None:
    cluster.add_classes("gold")
    _, first = cluster.start(1)
    _, second = cluster.start(2, rdt_class="gold")
    for path in (f"mon_groups/{POD}", f"gold/mon_groups/{POD}"):
        cluster.kernel.rmdir(f"{cluster.host.resctrl}/{path}")
    assert cluster.reconcile().ok
    assert (cluster.groups_of(first), cluster.groups_of(second)) == ({("", POD)}, {("gold", POD)})
    assert total(cluster) == 1


@pytest.mark.parametrize("jump", [61, 86400.0, -86400.0], ids=["the pause is over", "a day later", "a day earlier"])
def test_repeatedly_vanishing_group_is_paused_and_reported(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    _, pid = cluster.start(1)
    assert removed_once_more(cluster).ok
    report = removed_once_more(cluster)
    assert not report.ok
    assert "its group vanished 2 times; created again in" in report.failures[POD]
    assert report.reasons == ["vanished"]
    assert cluster.groups_of(pid) == {("", "")}
    assert not cluster.reconcile().ok
    assert total(cluster) == 2, "it is counted once"
    clock = time.time
    monkeypatch.setattr("time.time", lambda: clock() + jump)
    assert cluster.reconcile().ok
    assert cluster.groups_of(pid) == {("", POD)}
    assert removed_once_more(cluster).ok is (jump != 61), "the first one by the new clock"


def test_each_pause_is_longer(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start(1)
    clock = [time.time()]
    monkeypatch.setattr("time.time", lambda: clock[0])
    waits = []
    for _ in range(5):
        removed_once_more(cluster)
        _, last, until = read_vanished(str(cluster.host.state))["pods"][POD]
        waits.append(round(max(until - last, 0)))
        clock[0] = max(until, last) + 1
        cluster.reconcile()
    assert waits == [0, 60, 120, 240, 480]


def test_waiting_pod_has_not_lost_a_group(cluster: Cluster) -> None:
    cluster.unseen(1)
    removed_once_more(cluster)
    assert total(cluster) == 0


def test_pod_that_waits_for_an_rmid_after_its_group_vanished_is_counted_once(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, priority=RULES, reserve={"rmids": 1, "above": 50})
    pod = node.start("batch")
    node.kernel.rmdir(f"{node.host.resctrl}/mon_groups/{pod.key}")
    node.kernel.now += 5  # its RMID leaves limbo
    node.kernel.mkdir(f"{node.host.resctrl}/mon_groups/foreign")
    for _ in range(3):
        node.reconcile()
        assert node.waiting() == [pod.key]
    assert total(node) == 1


def test_groups_with_a_prefix_are_left_alone(cluster: Cluster) -> None:
    cluster.configure(groupPrefix="rh-")
    _, pid = cluster.start(1)
    assert remove_like_resctrl_mon(cluster) == []
    assert cluster.groups_of(pid) == {("", f"rh-{POD}")}
