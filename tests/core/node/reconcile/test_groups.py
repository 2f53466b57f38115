"""Reconcile of groups and classes that others made, changed or removed."""

from __future__ import annotations

import json
import shutil

import pytest
from hosts.cluster import POD, Cluster, pod_number
from hosts.simulated_kernel import ROOT_CALLER

from resctrl_hooks.core.node.reconcile import keys
from resctrl_hooks.core.node.reconcile.groups import Groups
from resctrl_hooks.core.node.reconcile.report import Options, Report

HOUSES = ("lab",)


def test_removed_class_moves_pods_to_root_class_and_keeps_counting(cluster: Cluster) -> None:
    cluster.add_classes("gold")
    id_, pid = cluster.start(1, rdt_class="gold")
    assert cluster.groups_of(pid) == {("gold", POD)}
    cluster.kernel.rmdir(f"{cluster.host.resctrl}/gold")
    assert cluster.groups_of(pid) == {("", "")}
    assert cluster.reconcile().ok
    assert cluster.groups_of(pid) == {("", POD)}
    assert cluster.pod_record()["groups"] == {"": "created"}, (
        "a group that is gone with its class is no longer said to be there"
    )
    said = f"RDT class gold of running container {id_[:12]} was removed; it is now in the root class"
    assert cluster.host.log.read_text().count(said) == 1
    assert cluster.reconcile().ok
    assert cluster.host.log.read_text().count(said) == 1, "it is said once"


def test_foreign_groups_are_left_alone(cluster: Cluster) -> None:
    for name in ("pqos", "resctrl-mon", pod_number(9)):
        cluster.kernel.mkdir(f"{cluster.host.resctrl}/mon_groups/{name}")
    _, pid = cluster.start(1)
    cluster.kernel.model.write_tasks(cluster.kernel.model.root.monitored["pqos"], f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()
    report = cluster.reconcile()
    assert report.events["foreign"].keys() == {"pqos"}
    assert cluster.groups_of(pid) == {("", "pqos")}
    assert {name for _, name in cluster.kernel.groups()} == {"pqos", "resctrl-mon", pod_number(9), POD}


def test_existing_group_is_joined_and_never_removed(cluster: Cluster) -> None:
    cluster.kernel.mkdir(f"{cluster.host.resctrl}/mon_groups/{POD}")
    id_, pid = cluster.start(1)
    assert cluster.groups_of(pid) == {("", POD)}
    cluster.end(id_, pid, POD)
    assert [*cluster.reconcile().events["released"]] == [POD]
    assert cluster.kernel.groups() == {("", POD)}


def test_lost_ledger_is_repaired_by_claim(cluster: Cluster) -> None:
    _, pid = cluster.start(1)
    dead, other = cluster.start(2, pod_number(2))
    cluster.kernel.mkdir(f"{cluster.host.resctrl}/mon_groups/pqos")
    shutil.rmtree(cluster.host.state)
    cluster.kernel.end(other)
    shutil.rmtree(cluster.root / "crun" / dead)
    cluster.end_pod(pod_number(2))
    assert cluster.reconcile().ok
    assert {name for _, name in cluster.kernel.groups()} == {POD, pod_number(2), "pqos"}, "nothing without --claim"
    dry = cluster.reconcile(Options(claim=True, dry_run=True))
    assert sorted(dry.events["claimed"]) == sorted([POD, pod_number(2)])
    report = cluster.reconcile(Options(claim=True, wait=False))
    assert sorted(report.events["claimed"]) == sorted([POD, pod_number(2)])
    assert {name for _, name in cluster.kernel.groups()} == {POD, "pqos"}
    cluster.kernel.end(pid)
    cluster.end_pod()
    cluster.reconcile()
    assert {name for _, name in cluster.kernel.groups()} == {"pqos"}, "a claimed group ends with its pod"


def test_claim_leaves_group_made_by_runtime(cluster: Cluster) -> None:
    id_ = f"{7:064x}"
    pid = cluster.kernel.spawn(f"/libpod-{id_}", 1, "")
    cluster.kernel.mkdir(f"{cluster.host.resctrl}/mon_groups/{id_}")
    cluster.kernel.model.write_tasks(cluster.kernel.model.root.monitored[id_], f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()
    cluster.appear(id_, pid)
    config = {"linux": {"intelRdt": {"enableMonitoring": True}}}  # of Podman
    (cluster.root / f"bundle-{id_[-8:]}" / "config.json").write_text(json.dumps(config))
    for options in (Options(claim=True, dry_run=True), Options(claim=True, wait=False)):
        report = cluster.reconcile(options)
        assert (report.ok, [*report.events["claimed"]]) == (True, [])
    assert report.number("moved") == 0
    assert cluster.groups_of(pid) == {("", id_)}
    assert cluster.pod_record(id_)["groups"].get("") in (None, "shared")
    cluster.end(id_, pid)
    assert ("", id_) in cluster.kernel.groups()


def test_unmounted_resctrl_is_recognized(cluster: Cluster) -> None:
    assert Groups(cluster.context()).is_mounted()
    shutil.rmtree(cluster.host.resctrl)
    assert not Groups(cluster.host.context()).is_mounted()


@pytest.mark.parametrize("rdt_class", ["", "gold"])
def test_record_of_a_group_that_came_back_stays(cluster: Cluster, rdt_class: str) -> None:
    cluster.start(1)
    report = Report()
    keys._forget(cluster.context(), POD, {rdt_class}, report)
    assert cluster.pod_record()["groups"] == {"": "created"}
    assert report.number("repaired") == 0
