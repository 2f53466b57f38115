"""Groups of living pods that another program removes, as nri-resctrl-mon does with groups that it did not create."""

import json
import time
import uuid
from pathlib import Path

import pytest
from hosts.cluster import POD, Cluster, SimulatedNode
from hosts.faults import failing
from hosts.shared_node import RULES, SharedNode

from resctrl_hooks.core.node.reconcile import bring_in, vanished
from resctrl_hooks.core.node.reconcile.report import Report
from resctrl_hooks.core.node.reconcile.vanished import read_vanished
from resctrl_hooks.core.node.resctrl.filesystem import Resctrl

HOUSES = ("lab",)


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


class Clocks:
    """The wall clock and the time since the boot of reconcile's counts."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jump = self.uptime = 0.0
        for module in (vanished, bring_in):
            monkeypatch.setattr(module, "time", self)

    def time(self) -> float:
        return time.time() + self.uptime + self.jump

    def clock_gettime(self, clock: int) -> float:
        return time.clock_gettime(clock) + self.uptime


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


MONTH = 31 * 86400.0


@pytest.mark.parametrize("jump", [0.0, MONTH, -MONTH], ids=["same clock", "a month later", "a month earlier"])
def test_repeatedly_vanishing_group_is_paused_whatever_the_clock_says(
    cluster: Cluster, clocks: Clocks, jump: float
) -> None:
    _, pid = cluster.start(1)
    assert removed_once_more(cluster).ok
    report = removed_once_more(cluster)
    assert not report.ok
    assert "its group vanished 2 times; created again in" in report.events["failed"][POD]
    assert report.reasons == ["vanished"]
    assert cluster.groups_of(pid) == {("", "")}
    assert not cluster.reconcile().ok
    assert total(cluster) == 2, "it is counted once"
    clocks.jump = jump
    assert not cluster.reconcile().ok, "the pause lasts"
    clocks.uptime = 61.0
    assert cluster.reconcile().ok
    assert cluster.groups_of(pid) == {("", POD)}
    assert "its group vanished 3 times; created again in 120 s" in removed_once_more(cluster).events["failed"][POD]
    assert total(cluster) == 3


def test_each_pause_is_longer(cluster: Cluster, clocks: Clocks) -> None:
    cluster.start(1)
    waits = []
    for _ in range(5):
        removed_once_more(cluster)
        _, last, until = read_vanished(str(cluster.host.state))["pods"][POD]
        waits.append(round(max(until - last, 0)))
        clocks.uptime += waits[-1] + 1
        clocks.jump += MONTH
        cluster.reconcile()
    assert waits == [0, 60, 120, 240, 480]


@pytest.mark.parametrize("jump", [MONTH, -MONTH])
def test_ended_pods_are_forgotten_in_two_hours_whatever_the_clock_says(
    cluster: Cluster, clocks: Clocks, jump: float
) -> None:
    for number in range(3):
        pod = POD[:-1] + str(number)
        container, pid = cluster.start(number + 1, pod)
        removed_once_more(cluster)
        cluster.end(container, pid, pod)
        clocks.jump += jump
        clocks.uptime += 7201.0
    assert len(read_vanished(str(cluster.host.state))["pods"]) == 1


def test_pause_of_version_0_2_lasts(cluster: Cluster, clocks: Clocks) -> None:
    cluster.start(1)
    removed_once_more(cluster)
    removed_once_more(cluster)
    path = cluster.host.state / vanished.VANISHED
    record = json.loads(path.read_text())
    del record["uptime"]
    path.write_text(json.dumps(record))
    assert not cluster.reconcile().ok
    clocks.uptime = 61.0
    assert cluster.reconcile().ok


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
