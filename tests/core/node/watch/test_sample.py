"""One check of all containers in place of events."""

from pathlib import Path

from hosts.cluster import POD, Cluster, pod_number

from resctrl_hooks.core.node.watch.containers import Containers
from resctrl_hooks.core.node.watch.sample import sample, sample_some

HOUSES = ("lab",)


def test_sample_moves_threads_of_recorded_pods_with_a_group_only(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, rmids=2)
    id_, _ = cluster.start(1)
    entered = cluster.kernel.spawn(f"/kubepods/pod{POD}/crio-{id_}", 2)
    waiting, init = cluster.start(2, pod_number(2))
    assert cluster.context().ledger.marked("waiting") == [pod_number(2)]
    cluster.kernel.end(cluster.kernel.spawn(f"/kubepods/pod{pod_number(2)}/crio-{waiting}"))
    unseen, pid = cluster.spawn(3, pod_number(3))
    cluster.appear(unseen, pid, pod_number(3))
    assert sample(cluster.context()) == 2
    assert cluster.groups_of(entered) == {("", POD)}
    assert cluster.groups_of(init) == cluster.groups_of(pid) == {("", "")}
    assert cluster.context().ledger.marked("waiting") == [pod_number(2)]
    assert sample(cluster.context()) == 0


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
