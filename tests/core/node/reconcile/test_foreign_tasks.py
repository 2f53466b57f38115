"""Tasks of other cgroups in a pod's group leave it in one pass."""

import errno

import pytest
from hosts.cluster import POD, Cluster, pod_number
from hosts.faults import Fail
from hosts.simulated_kernel import ROOT_CALLER

from resctrl_hooks.core.node.errors import ResctrlError
from resctrl_hooks.core.node.host import procfs
from resctrl_hooks.core.node.host.files import read_kernel_file
from resctrl_hooks.core.node.reconcile.groups import Groups
from resctrl_hooks.core.node.reconcile.report import Options

HOUSES = ("lab",)


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


def test_process_of_another_pod_comes_into_its_own_group_in_the_same_pass(cluster: Cluster, container: int) -> None:
    other = plant(cluster, listed(cluster, 2, pod_number(2)))
    assert cluster.reconcile().number("repaired") == 1
    assert [cluster.groups_of(pid) for pid in (container, other)] == [{("", POD)}, {("", pod_number(2))}]


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


@pytest.mark.usefixtures("container")
def test_unreadable_group_is_reported(cluster: Cluster, fail: Fail) -> None:
    fail(Groups, "tasks", ResctrlError("cannot read mon_group"))
    report = cluster.reconcile(Options(wait=False, dry_run=True))
    assert POD in report.events["failed"]
    assert report.number("repaired") == 0
