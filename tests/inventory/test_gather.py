"""The one word for a pod, and the pods that wait by a rule."""

from pathlib import Path
from typing import Any

import pytest
from node.reconcile.cluster import Cluster

from resctrl_hooks.inventory.gather import queued_pods, state_of, waiting_pods
from resctrl_hooks.inventory.models import Group, Pod, Refusal

GROUP = Group(rdt_class="", name="k", path="/r/mon_groups/k", origin="created", tasks=0)


@pytest.mark.parametrize("cgroup, state", [("/sys/fs/cgroup/pod", "idle"), ("", "assigned")])
def test_pod_without_containers_is_idle_unless_its_key_belongs_to_a_program(cgroup: str, state: str) -> None:
    assert state_of(Pod(key="k", state="assigned", cgroup=cgroup, groups=[GROUP]), waiting=False) == state


@pytest.mark.parametrize(
    "known, name",
    [
        ({"namespace": "shop", "pod": "web", "container": "app", "id": "c" * 64}, "shop/web/app"),
        ({"id": "c" * 64}, "c" * 12),
        ({}, "an unknown container"),
    ],
)
def test_refused_container_has_as_much_of_its_name_as_is_known(known: dict[str, str], name: str) -> None:
    assert Refusal(time=1, why="", **known).name == name


SHARE = {"share": {"interval": "10s"}}


@pytest.mark.parametrize(
    "monitoring, queued",
    [({}, False), ({"limits": {}}, False), (SHARE, True), ({**SHARE, "limits": {"shop": 9}}, True)],
)
def test_pod_within_its_limit_waits_by_a_rule_only_where_rmids_are_shared(
    tmp_path: Path, monitoring: dict[str, Any], queued: bool
) -> None:
    cluster = Cluster(tmp_path)
    cluster.host.configure(monitoring=monitoring)
    waiting = [Pod(key="k", state="waiting", namespace="shop")]
    assert queued_pods(cluster.context(), waiting) == (waiting if queued else [])


def test_pod_over_its_namespaces_limit_waits_by_a_rule(tmp_path: Path) -> None:
    pods = ["2f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", "2f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c02"]
    cluster = Cluster(tmp_path)
    for most, queued in ((1, pods[1:]), (9, [])):
        cluster.host.configure(runtimeRoots={"crun": str(tmp_path / "crun")}, monitoring={"limits": {"sh*": most}})
        for number, pod in enumerate(pods if most == 1 else (), start=1):
            cluster.start(number, pod)
        context = cluster.context()
        waiting = waiting_pods(context)
        assert [pod.key for pod in waiting] == pods[1:]
        assert [pod.key for pod in queued_pods(context, waiting)] == queued
