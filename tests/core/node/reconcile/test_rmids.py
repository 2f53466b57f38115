"""RMIDs that run out: dead pods release theirs, unneeded groups go, others wait or take turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from conftest import always
from hosts.cluster import NOW, Cluster, pod_number
from hosts.shared_node import RULES, SharedNode

from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.reconcile import turns
from resctrl_hooks.core.node.reconcile.discovery import observe
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.sharing.claims import holders

HOUSES = ("lab",)


if TYPE_CHECKING:
    from pathlib import Path

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


if TYPE_CHECKING:
    from pathlib import Path

    from hosts.shared_node import Pod


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


@pytest.mark.parametrize("seconds, freed", [(-1, 1), (0, 0), (59, 0), (60, 1)])
def test_group_reserved_for_a_further_container_stays_for_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, freed: int
) -> None:
    node, pod, _ = full_node(tmp_path)
    with node.context().monitor.hold(pod.key) as locked:
        locked.record["reserved"] = {"silver": 1000.0}
        locked.save()
    now = "resctrl_hooks.core.node.reconcile.unneeded.time.clock_gettime"
    monkeypatch.setattr(now, lambda _clock: 1000.0 + seconds)
    assert node.reconcile().number("freed") == freed


if TYPE_CHECKING:
    from pathlib import Path

    from resctrl_hooks.core.node.resctrl.locked_key import LockedKey

EVERY_PASS: dict[str, Any] = {"share": {"interval": 0.0001, "atLeast": 0.0}}


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
