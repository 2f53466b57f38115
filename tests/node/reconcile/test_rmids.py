"""Reconcile where RMIDs run out: dead pods release theirs, others wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from node.reconcile.cluster import NOW, Cluster, pod_number
from resctrl_hooks.node.reconcile.report import Options

if TYPE_CHECKING:
    from pathlib import Path


def test_sixty_finished_pods_hold_no_rmid(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, rmids=12)
    for number in range(60):
        _, pid = cluster.start(number, pod_number(number))
        assert cluster.groups_of(pid) == {("", pod_number(number))}, "RMIDs ran out"
        cluster.kernel.end(pid)  # the Job has ended; its container is not deleted, so there is no poststop
        cluster.end_pod(pod_number(number))
        cluster.kernel.now += 2
        if number % 10 == 9:
            assert cluster.reconcile().ok  # the timer
    assert cluster.kernel.groups() == set()


def test_shortage_makes_hook_release_dead_pods(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, rmids=4)
    for number in range(3):
        _, pid = cluster.start(number, pod_number(number))
        cluster.kernel.end(pid)
        cluster.end_pod(pod_number(number))
    _, pid = cluster.start(9, pod_number(9))
    assert cluster.kernel.groups() == set(), "the dead pods' groups are gone, their RMIDs in limbo"
    assert (cluster.host.state / "waiting" / pod_number(9)).exists()
    cluster.kernel.now += 2
    assert cluster.reconcile().ok
    assert cluster.groups_of(pid) == {("", pod_number(9))}


def test_pod_without_rmid_waits_and_gets_one(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, rmids=2)
    first, one = cluster.start(1, pod_number(1))
    _, two = cluster.start(2, pod_number(2))
    assert cluster.groups_of(two) == {("", "")}
    assert (cluster.host.state / "wake").exists()
    report = cluster.reconcile()
    assert not report.ok
    assert list(report.waiting) == [pod_number(2)]
    cluster.kernel.end(one)
    cluster.poststop(first)
    cluster.end_pod(pod_number(1))
    assert list(cluster.reconcile().waiting) == [pod_number(2)], "the freed RMID is in limbo"
    cluster.kernel.now += 2
    assert cluster.reconcile().ok
    assert cluster.groups_of(two) == {("", pod_number(2))}
    assert not (cluster.host.state / "waiting" / pod_number(2)).exists()


@pytest.mark.parametrize("options", [Options(), NOW], ids=["waits", "does-not-wait"])
def test_rmid_in_limbo_is_waited_for_if_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Options
) -> None:
    cluster = Cluster(tmp_path, rmids=2)
    first, one = cluster.start(1, pod_number(1))
    _, two = cluster.start(2, pod_number(2))
    cluster.kernel.end(one)
    cluster.poststop(first)
    cluster.end_pod(pod_number(1))
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        cluster.kernel.now += 1

    monkeypatch.setattr("resctrl_hooks.node.reconcile.reconcile.time.sleep", nap)
    report = cluster.reconcile(options)
    assert report.ok is options.wait
    assert cluster.groups_of(two) == {("", pod_number(2) if options.wait else "")}
    assert bool(naps) is options.wait


def test_reconcile_does_not_wait_for_rmids_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path, rmids=2)
    cluster.start(1, pod_number(1))
    cluster.start(2, pod_number(2))
    monkeypatch.setattr("resctrl_hooks.node.reconcile.reconcile.time.sleep", pytest.fail)
    assert list(cluster.reconcile(Options()).waiting) == [pod_number(2)]


def test_wait_for_limbo_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path, rmids=2)
    first, one = cluster.start(1, pod_number(1))
    cluster.start(2, pod_number(2))
    cluster.kernel.end(one)
    cluster.poststop(first)
    cluster.end_pod(pod_number(1))
    now = [0.0]
    monkeypatch.setattr("resctrl_hooks.node.reconcile.reconcile.time.monotonic", lambda: now[0])
    monkeypatch.setattr("resctrl_hooks.node.reconcile.reconcile.time.sleep", lambda _seconds: now.__setitem__(0, 1000))
    assert list(cluster.reconcile(Options()).waiting) == [pod_number(2)]


def test_dead_keys_beyond_time_limit_are_left_to_next_pass(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        _, pid = cluster.start(number + 1, pod_number(number))
        cluster.kernel.end(pid)
        cluster.end_pod(pod_number(number))
    monkeypatch.setattr("resctrl_hooks.node.reconcile.reconcile._MOST_SECONDS_FOR_THE_DEAD", -1)
    assert cluster.reconcile().released == []
    monkeypatch.undo()
    assert len(cluster.reconcile().released) == 3
