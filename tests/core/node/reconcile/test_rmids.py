"""Reconcile where RMIDs run out: dead pods release theirs, others wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hosts.cluster import NOW, Cluster, pod_number

from resctrl_hooks.core.node.reconcile.report import Options

if TYPE_CHECKING:
    from pathlib import Path

HOUSES = ("lab",)
FIRST, SECOND = pod_number(1), pod_number(2)


class Full(Cluster):
    """A node with one RMID, which the first of two pods has."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, rmids=2)
        self.first = self.start(1, FIRST)
        _, self.waits = self.start(2, SECOND)

    def end_first(self) -> None:
        self.end(*self.first, FIRST)


@pytest.fixture
def full(tmp_path: Path) -> Full:
    return Full(tmp_path)


def ended_pods(cluster: Cluster) -> None:
    """Start three pods, which end without a poststop."""
    for number in range(3):
        _, pid = cluster.start(number, pod_number(number))
        cluster.kernel.end(pid)
        cluster.end_pod(pod_number(number))


def test_shortage_makes_hook_release_dead_pods(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, rmids=4)
    ended_pods(cluster)
    _, pid = cluster.start(9, pod_number(9))
    assert cluster.kernel.groups() == set(), "the dead pods' groups are gone, their RMIDs in limbo"
    assert cluster.marked() == [pod_number(9)]
    cluster.kernel.now += 2
    assert cluster.reconcile().ok
    assert cluster.groups_of(pid) == {("", pod_number(9))}


def test_pod_without_rmid_waits_and_gets_one(full: Full) -> None:
    assert full.groups_of(full.waits) == {("", "")}
    assert (full.host.state / "wake").exists()
    report = full.reconcile()
    assert (report.ok, list(report.events["waiting"])) == (False, [SECOND])
    full.end_first()
    assert list(full.reconcile().events["waiting"]) == [SECOND], "the freed RMID is in limbo"
    full.kernel.now += 2
    assert full.reconcile().ok
    assert full.groups_of(full.waits) == {("", SECOND)}
    assert full.marked() == []


@pytest.mark.parametrize("options", [Options(), NOW], ids=["waits", "does-not-wait"])
def test_rmid_in_limbo_is_waited_for_if_requested(
    full: Full, monkeypatch: pytest.MonkeyPatch, options: Options
) -> None:
    full.end_first()
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        full.kernel.now += 1

    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.reconcile.time.sleep", nap)
    report = full.reconcile(options)
    assert (report.ok, bool(naps)) == (options.wait, options.wait)
    assert full.groups_of(full.waits) == {("", SECOND if options.wait else "")}


def test_reconcile_does_not_wait_for_rmids_in_use(full: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.reconcile.time.sleep", pytest.fail)
    assert list(full.reconcile(Options()).events["waiting"]) == [SECOND]


def test_wait_for_limbo_is_bounded(full: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    full.end_first()
    now = [0.0]
    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.reconcile.time.monotonic", lambda: now[0])
    monkeypatch.setattr(
        "resctrl_hooks.core.node.reconcile.reconcile.time.sleep", lambda _seconds: now.__setitem__(0, 1000)
    )
    assert list(full.reconcile(Options()).events["waiting"]) == [SECOND]


def test_dead_keys_beyond_time_limit_are_left_to_next_pass(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ended_pods(cluster)
    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.reconcile._MOST_SECONDS_FOR_THE_DEAD", -1)
    assert [*cluster.reconcile().events["released"]] == []
    monkeypatch.undo()
    assert len(cluster.reconcile().events["released"]) == 3
