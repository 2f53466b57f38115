"""Running containers are adopted once and logged once; a group changes its class only if no other container moves."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from hosts.shared_node import RULES
from hosts.simulated_kernel import ROOT_CALLER

from node.reconcile.cluster import NOW, POD, Cluster
from resctrl_hooks.node.errors import LedgerError, NoRMIDsError
from resctrl_hooks.node.reconcile.discovery import observe
from resctrl_hooks.node.reconcile.enforce import enforce
from resctrl_hooks.node.reconcile.reconcile import reconcile
from resctrl_hooks.node.reconcile.report import Options, Report
from resctrl_hooks.node.reconcile.tasks import Gathering
from resctrl_hooks.node.resctrl.filesystem import Resctrl
from resctrl_hooks.node.resctrl.locked_key import LockedKey

if TYPE_CHECKING:
    from pathlib import Path

    from hosts.faults import Fail


OTHER = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c02"


@pytest.fixture
def classes(cluster: Cluster) -> Cluster:
    """With two classes."""
    for name in ("gold", "silver"):
        cluster.kernel.mkdir(f"{cluster.host.resctrl}/{name}")
    return cluster


def change_class(cluster: Cluster, pid: int, name: str) -> None:
    """Move a process to a class, out of its group."""
    model = cluster.kernel.model
    cluster.kernel.model.write_tasks(model.classes.get(name, model.root), f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()


def test_unmounted_resctrl_is_reported_once(cluster: Cluster) -> None:
    for number, pod in enumerate((POD, OTHER), 1):
        cluster.appear(*cluster.spawn(number, pod), pod)
    shutil.rmtree(cluster.host.resctrl)
    cluster.host.resctrl.mkdir()
    report = reconcile(cluster.host.context(), NOW)  # its resctrl is the plain folder
    assert not report.ok
    assert len(report.problems) == 1
    assert len(report.reasons) == 1
    assert (report.failures, report.adopted, report.waiting) == ({}, [], {})


def test_excluded_container_is_adopted_after_a_change_of_the_settings_unless_it_is_recorded(classes: Cluster) -> None:
    roots = {"crun": str(classes.root / "crun")}
    default = {"enabled": True, "defaults": {"namespaces": {"shop": "gold"}}}
    classes.host.configure(runtimeRoots=roots, namespaces=["db"])
    _, bare = classes.start(1, POD)
    classes.host.configure(runtimeRoots=roots, namespaces=["db"], rdt=default)
    _, recorded = classes.start(2, OTHER)
    classes.host.configure(runtimeRoots=roots, rdt=default)
    classes.reconcile()
    assert classes.groups_of(bare) == {("gold", POD)}
    assert classes.groups_of(recorded) == {("gold", "")}


def test_dry_run_counts_outside_threads_only(cluster: Cluster) -> None:
    first, pid = cluster.spawn(1, threads=3)
    cluster.appear(first, pid)
    cluster.start(2, OTHER)
    report = cluster.reconcile(Options(wait=False, dry_run=True))
    assert (report.adopted, report.moved) == ([first], 3)


def test_waiting_pod_with_group_waits_no_more(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.context().ledger.mark("waiting", POD)
    report = cluster.reconcile()
    assert report.ok
    assert cluster.context().ledger.marked("waiting") == []
    assert report.adopted == []


def test_correctly_grouped_container_is_left_alone(cluster: Cluster, fail: Fail) -> None:
    cluster.start(1)
    assert cluster.reconcile().ok
    fail("resctrl_hooks.node.reconcile.bring_in", "join", AssertionError("it locks the key and writes for nothing"))
    assert cluster.reconcile().ok


def test_moved_threads_are_reported_with_numbers_and_names(cluster: Cluster) -> None:
    id_, pid = cluster.spawn(1, threads=2)
    cluster.appear(id_, pid)
    assert cluster.reconcile().ok
    said = f"moved 2 threads of container {id_} into its monitoring group"
    assert cluster.host.log.read_text().count(said) == 1
    assert cluster.reconcile().ok
    assert cluster.host.log.read_text().count("threads of") == 1, "the second time there is nothing to say"


def test_root_class_is_never_reported_as_removed(classes: Cluster) -> None:
    _, pid = classes.start(1)
    change_class(classes, pid, "gold")
    assert classes.reconcile().ok
    assert classes.kernel.groups() == {("gold", POD)}
    assert "was removed" not in classes.host.log.read_text()


def test_group_with_foreign_thread_stays(classes: Cluster) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    stranger = classes.kernel.spawn(f"/kubepods/pod{POD}/unknown", rdt_class="gold", group=POD)
    change_class(classes, pid, "silver")
    assert classes.reconcile().ok
    assert classes.kernel.groups() == {("gold", POD), ("silver", POD)}
    assert classes.groups_of(stranger) == {("gold", POD)}, "a rename would have changed its class"
    assert "moved the group of" not in classes.host.log.read_text()
    assert classes.groups_of(pid) == {("silver", POD)}


def test_existing_group_in_new_class_is_joined(classes: Cluster) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    classes.kernel.mkdir(f"{classes.host.resctrl}/silver/mon_groups/{POD}")
    change_class(classes, pid, "silver")
    assert classes.reconcile().ok
    assert classes.kernel.groups() == {("gold", POD), ("silver", POD)}
    assert classes.groups_of(pid) == {("silver", POD)}


def test_missing_old_group_is_replaced_by_new_one(classes: Cluster) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    change_class(classes, pid, "silver")
    classes.kernel.rmdir(f"{classes.host.resctrl}/gold/mon_groups/{POD}")
    classes.kernel.now += 2
    assert classes.reconcile().ok
    assert classes.kernel.groups() == {("silver", POD)}
    assert classes.groups_of(pid) == {("silver", POD)}


def test_shared_group_is_not_moved(classes: Cluster) -> None:
    classes.kernel.mkdir(f"{classes.host.resctrl}/gold/mon_groups/{POD}")
    _, pid = classes.start(1, rdt_class="gold")
    change_class(classes, pid, "silver")
    assert classes.reconcile().ok
    assert classes.kernel.groups() == {("gold", POD), ("silver", POD)}
    assert "moved the group of" not in classes.host.log.read_text()


def test_kernel_without_rename_keeps_both_groups(classes: Cluster, fail: Fail) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    change_class(classes, pid, "silver")
    began = (classes.context().ledger.read_pod(POD) or {})["since"]["gold"]
    fail(classes.kernel, "rename", PermissionError(errno.EPERM, "Linux 6.1"))
    assert classes.reconcile().ok
    record = classes.context().ledger.read_pod(POD) or {}
    assert record["groups"] == {"gold": "created", "silver": "created"}
    assert (record["since"]["gold"], set(record["since"])) == (began, {"gold", "silver"})
    assert classes.groups_of(pid) == {("silver", POD)}


def test_kill_during_class_change_leaves_both_groups_recorded(classes: Cluster, fail: Fail) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    change_class(classes, pid, "silver")
    fail(classes.kernel, "rename", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        classes.reconcile()
    record = classes.context().ledger.read_pod(POD) or {}
    assert record["groups"] == {"gold": "created", "silver": "created"}


def test_group_in_class_of_living_container_stays(classes: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    moved, dead, lives = (classes.start(number, rdt_class="gold")[1] for number in (1, 2, 3))
    classes.kernel.end(dead)
    change_class(classes, moved, "silver")
    change_class(classes, lives, "gold")  # out of its group, which is empty now
    monkeypatch.setattr(LockedKey, "members", lambda locked: sorted(locked._ledger.members(locked.key)))
    context = classes.context()
    found = [one for one in observe(context).containers if one.pid == moved]
    enforce(context, found, NOW, Report())
    assert classes.kernel.groups() == {("gold", POD), ("silver", POD)}
    assert "moved the group of" not in classes.host.log.read_text()


def test_class_change_is_followed_once(classes: Cluster) -> None:
    id_, pid = classes.start(1, rdt_class="gold")
    rmid = classes.kernel.model.classes["gold"].monitored[POD].rmid
    change_class(classes, pid, "silver")
    assert classes.reconcile().ok
    report = classes.reconcile()
    assert not report.changed
    assert classes.groups_of(pid) == {("silver", POD)}
    assert classes.kernel.model.classes["silver"].monitored[POD].rmid == rmid
    log = classes.host.log.read_text()
    assert log.count(f"moved the group of {POD} from class 'gold' to 'silver'") == 1
    assert "was removed" not in log
    record = classes.context().ledger.read_pod(POD) or {}
    assert (record["groups"], list(record["since"])) == ({"silver": "created"}, ["silver"])
    member = classes.context().ledger.read_member(POD, id_) or {}
    assert [step["needs"]["class"] for step in member["steps"]] == ["silver"]


def test_failed_adoption_does_not_stop_others(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, rmids=2)
    pods = (POD, OTHER)
    pids = [cluster.spawn(number, pod) for number, pod in enumerate(pods, 1)]
    for (id_, pid), pod in zip(pids, pods, strict=True):
        cluster.appear(id_, pid, pod)
    report = cluster.reconcile()
    assert (len(report.adopted), len(report.waiting)) == (1, 1)
    (waits,) = report.waiting
    assert cluster.context().ledger.marked("waiting") == [waits]
    again = cluster.reconcile()
    assert (again.adopted, list(again.waiting)) == ([], [waits])


def test_threads_outside_are_counted(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    id_, pid = cluster.spawn(1, threads=2)
    cluster.appear(id_, pid)
    # A container that makes threads faster than they are moved: whenever one looks, there are two others.
    late = iter(range(1000, 2000))
    monkeypatch.setattr(
        "resctrl_hooks.node.reconcile.tasks.outside", lambda *_given: [(next(late), "", ""), (next(late), "", "")]
    )
    monkeypatch.setattr("resctrl_hooks.node.resctrl.filesystem.Resctrl.add_tasks", lambda *_given: None)
    report = cluster.reconcile()
    assert report.left == 2
    assert not report.ok


def test_only_living_containers_are_adopted(cluster: Cluster) -> None:
    for number, pod in enumerate((OTHER, POD), 1):
        cluster.appear(*cluster.spawn(number, pod), pod)
    context = cluster.context()
    containers = observe(context).containers
    for order in (containers, containers[::-1]):
        dry = Report(dry_run=True)
        assert enforce(context, order, Options(dry_run=True, live={POD}), dry) == []
        assert dry.adopted == [f"{2:064x}"]
    report = cluster.reconcile(Options(wait=False, live={POD}))
    assert report.adopted == [f"{2:064x}"]
    assert cluster.kernel.groups() == {("", POD)}


def test_records_of_adopted_containers_have_names(cluster: Cluster) -> None:
    id_, pid = cluster.spawn(1, threads=3)
    cluster.appear(id_, pid)
    context, report = cluster.context(), Report()
    (found,) = observe(context).containers
    assert enforce(context, [found], NOW, report) == []
    assert (report.adopted, report.moved, found.recorded) == ([id_], 3, True)
    record = context.ledger.read_pod(POD) or {}
    assert (record["cgroup"], record["namespace"], record["pod"], record["groups"]) == (
        f"{cluster.host.cgroup}/kubepods/pod{POD}",
        "shop",
        "web-0",
        {"": "created"},
    )
    assert record["born"] == found.start / os.sysconf("SC_CLK_TCK")
    member = context.ledger.read_member(POD, id_) or {}
    assert (member["pid"], member["start"], member["late"]) == (pid, found.start, True)


def test_existing_record_of_pod_is_not_overwritten(cluster: Cluster) -> None:
    cluster.start(1)
    with cluster.context().monitor.hold(POD) as locked:
        locked.record["pod"] = "as it was"
        locked.save()
    cluster.appear(*cluster.spawn(2))
    assert cluster.reconcile().adopted == [f"{2:064x}"]
    assert (cluster.context().ledger.read_pod(POD) or {})["pod"] == "as it was"


def test_container_ending_meanwhile_is_skipped(cluster: Cluster) -> None:
    cluster.appear(*cluster.spawn(1))
    context, report = cluster.context(), Report()
    (found,) = observe(context).containers
    found.start += 1  # another process has its pid by now
    assert enforce(context, [found], NOW, report) == []
    assert (report.adopted, report.ok, context.ledger.keys()) == ([], True, [])


def test_failing_container_is_reported_and_next_is_adopted(cluster: Cluster, fail: Fail) -> None:
    for number, pod in enumerate((OTHER, POD), 1):
        cluster.appear(*cluster.spawn(number, pod), pod)
    context, report = cluster.context(), Report()
    containers = sorted(observe(context).containers, key=lambda one: one.id)
    fail(context.monitor, "hold", LedgerError("the disk is gone"), when=lambda key, *_: key == OTHER)
    assert enforce(context, containers, NOW, report) == []
    assert (report.adopted, list(report.failures)) == ([f"{2:064x}"], [f"{1:064x}"])


def test_member_of_foreign_group_is_reported(cluster: Cluster) -> None:
    id_, pid = cluster.spawn(1)
    cluster.appear(id_, pid)
    cluster.kernel.mkdir(f"{cluster.host.resctrl}/mon_groups/pqos")
    cluster.kernel.model.write_tasks(cluster.kernel.model.root.monitored["pqos"], f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()
    assert cluster.reconcile().foreign == {"pqos"}
    assert cluster.kernel.groups() == {("", "pqos")}, "no empty group with the pod's name"


def test_group_whose_tasks_end_before_joining_is_removed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    id_, pid = cluster.spawn(1)
    cluster.appear(id_, pid)
    monkeypatch.setattr("resctrl_hooks.node.reconcile.join.gather", lambda *_: Gathering())
    cluster.reconcile()
    assert cluster.kernel.groups() == set()


def test_threads_that_entered_later_are_moved_and_reported(cluster: Cluster) -> None:
    id_, _ = cluster.start(1)
    late = cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{id_}", 2)
    report = cluster.reconcile()
    assert (report.adopted, report.moved) == ([id_], 2)
    assert cluster.groups_of(late) == {("", POD)}
    assert f"moved 2 threads of container {id_}" in cluster.host.log.read_text()


def test_pod_with_another_waiting_container_still_waits(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, rmids=3)  # the root group's, gold's, and one
    cluster.kernel.mkdir(f"{cluster.host.resctrl}/gold")
    cluster.start(1)
    cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{1:064x}")  # entered later
    cluster.appear(*cluster.spawn(2, rdt_class="gold"))
    context, report = cluster.context(), Report()
    containers = sorted(observe(context).containers, key=lambda one: one.id, reverse=True)
    assert enforce(context, containers, NOW, report) == containers[:1]
    assert (report.adopted, list(report.waiting)) == ([f"{1:064x}"], [POD])
    assert context.ledger.marked("waiting") == [POD]


def test_pod_that_gets_a_group_while_another_class_waits_still_waits(cluster: Cluster, fail: Fail) -> None:
    cluster.kernel.mkdir(f"{cluster.host.resctrl}/gold")
    cluster.appear(*cluster.spawn(1))
    second, pid = cluster.spawn(2, rdt_class="gold")
    cluster.appear(second, pid)
    fail(Resctrl, "create", NoRMIDsError("no RMID is free"), when=lambda _self, rdt_class, _name: not rdt_class)
    context, report = cluster.context(), Report()
    containers = sorted(observe(context).containers, key=lambda one: one.id)
    assert enforce(context, containers, NOW, report) == containers[:1]
    assert (report.adopted, cluster.kernel.groups()) == ([second], {("gold", POD)})
    assert context.ledger.marked("waiting") == [POD]


def test_adopted_container_has_rank_under_sharing_rules(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, rmids=4, monitoring={"priority": RULES})
    id_, pid = cluster.spawn(1)
    cluster.appear(id_, pid, **{"io.kubernetes.pod.namespace": "gold"})
    context = cluster.context()
    assert enforce(context, observe(context).containers, NOW, Report()) == []
    record = context.ledger.read_pod(POD) or {}
    assert record["claim"]["priority"] == 100
    assert context.ledger.marked("rmids") == [record["claim"]["entry"]]


def test_record_without_names_gets_those_of_living_member(cluster: Cluster) -> None:
    """As a release wrote it that took a sandbox for a Podman container."""
    cluster.start(1)
    with cluster.context().monitor.hold(POD) as locked:
        locked.record.update({"namespace": "", "pod": ""})
        locked.save()
    assert cluster.reconcile().repaired == 1
    record = cluster.context().ledger.read_pod(POD) or {}
    assert (record.get("namespace"), record.get("pod")) == ("shop", "web-0")
    assert cluster.reconcile().repaired == 0


def test_container_with_too_many_cgroups_is_reported_in_each_pass(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_, _ = cluster.start(1)
    cluster.start(2)
    own = f"/kubepods/pod{POD}/crio-{id_}"
    late = [cluster.kernel.spawn(f"{own}/{number}") for number in range(9)]
    monkeypatch.setattr("resctrl_hooks.node.host.cgroup_tasks.MOST_CGROUPS", 4)
    report = cluster.reconcile()
    assert report.ok
    assert sum(cluster.groups_of(pid) == {("", POD)} for pid in late) == 3, "with its own cgroup four are searched"
    (told,) = [line for line in cluster.host.log.read_text().splitlines() if "are not monitored" in line]
    assert f"shop/web-0/c0 (cri-o, {POD})" in told
    assert id_ in told
