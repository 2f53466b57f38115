"""Groups of living pods that another program removes, as nri-resctrl-mon does with groups that it did not create."""

import time
import uuid
from pathlib import Path

import pytest
from hosts.faults import failing
from hosts.shared_node import RULES, SharedNode

from node.reconcile.cluster import POD, Cluster
from resctrl_hooks.node.reconcile import vanished
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


def test_vanished_group_is_counted_logged_and_recreated(cluster: Cluster) -> None:
    _, pid = cluster.start(1)
    assert remove_like_resctrl_mon(cluster) == [POD]
    report = cluster.reconcile()
    assert report.ok
    assert cluster.groups_of(pid) == {("", POD)}
    assert read_vanished(str(cluster.host.state))["total"] == 1
    assert f"group of {POD} vanished while its tasks live" in cluster.host.log.read_text()
    assert cluster.reconcile().ok
    assert read_vanished(str(cluster.host.state))["total"] == 1


def test_killed_reconcile_that_recreates_a_group_counts_once(cluster: Cluster) -> None:
    _, pid = cluster.start(1)
    remove_like_resctrl_mon(cluster)
    with failing(Resctrl, "create", KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        cluster.reconcile()
    assert cluster.reconcile().ok
    assert cluster.groups_of(pid) == {("", POD)}
    assert read_vanished(str(cluster.host.state))["total"] == 1
    remove_like_resctrl_mon(cluster)
    cluster.reconcile()
    assert read_vanished(str(cluster.host.state))["total"] == 2


def test_pod_with_groups_in_two_classes_counts_once(cluster: Cluster) -> None:
    cluster.kernel.mkdir(f"{cluster.host.resctrl}/gold")
    _, first = cluster.start(1)
    _, second = cluster.start(2, rdt_class="gold")
    for path in (f"mon_groups/{POD}", f"gold/mon_groups/{POD}"):
        cluster.kernel.rmdir(f"{cluster.host.resctrl}/{path}")
    assert cluster.reconcile().ok
    assert (cluster.groups_of(first), cluster.groups_of(second)) == ({("", POD)}, {("gold", POD)})
    assert read_vanished(str(cluster.host.state))["total"] == 1


def test_repeatedly_vanishing_group_is_paused_and_reported(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    _, pid = cluster.start(1)
    for _ in range(2):
        remove_like_resctrl_mon(cluster)
        report = cluster.reconcile()
    assert not report.ok
    assert "its group vanished 2 times; created again in" in report.failures[POD]
    assert report.reasons == ["vanished"]
    assert cluster.groups_of(pid) == {("", "")}
    assert not cluster.reconcile().ok
    assert read_vanished(str(cluster.host.state))["total"] == 2, "it is counted once"
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 61)
    assert cluster.reconcile().ok
    assert cluster.groups_of(pid) == {("", POD)}


def test_each_pause_is_longer(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start(1)
    clock = [time.time()]
    monkeypatch.setattr("time.time", lambda: clock[0])
    waits = []
    for _ in range(5):
        remove_like_resctrl_mon(cluster)
        cluster.reconcile()
        _, last, until = read_vanished(str(cluster.host.state))["pods"][POD]
        waits.append(round(max(until - last, 0)))
        clock[0] = max(until, last) + 1
        cluster.reconcile()
    assert waits == [0, 60, 120, 240, 480]


def test_waiting_pod_has_not_lost_a_group(cluster: Cluster) -> None:
    id_, pid = cluster.spawn(1)
    cluster.appear(id_, pid)
    remove_like_resctrl_mon(cluster)
    cluster.reconcile()
    assert read_vanished(str(cluster.host.state))["total"] == 0


def test_pod_that_waits_for_an_rmid_after_its_group_vanished_is_counted_once(tmp_path: Path) -> None:
    node = SharedNode(tmp_path, priority=RULES, reserve={"rmids": 1, "above": 50})
    pod = node.start("batch")
    node.kernel.rmdir(f"{node.host.resctrl}/mon_groups/{pod.key}")
    node.kernel.now += 5  # its RMID leaves limbo
    node.kernel.mkdir(f"{node.host.resctrl}/mon_groups/foreign")
    for _ in range(3):
        node.reconcile()
        assert node.waiting() == [pod.key]
    assert read_vanished(str(node.host.state))["total"] == 1


@pytest.mark.parametrize("jump", [86400.0, -86400.0])
def test_clock_that_jumps_a_day_delays_no_group_by_a_day(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    _, pid = cluster.start(1)
    for _ in range(2):
        remove_like_resctrl_mon(cluster)
        cluster.reconcile()
    assert cluster.groups_of(pid) == {("", "")}, "its group is created again in 60 s"
    clock = time.time
    monkeypatch.setattr("time.time", lambda: clock() + jump)
    assert cluster.reconcile().ok
    assert cluster.groups_of(pid) == {("", POD)}
    remove_like_resctrl_mon(cluster)
    assert cluster.reconcile().ok, "the first one by the new clock"
    assert cluster.groups_of(pid) == {("", POD)}


def test_groups_with_a_prefix_are_left_alone(cluster: Cluster) -> None:
    cluster.host.configure(groupPrefix="rh-", runtimeRoots={"crun": str(cluster.root / "crun")})
    _, pid = cluster.start(1)
    assert remove_like_resctrl_mon(cluster) == []
    assert cluster.groups_of(pid) == {("", f"rh-{POD}")}


def test_damaged_count_starts_again(cluster: Cluster) -> None:
    cluster.start(1)
    (cluster.host.state / vanished.VANISHED).write_bytes(b"\xff[")
    remove_like_resctrl_mon(cluster)
    assert cluster.reconcile().ok
    assert read_vanished(str(cluster.host.state))["total"] == 1
