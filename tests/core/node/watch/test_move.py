"""Processes that call exec, and samples, come into their pods' groups, in their own class."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hosts.cluster import POD, Cluster, pod_number

from resctrl_hooks.core.node.resctrl.filesystem import Resctrl
from resctrl_hooks.core.node.watch import move
from resctrl_hooks.core.node.watch.containers import Containers
from resctrl_hooks.core.node.watch.move import GONE, IGNORED, MOVED, NEW, WAITING
from resctrl_hooks.core.node.watch.sample import sample_some

HOUSES = ("lab",)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def execed(cluster: Cluster, id_: str, pod: str = POD, below: str = "", **where: Any) -> int:
    """Return a process that has entered a container."""
    return cluster.kernel.spawn(f"/kubepods/pod{pod}/crio-{id_}{below}", **where)


def serve(cluster: Cluster, pid: int) -> move.Outcome:
    context = cluster.context()
    return move.serve(context, Containers(context.ledger), pid)


@pytest.mark.parametrize("below", ["", "/container", "/made/by/itself"])
def test_entered_process_is_moved_with_all_threads(cluster: Cluster, below: str) -> None:
    id_, _ = cluster.start(1)
    pid = execed(cluster, id_, below=below, threads=3)
    outcome = serve(cluster, pid)
    assert (outcome.what, outcome.threads) == (MOVED, 3)
    assert cluster.groups_of(pid) == {("", POD)}
    assert serve(cluster, pid).what == IGNORED


def test_pod_without_an_rmid_stays_without(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, rmids=2)
    cluster.start(1)
    other = POD.replace("3f", "4f")
    id_, pid = cluster.spawn(2, other)
    cluster.hook(id_, pid, other)
    entered = execed(cluster, id_, other)
    assert serve(cluster, entered).what == WAITING
    assert cluster.groups_of(entered) == {("", "")}


@pytest.mark.parametrize("busy", [False, True])
def test_descendants_of_a_process_with_a_used_id_are_moved_back_too(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *, busy: bool
) -> None:
    """The process ends between the look and the write, and sshd gets its id."""
    id_, init = cluster.start(1)
    pid, child = execed(cluster, id_), cluster.kernel.spawn("/system.slice/sshd.service")
    monkeypatch.setattr(move, "threads_of_container", lambda *_: [pid, child, init])
    real = Resctrl.add_tasks

    def add(self: Resctrl, rdt_class: str, name: str, tids: list[int], process: int = 0) -> None:
        (cluster.host.proc / str(pid) / "cgroup").write_text("0::/system.slice/sshd.service\n")
        real(self, rdt_class, name, [*tids, child] if name else tids, process)

    monkeypatch.setattr(Resctrl, "add_tasks", add)
    with cluster.context().monitor.hold(POD) if busy else contextlib.nullcontext():
        assert serve(cluster, pid).what == GONE
    assert cluster.groups_of(pid) == cluster.groups_of(child) == {("", "")}
    assert cluster.groups_of(init) == {("", POD)}, "a process of the pod stays"


def test_process_that_ends_meanwhile_is_gone(cluster: Cluster) -> None:
    id_, _ = cluster.start(1)
    pid = execed(cluster, id_)
    context = cluster.context()
    cluster.kernel.threads.end(pid)  # the kernel knows it no longer, /proc was read a moment before
    assert move.serve(context, Containers(context.ledger), pid).what == GONE


def test_link_without_record_is_examined_again(cluster: Cluster) -> None:
    context = cluster.context()
    containers = Containers(context.ledger)
    id_, pid = cluster.spawn(1)
    context.ledger.prepare()
    context.ledger.point(id_, POD)  # as a hook does before it writes the record
    assert move.serve(context, containers, execed(cluster, id_)).what == NEW
    cluster.hook(id_, pid)
    assert move.serve(context, containers, execed(cluster, id_)).what == MOVED


def test_sample_of_some_containers_leaves_others_and_busy_ones(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    context = cluster.context()
    containers = Containers(context.ledger)
    (id_, _), (other, _) = cluster.start(1), cluster.start(2, pod_number(2))
    containers.refresh()
    entered = cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{id_}", 2)
    foreign = cluster.kernel.spawn(f"/kubepods/pod{pod_number(2)}/crio-{other}")
    with context.monitor.hold(POD):
        assert sample_some(cluster.context(), containers, [id_]) == 0
    assert sample_some(context, containers, [id_, "gone"]) == 2
    assert cluster.groups_of(entered) == {("", POD)}
    assert cluster.groups_of(foreign) == {("", "")}


def test_unmonitored_container_with_a_record_is_ignored(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, monitoring={"enabled": False}, classes=[{"name": "swap", "allowswap": True}])
    id_, pid = cluster.spawn(1)
    (cluster.host.cgroup / f"kubepods/pod{POD}/crio-{id_}/memory.swap.max").touch()
    cluster.hook(id_, pid, notes={"class.memtierd.nri.io": "swap"})
    assert cluster.context().ledger.key_of(id_) == POD
    assert serve(cluster, execed(cluster, id_)).what == IGNORED
    assert not list((cluster.host.resctrl / "mon_groups").iterdir())
