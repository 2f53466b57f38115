"""Groups and classes that other programs made, changed or removed, and foreign tasks in a pod's group."""

from __future__ import annotations

import errno
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hosts.cluster import POD, Cluster, pod_number
from hosts.simulated_kernel import ROOT_CALLER

from resctrl_hooks.core.node.errors import ClassMismatchError
from resctrl_hooks.core.node.host import procfs
from resctrl_hooks.core.node.host.files import read_kernel_file
from resctrl_hooks.core.node.reconcile import tasks
from resctrl_hooks.core.node.reconcile.report import Options

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


@pytest.fixture
def container(cluster: Cluster) -> int:
    """Return the process of a container whose cgroup lists its threads, as the kernel does."""
    return listed(cluster, 1)


def listed(cluster: Cluster, number: int, pod: str = POD) -> int:
    _, pid = cluster.start(number, pod)
    folder = cluster.host.cgroup / f"kubepods/pod{pod}/crio-{number:064x}"
    (folder / "cgroup.threads").write_text(f"{pid}\n")
    return pid


def plant(cluster: Cluster, pid: int) -> int:
    model = cluster.kernel.model
    model.write_tasks(model.root.monitored[POD], f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()
    return pid


def test_planted_process_is_gone_after_one_pass(cluster: Cluster, container: int) -> None:
    stranger = plant(cluster, cluster.kernel.spawn("/system.slice/cron.service"))
    report = cluster.reconcile()
    assert (report.ok, report.number("repaired")) == (True, 1)
    assert [cluster.groups_of(pid) for pid in (stranger, container)] == [{("", "")}, {("", POD)}]
    assert f"moved 1 tasks of other cgroups out of the group of {POD}: {stranger}" in cluster.host.log.read_text()
    assert cluster.reconcile().number("repaired") == 0


@pytest.mark.usefixtures("container")
def test_process_elsewhere_in_the_pods_cgroup_stays(cluster: Cluster) -> None:
    sandbox = plant(cluster, cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{9:064x}"))
    assert cluster.reconcile().number("repaired") == 0
    assert cluster.groups_of(sandbox) == {("", POD)}


@pytest.mark.usefixtures("container")
@pytest.mark.parametrize("origin, dry_run", [("shared", False), ("created", True)])
def test_foreign_group_and_dry_run_change_nothing(cluster: Cluster, origin: str, *, dry_run: bool) -> None:
    stranger = plant(cluster, cluster.kernel.spawn("/system.slice/cron.service"))
    with cluster.context().monitor.hold(POD) as locked:
        locked.origins[""] = origin
        locked.save()
    assert cluster.reconcile(Options(wait=False, dry_run=dry_run)).number("repaired") == int(dry_run)
    assert cluster.groups_of(stranger) == {("", POD)}


def test_process_in_a_cgroup_deeper_than_the_kernel_can_tell_is_no_problem(
    cluster: Cluster, container: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = plant(cluster, cluster.kernel.spawn("/kubepods/deep"))

    def read(path: str) -> bytes:
        if path.endswith((f"/{deep}/cgroup", f"/{container}/cgroup")):
            raise OSError(errno.ENAMETOOLONG, "File name too long", path)
        return read_kernel_file(path)

    monkeypatch.setattr(procfs, "read_kernel_file", read)
    report = cluster.reconcile()
    assert (report.ok, report.number("repaired"), report.events["failed"]) == (True, 0, {})
    assert cluster.groups_of(deep) == {("", POD)}


if TYPE_CHECKING:
    from conftest import Host

    from resctrl_hooks.core.node.context import Context
    from resctrl_hooks.core.node.reconcile.tasks import Gathering

Where = dict[int, "tuple[str, str] | None"]


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Where:
    """Return a container's threads, by id: class and group, or None where /proc doesn't say. 0 has just ended."""
    found: Where = {}

    def groups_of(_proc: str, tid: int) -> tuple[str, str] | None:
        if not tid:
            raise ProcessLookupError
        return found[tid]

    monkeypatch.setattr(tasks, "threads_of_container", lambda *_given: list(found))
    monkeypatch.setattr(tasks, "resctrl_groups_of", groups_of)
    return found


def test_outside_threads_are_found_in_proc(host: Host, threads: Where) -> None:
    threads.update({1: ("gold", "k"), 0: None, 2: ("gold", ""), 3: ("gold", "pqos"), 4: ("silver", "k"), 5: ("", "k")})
    found = tasks.outside(host.context(), {"gold": "k", "": "k"}, "/c", 1)
    assert found == [(2, "gold", ""), (3, "gold", "pqos"), (4, "silver", "k")]


def test_outside_threads_are_found_in_group_lists_without_proc(host: Host, threads: Where) -> None:
    host.add_class("gold")
    for folder, listed in (("mon_groups/k", "1\n"), ("gold/mon_groups/k", "3\n"), ("gold/mon_groups/other", "2\n")):
        (host.resctrl / folder).mkdir()
        (host.resctrl / folder / "tasks").write_text(listed)
    threads.update({1: None, 2: None, 3: None})
    assert tasks.outside(host.context(), {"": "k", "gold": "k"}, "/c", 1) == [(2, "?", "")]
    assert tasks.outside(host.context(), {"gold": "k"}, "/c", 1) == [(1, "?", ""), (2, "?", "")]
    assert tasks.outside(host.context(), {}, "/c", 1) == [(1, "?", ""), (2, "?", ""), (3, "?", "")]


def gathered(
    context: Context, threads: Where, *classes: str, refused: tuple[str, ...] = ()
) -> tuple[list[int], Gathering]:
    """Gather the threads of key ``k``, which has groups in these classes; return the moved ones and the result.

    The classes ``refused`` refuse them all, and each class those of another, as the kernel does.
    """
    moved: list[int] = []

    def add_tasks(rdt_class: str, name: str, tids: list[int]) -> None:
        if rdt_class in refused or any((threads.get(tid) or [rdt_class])[0] != rdt_class for tid in tids):
            raise ClassMismatchError("Can't move task to different control group")
        moved.extend(tids)
        for tid in tids:
            threads[tid] = (rdt_class, name)

    with context.monitor.hold("k") as locked:
        for name in classes:
            locked.ensure_group(name)
        context.monitor.resctrl.add_tasks = add_tasks  # type: ignore[assignment, method-assign]
        return moved, tasks.gather(locked, context, "/c", 1, "")


@pytest.mark.parametrize(
    "places, groups, refused, moved, left",
    [
        # Each thread joins the group of its class; 3 was in an unrecorded group.
        ({1: ("", ""), 2: ("gold", ""), 3: ("gold", "k")}, (), (), [1, 2, 3], 0),
        # A thread of an unknown class is tried in the other groups of its key.
        ({1: None}, ("", "bronze", "gold"), ("", "bronze"), [1], 0),
        # One that changes its class meanwhile is not moved, and a class that refuses stops no other.
        ({1: ("", "")}, ("",), ("",), [], 1),
        ({1: ("", ""), 2: ("gold", "")}, (), ("",), [2], 1),
    ],
)
def test_threads_join_a_group_that_accepts_them(
    host: Host, threads: Where, places: Where, groups: Any, refused: Any, moved: list[int], left: int
) -> None:
    for name in ("bronze", "gold"):
        host.add_class(name)
    threads.update(places)
    context = host.context()
    done, found = gathered(context, threads, *groups, refused=refused)
    assert (sorted(done), found.moved, found.left) == (moved, len(moved), left)
    expected = {tid: ((places[tid] or ["gold"])[0], "k") for tid in moved}
    assert {tid: threads[tid] for tid in moved} == expected
    assert {place[0] for place in expected.values()} <= set((context.ledger.read_pod("k") or {})["groups"])
