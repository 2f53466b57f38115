"""Containers that run are taken in: once, said once, and into another class only where that moves nobody else."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from simulated_kernel import ROOT_CALLER

from node.reconcile.cluster import NOW, POD, Cluster
from resctrl_hooks.node.reconcile.reconcile import reconcile
from resctrl_hooks.node.reconcile.report import Options

if TYPE_CHECKING:
    from pathlib import Path

OTHER = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c02"


@pytest.fixture
def classes(cluster: Cluster) -> Cluster:
    """With two classes."""
    for name in ("gold", "silver"):
        cluster.kernel.mkdir(f"{cluster.host.resctrl}/{name}")
    return cluster


def change_class(cluster: Cluster, pid: int, name: str) -> None:
    """Moves a process to a class, out of its group."""
    model = cluster.kernel.model
    cluster.kernel.model.write_tasks(model.classes.get(name, model.root), f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()


def test_that_resctrl_is_not_mounted_is_said_once(cluster: Cluster) -> None:
    for number, pod in enumerate((POD, OTHER), 1):
        cluster.appear(*cluster.spawn(number, pod), pod)
    shutil.rmtree(cluster.host.resctrl)
    cluster.host.resctrl.mkdir()
    report = reconcile(cluster.host.context(), NOW)  # its resctrl is the plain folder
    assert not report.ok
    assert len(report.problems) == 1
    assert len(report.reasons) == 1
    assert (report.failures, report.adopted) == ({}, [])


def test_a_dry_run_counts_what_is_outside_and_nobody_else(cluster: Cluster) -> None:
    first, pid = cluster.spawn(1, threads=3)
    cluster.appear(first, pid)
    cluster.start(2, OTHER)
    report = cluster.reconcile(Options(wait=False, dry_run=True))
    assert (report.adopted, report.moved) == ([first], 3)


def test_who_waited_and_has_its_group_waits_no_more(cluster: Cluster) -> None:
    cluster.start(1)
    cluster.context().ledger.mark("waiting", POD)
    report = cluster.reconcile()
    assert report.ok
    assert cluster.context().ledger.marked("waiting") == []
    assert report.adopted == []


def test_who_is_where_it_belongs_is_left_alone(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start(1)
    assert cluster.reconcile().ok

    def taken(*_given: object) -> bool:
        raise AssertionError("it locks the key and writes for nothing")

    monkeypatch.setattr("resctrl_hooks.node.reconcile.adopt.take_in", taken)
    assert cluster.reconcile().ok


def test_what_was_brought_in_is_said_with_numbers_and_names(cluster: Cluster) -> None:
    id_, pid = cluster.spawn(1, threads=2)
    cluster.appear(id_, pid)
    assert cluster.reconcile().ok
    said = f"moved 2 threads of container {id_} into its monitoring group"
    assert cluster.host.log.read_text().count(said) == 1
    assert cluster.reconcile().ok
    assert cluster.host.log.read_text().count("threads of") == 1, "the second time there is nothing to say"


def test_a_class_that_is_still_there_was_not_removed(classes: Cluster) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    change_class(classes, pid, "silver")
    assert classes.reconcile().ok
    assert "was removed" not in classes.host.log.read_text()
    assert f"moved the group of {POD} from class 'gold' to 'silver'" in classes.host.log.read_text()


def test_the_root_class_is_never_said_to_be_removed(classes: Cluster) -> None:
    _, pid = classes.start(1)
    change_class(classes, pid, "gold")
    assert classes.reconcile().ok
    assert classes.kernel.groups() == {("gold", POD)}
    assert "was removed" not in classes.host.log.read_text()


def test_a_group_with_somebody_s_thread_in_it_stays(classes: Cluster) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    stranger = classes.kernel.spawn("/elsewhere", rdt_class="gold", group=POD)
    change_class(classes, pid, "silver")
    assert classes.reconcile().ok
    assert classes.kernel.groups() == {("gold", POD), ("silver", POD)}
    assert classes.groups_of(stranger) == {("gold", POD)}, "a rename would have changed its class"
    assert classes.groups_of(pid) == {("silver", POD)}


def test_a_group_of_that_name_in_the_new_class_is_joined(classes: Cluster) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    classes.kernel.mkdir(f"{classes.host.resctrl}/silver/mon_groups/{POD}")
    change_class(classes, pid, "silver")
    assert classes.reconcile().ok
    assert classes.kernel.groups() == {("gold", POD), ("silver", POD)}
    assert classes.groups_of(pid) == {("silver", POD)}


def test_where_the_old_group_is_gone_a_new_one_is_made(classes: Cluster) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    change_class(classes, pid, "silver")
    classes.kernel.rmdir(f"{classes.host.resctrl}/gold/mon_groups/{POD}")
    classes.kernel.now += 2
    assert classes.reconcile().ok
    assert classes.kernel.groups() == {("silver", POD)}
    assert classes.groups_of(pid) == {("silver", POD)}


def test_a_group_that_we_only_share_is_not_taken_along(classes: Cluster) -> None:
    classes.kernel.mkdir(f"{classes.host.resctrl}/gold/mon_groups/{POD}")
    _, pid = classes.start(1, rdt_class="gold")
    change_class(classes, pid, "silver")
    assert classes.reconcile().ok
    assert classes.kernel.groups() == {("gold", POD), ("silver", POD)}


def test_what_changed_class_is_followed_once(classes: Cluster) -> None:
    _, pid = classes.start(1, rdt_class="gold")
    change_class(classes, pid, "silver")
    assert classes.reconcile().ok
    report = classes.reconcile()
    assert not report.changed
    assert classes.host.log.read_text().count("moved the group of") == 1


def test_one_that_can_not_be_taken_in_keeps_nobody_else_out(tmp_path: Path) -> None:
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


def test_what_stays_outside_is_counted(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
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
