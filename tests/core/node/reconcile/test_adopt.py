"""Running containers are adopted once and logged once; a group changes its class only if no other container moves."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from hosts.cluster import NOW, POD, Cluster, pod_number
from hosts.simulated_kernel import ROOT_CALLER

from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.reconcile.discovery import observe
from resctrl_hooks.core.node.reconcile.enforce import enforce
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.resctrl.group import SHARED
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.faults import Fail

HOUSES = ("lab",)
OTHER = pod_number(2)
GOLD, SILVER = ("gold", POD), ("silver", POD)


@pytest.fixture
def classes(cluster: Cluster) -> Cluster:
    """With two classes."""
    cluster.add_classes("gold", "silver")
    return cluster


@pytest.fixture
def two(cluster: Cluster) -> Cluster:
    """With a container in each of two pods that no hook has seen."""
    cluster.unseen(1, OTHER)
    cluster.unseen(2, POD)
    return cluster


def change_class(cluster: Cluster, pid: int, name: str) -> None:
    """Move a process to a class, out of its group."""
    model = cluster.kernel.model
    cluster.kernel.model.write_tasks(model.classes.get(name, model.root), f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()


def test_waiting_pod_with_group_waits_no_more(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.context().ledger.mark("waiting", POD)
    report = cluster.reconcile()
    assert (report.ok, [*report.events["adopted"]], cluster.marked()) == (True, [], [])


def with_foreign_thread(classes: Cluster) -> None:
    classes.kernel.spawn(f"/kubepods/pod{POD}/unknown", rdt_class="gold", group=POD)


def with_group_in_new_class(classes: Cluster) -> None:
    classes.kernel.mkdir(f"{classes.host.resctrl}/silver/mon_groups/{POD}")


def with_shared_group(classes: Cluster) -> None:
    with classes.context().monitor.hold(POD) as locked:
        locked.origins["gold"] = SHARED
        locked.save()


def without_old_group(classes: Cluster) -> None:
    classes.kernel.rmdir(f"{classes.host.resctrl}/gold/mon_groups/{POD}")
    classes.kernel.now += 2


@pytest.mark.parametrize(
    "change, groups",
    [
        (with_foreign_thread, {GOLD, SILVER}),  # a rename would change that thread's class
        (with_group_in_new_class, {GOLD, SILVER}),
        (with_shared_group, {GOLD, SILVER}),
        (without_old_group, {SILVER}),
    ],
)
def test_group_that_cannot_follow_its_container_is_not_moved(
    classes: Cluster, change: Callable[[Cluster], None], groups: set[tuple[str, str]]
) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    change_class(classes, pid, "silver")
    change(classes)
    others = {tid: classes.kernel.where(tid) for tid in classes.kernel.threads.starts if tid != pid}
    assert classes.reconcile().ok
    assert classes.kernel.groups() == groups
    assert classes.groups_of(pid) == {SILVER}
    assert {tid: classes.kernel.where(tid) for tid in others} == others
    assert "moved the group of" not in classes.host.log.read_text()


@pytest.mark.parametrize("error", [PermissionError(errno.EPERM, "Linux 6.1"), KeyboardInterrupt()])
def test_class_change_without_or_killed_at_the_rename_leaves_both_groups_recorded(
    classes: Cluster, fail: Fail, error: BaseException
) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    change_class(classes, pid, "silver")
    began = classes.pod_record()["since"]["gold"]
    fail(classes.kernel, "rename", error)
    if isinstance(error, OSError):
        assert classes.reconcile().ok
        assert classes.groups_of(pid) == {SILVER}
        assert set(classes.pod_record()["since"]) == {"gold", "silver"}
    else:
        with pytest.raises(KeyboardInterrupt):
            classes.reconcile()
    record = classes.pod_record()
    assert (record["groups"], record["since"]["gold"]) == ({"gold": "created", "silver": "created"}, began)


def test_group_in_class_of_living_container_stays(classes: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    moved, dead, lives = (classes.start(number, rdt_class="gold")[1] for number in (1, 2, 3))
    classes.kernel.end(dead)
    change_class(classes, moved, "silver")
    change_class(classes, lives, "gold")  # out of its group, which is empty now
    monkeypatch.setattr(LockedKey, "members", lambda locked: sorted(locked._ledger.members(locked.key)))
    context = classes.context()
    found = [one for one in observe(context).containers if one.pid == moved]
    enforce(context, found, NOW, Report())
    assert classes.kernel.groups() == {GOLD, SILVER}
    assert "moved the group of" not in classes.host.log.read_text()


def test_class_change_is_followed_once(classes: Cluster) -> None:
    id_, pid = classes.start(1, rdt_class="gold")
    rmid = classes.kernel.model.classes["gold"].monitored[POD].rmid
    change_class(classes, pid, "silver")
    assert classes.reconcile().ok
    assert not classes.reconcile().changed
    assert classes.groups_of(pid) == {SILVER}
    assert classes.kernel.model.classes["silver"].monitored[POD].rmid == rmid
    log = classes.host.log.read_text()
    assert log.count(f"moved the group of {POD} from class 'gold' to 'silver'") == 1
    assert "was removed" not in log
    record = classes.pod_record()
    assert (record["groups"], list(record["since"])) == ({"silver": "created"}, ["silver"])
    member = classes.context().ledger.read_member(POD, id_) or {}
    assert [step["needs"]["class"] for step in member["steps"]] == ["silver"]


def test_only_living_containers_are_adopted(two: Cluster) -> None:
    context = two.context()
    containers = observe(context).containers
    for order in (containers, containers[::-1]):
        dry = Report(dry_run=True)
        assert enforce(context, order, Options(dry_run=True, live={POD}), dry) == []
        assert [*dry.events["adopted"]] == [f"{2:064x}"]
    assert [*two.reconcile(Options(wait=False, live={POD})).events["adopted"]] == [f"{2:064x}"]
    assert two.kernel.groups() == {("", POD)}


def test_container_ending_meanwhile_is_skipped(cluster: Cluster) -> None:
    cluster.unseen(1)
    context, report = cluster.context(), Report()
    (found,) = observe(context).containers
    found.start += 1  # another process has its pid by now
    assert enforce(context, [found], NOW, report) == []
    assert ([*report.events["adopted"]], report.ok, context.ledger.keys()) == ([], True, [])


def test_failing_container_is_reported_and_next_is_adopted(two: Cluster, fail: Fail) -> None:
    context, report = two.context(), Report()
    containers = sorted(observe(context).containers, key=lambda one: one.id)
    fail(context.monitor, "hold", LedgerError("the disk is gone"), when=lambda key, *_: key == OTHER)
    assert enforce(context, containers, NOW, report) == []
    assert ([*report.events["adopted"]], list(report.events["failed"])) == ([f"{2:064x}"], [f"{1:064x}"])


def test_record_without_names_gets_those_of_living_member(cluster: Cluster) -> None:
    """As a release wrote it that took a sandbox for a Podman container."""
    cluster.start(1)
    with cluster.context().monitor.hold(POD) as locked:
        locked.record.update({"namespace": "", "pod": ""})
        locked.save()
    assert cluster.reconcile().number("repaired") == 1
    assert (cluster.pod_record().get("namespace"), cluster.pod_record().get("pod")) == ("shop", "web-0")
    assert cluster.reconcile().number("repaired") == 0


def test_container_with_too_many_cgroups_is_reported_in_each_pass(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_, _ = cluster.start(1)
    cluster.start(2)
    own = f"/kubepods/pod{POD}/crio-{id_}"
    late = [cluster.kernel.spawn(f"{own}/{number}") for number in range(9)]
    monkeypatch.setattr("resctrl_hooks.core.node.host.cgroup_tasks.MOST_CGROUPS", 4)
    assert cluster.reconcile().ok
    assert sum(cluster.groups_of(pid) == {("", POD)} for pid in late) == 3, "with its own cgroup four are searched"
    (told,) = [line for line in cluster.host.log.read_text().splitlines() if "are not monitored" in line]
    assert f"shop/web-0/c0 (cri-o, {POD})" in told
    assert id_ in told
