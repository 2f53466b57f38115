"""Container runtimes come first: RMIDs stay free for the groups that they create."""

from __future__ import annotations

import errno
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from hosts.shared_node import RULES, Pod, SharedNode

from resctrl_hooks.node.ledger import RUNTIMES
from resctrl_hooks.node.sharing import runtimes
from resctrl_hooks.node.sharing.decision import may_take

if TYPE_CHECKING:
    from pathlib import Path

OWN_GROUP = {"linux": {"intelRdt": {"enableMonitoring": True}}}
OWN_CLASS = {"linux": {"intelRdt": {"l3CacheSchema": "L3:0=f"}}}


class Node(SharedNode):
    """A node whose runtime creates a group for a container before its hook, as runc and crun do."""

    def start_own(self) -> Pod:
        """Start a container with a group of its runtime.

        Raises:
            OSError: the runtime cannot create it, so the container does not start.
        """
        place = f"{self.context().monitor.resctrl.root}/mon_groups/{len(self.pods):064x}"
        self.kernel.mkdir(place)
        return self.start("runtime", linux=OWN_GROUP["linux"])

    def end_own(self, pod: Pod) -> None:
        self.end(pod)
        self.kernel.rmdir(f"{self.context().monitor.resctrl.root}/mon_groups/{pod.id}")

    def pods_of_ours(self) -> list[Pod]:
        return [pod for pod in self.counted() if pod.namespace != "runtime"]


def test_no_pod_takes_the_rmid_that_is_kept_for_runtimes(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=6, limbo=0)
    node.start_own()
    node.reconcile()
    for _ in range(5):
        node.start("shop")
    assert len(node.pods_of_ours()) == 2  # of 6: the root class, the runtime's group, and two that stay free
    node.start_own()
    assert "runtimes" in node.host.log.read_text()


def test_latest_pod_gives_way_if_a_runtime_takes_the_last_rmid(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=5, limbo=0)
    pods = [node.start("shop") for _ in range(3)]
    node.start_own()  # the last one
    with pytest.raises(OSError, match="space") as refused:
        node.start_own()
    assert refused.value.errno == errno.ENOSPC
    assert (node.host.state / "wake").exists()
    node.reconcile()
    assert node.pods_of_ours() == pods[:1]
    assert node.waiting() == [pods[1].key, pods[2].key]
    node.start_own()
    node.reconcile()
    node.start_own()


def test_pod_that_waits_for_runtimes_is_known(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=4, limbo=0)
    node.start_own()
    node.reconcile()
    pod = node.start("shop")
    assert node.waiting() == [pod.key]
    assert {one.state for one in node.context().monitor.read(pod.key)} == {"Waiting"}


def test_container_with_a_class_and_a_group_reserves_both_for_the_next_one(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=16, limbo=0)
    root, id_ = node.context().monitor.resctrl.root, f"{0:064x}"
    node.kernel.mkdir(f"{root}/{id_}")
    node.kernel.mkdir(f"{root}/{id_}/mon_groups/{id_}")
    node.start("runtime", linux=OWN_GROUP["linux"], rdt_class=id_)
    node.reconcile()
    assert runtimes.reserved(node.context()) == 4  # two while those of the last one are in limbo


@pytest.mark.parametrize("number", [1, 3])
def test_configured_number_stays_free(tmp_path: Path, number: int) -> None:
    node = Node(tmp_path, rmids=8, limbo=0, reserve={"runtimes": number})
    for _ in range(9):
        node.start("shop")
    assert len(node.pods_of_ours()) == 7 - number
    for _ in range(number):
        node.start_own()


def test_lowest_priority_gives_way(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=5, limbo=0, priority=RULES)
    low, high = node.start("batch"), node.start("gold")
    node.start_own()
    node.reconcile()
    assert node.pods_of_ours() == [high]
    assert node.waiting() == [low.key]
    assert node.reconcile().shared
    assert node.pods_of_ours() == [high]


def test_counts_of_a_pod_that_gives_way_are_kept(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=3, limbo=0)
    pod = node.start("shop")
    node.kernel.now += 10
    before = node.totals()[pod.key]
    node.start_own()
    node.reconcile()
    assert node.pods_of_ours() == []
    assert node.totals()[pod.key] == before > 0


def test_default_is_the_most_groups_of_the_last_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = 500_000
    monkeypatch.setattr("time.time", lambda: hour * 3600.0)
    node = Node(tmp_path, rmids=12, limbo=0)
    own = [node.start_own() for _ in range(3)]
    node.reconcile()
    assert runtimes.reserved(node.context()) == 3
    for pod in own:
        node.end_own(pod)
    node.reconcile()
    assert runtimes.reserved(node.context()) == 3
    hour += 24
    node.reconcile()
    assert runtimes.reserved(node.context()) == 0
    assert not (node.host.state / RUNTIMES).exists()


def test_default_is_at_most_a_quarter_of_the_rmids_whatever_pods_start(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=16, limbo=0)
    for pod in [node.start_own() for _ in range(12)]:
        node.reconcile()
        node.end_own(pod)
    node.reconcile()
    assert max(runtimes.read_peaks(node.context().ledger).values()) == 12
    for _ in range(15):
        node.start("shop")
    assert len(node.pods_of_ours()) == 11  # of 16: the root class, and four that stay free


def test_container_in_a_class_keeps_one_rmid_free(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=8)
    node.kernel.mkdir(f"{node.context().monitor.resctrl.root}/gold")
    node.start("shop", rdt_class="gold", linux={"intelRdt": {"closID": "gold"}})
    node.reconcile()
    assert runtimes.reserved(node.context()) == 1


def test_node_without_intel_rdt_reads_nothing_more(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=8)
    node.start("shop")
    node.reconcile()
    assert not (node.host.state / RUNTIMES).exists()
    assert runtimes.reserved(node.context()) == 0


@pytest.mark.parametrize("text", ["", "[", '{"hours": []}'])
def test_damaged_record_reserves_for_one_container(tmp_path: Path, text: str) -> None:
    node = Node(tmp_path)
    node.start("shop")
    (node.host.state / RUNTIMES).write_text(text)
    assert runtimes.reserved(node.context()) == 2
    node.reconcile()
    assert runtimes.reserved(node.context()) == 2
    assert json.loads((node.host.state / RUNTIMES).read_text())["hours"]


@pytest.mark.parametrize("text", ['{"hours": {"now": 1}}', '{"hours": {"9999999": 1}}', '{"hours": {"1": 1}}'])
def test_hours_that_are_none_of_these_days_reserve_nothing(tmp_path: Path, text: str) -> None:
    node = Node(tmp_path)
    node.start("shop")
    (node.host.state / RUNTIMES).write_text(text)
    assert runtimes.reserved(node.context()) == 0
    node.reconcile()
    assert len(node.counted()) == 1


def test_reserve_outlives_a_clock_that_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, rmids=16)
    now = time.time()
    runtimes.note(node.context().ledger, 3)
    monkeypatch.setattr(time, "time", lambda: now - 3 * 3600)
    assert runtimes.reserved(node.context()) == 3


def test_unknown_number_of_rmids_reserves_and_frees_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, rmids=8)
    node.start("shop")
    monkeypatch.setattr("resctrl_hooks.node.resctrl.rmids.total_rmids", lambda _: 0)
    monkeypatch.setattr(runtimes, "reserved", lambda _: 1)
    monkeypatch.setattr("resctrl_hooks.node.reconcile.runtimes.reserved", lambda _: 1)
    node.reconcile()
    assert len(node.counted()) == 1
    assert may_take(None, 0, reserved=1, above=0, runtimes=1)


def test_reserves_add_up() -> None:
    options: dict[str, Any] = {"reserved": 2, "above": 0, "runtimes": 1}
    assert [may_take(free, 0, **options) for free in (3, 4)] == [False, True]
    assert [may_take(free, 1, **options) for free in (1, 2)] == [False, True]


def test_record_is_json(tmp_path: Path) -> None:
    node = Node(tmp_path, rmids=8)
    node.start_own()
    node.reconcile()
    assert [*json.loads((node.host.state / RUNTIMES).read_text())["hours"].values()] == [2]
