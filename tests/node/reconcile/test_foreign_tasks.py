"""Tasks of other cgroups in a pod's group leave it in one pass."""

import pytest
from hosts.simulated_kernel import ROOT_CALLER

from node.reconcile.cluster import POD, Cluster
from resctrl_hooks.node.reconcile.report import Options

OTHER = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c02"


def list_threads(cluster: Cluster, number: int, pid: int, pod: str = POD) -> None:
    """Let the container's cgroup list its threads, as the kernel does."""
    folder = cluster.host.cgroup / f"kubepods/pod{pod}/crio-{number:064x}"
    (folder / "cgroup.threads").write_text(f"{pid}\n")


def plant(cluster: Cluster, pid: int, group: str = POD) -> None:
    model = cluster.kernel.model
    model.write_tasks(model.root.monitored[group], f"{pid}\n", ROOT_CALLER)
    cluster.kernel.show_tasks()


def test_planted_process_is_gone_after_one_pass(cluster: Cluster) -> None:
    _, pid = cluster.start(1)
    list_threads(cluster, 1, pid)
    stranger = cluster.kernel.spawn("/system.slice/cron.service")
    plant(cluster, stranger)
    report = cluster.reconcile()
    assert (report.ok, report.repaired) == (True, 1)
    assert cluster.groups_of(stranger) == {("", "")}
    assert cluster.groups_of(pid) == {("", POD)}
    assert f"moved 1 tasks of other cgroups out of the group of {POD}: {stranger}" in cluster.host.log.read_text()
    assert cluster.reconcile().repaired == 0


def test_process_of_another_pod_comes_into_its_own_group_in_the_same_pass(cluster: Cluster) -> None:
    pids = [cluster.start(number, pod)[1] for number, pod in ((1, POD), (2, OTHER))]
    for number, (pid, pod) in enumerate(zip(pids, (POD, OTHER), strict=True), 1):
        list_threads(cluster, number, pid, pod)
    plant(cluster, pids[1])
    assert cluster.reconcile().repaired == 1
    assert [cluster.groups_of(pid) for pid in pids] == [{("", POD)}, {("", OTHER)}]


def test_process_elsewhere_in_the_pods_cgroup_stays(cluster: Cluster) -> None:
    _, pid = cluster.start(1)
    list_threads(cluster, 1, pid)
    sandbox = cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{9:064x}")
    plant(cluster, sandbox)
    assert cluster.reconcile().repaired == 0
    assert cluster.groups_of(sandbox) == {("", POD)}


@pytest.mark.parametrize("origin, dry_run", [("shared", False), ("created", True)])
def test_foreign_group_and_dry_run_change_nothing(cluster: Cluster, origin: str, *, dry_run: bool) -> None:
    _, pid = cluster.start(1)
    list_threads(cluster, 1, pid)
    stranger = cluster.kernel.spawn("/system.slice/cron.service")
    plant(cluster, stranger)
    with cluster.context().monitor.hold(POD) as locked:
        locked.origins[""] = origin
        locked.save()
    assert cluster.reconcile(Options(wait=False, dry_run=dry_run)).repaired == int(dry_run)
    assert cluster.groups_of(stranger) == {("", POD)}
