"""The inventory of a node: the state of each pod and container, and the pods that wait by a rule."""

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from conftest import not_none
from golden import Golden
from hosts.cluster import Cluster
from hosts.monitored import KEYS, plain_host
from hosts.shared_node import SharedNode

from resctrl_hooks.core.inventory import gather as module
from resctrl_hooks.core.inventory.models import Container, Group, Pod
from resctrl_hooks.core.inventory.owners import account
from resctrl_hooks.core.inventory.podman import PodmanNames
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.refusals import record_refusal

HOUSES = ("lab",)
GROUP = Group(rdt_class="", name="k", path="/r/mon_groups/k", origin="created", tasks=0)

SHARE = {"share": {"interval": "10s"}}


def test_pod_waits_by_a_rule_where_rmids_are_shared_or_its_namespace_is_over_its_limit(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    pod = [Pod(key="k", state="waiting", namespace="shop")]
    cases: tuple[tuple[dict[str, Any], bool], ...] = (
        ({}, False), ({"limits": {}}, False), (SHARE, True), ({**SHARE, "limits": {"shop": 9}}, True)
    )  # fmt: skip
    for monitoring, queued in cases:
        cluster.host.configure(monitoring=monitoring)
        assert module.queued_pods(cluster.context(), pod) == (pod if queued else [])
    pods = ["2f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", "2f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c02"]
    for most, over in ((1, pods[1:]), (9, [])):
        cluster.host.configure(monitoring={"limits": {"sh*": most}})
        for number, key in enumerate(pods if most == 1 else (), start=1):
            cluster.start(number, key)
        context = cluster.context()
        waiting = module.waiting_pods(context)
        assert [one.key for one in waiting] == module.waiting_keys(context) == pods[1:]
        assert [one.key for one in module.queued_pods(context, waiting)] == over


def container(id_: str = "c1", **values: Any) -> Container:
    return Container(**{"id": id_, "alive": True, "rdt_class": "", **values})


def test_container_that_ends_or_is_unreadable_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SharedNode(tmp_path)
    pod = node.start("shop")
    node.start("shop", beside=pod)

    problem = "container c0: cannot read it"
    for error, alive, problems in ((ProcessLookupError(), False, []), (HookError("cannot read it"), True, [problem])):
        monkeypatch.setattr(module, "groups_of_process", Mock(side_effect=[error, ("", pod.key)]))
        found = not_none(module.pod_of(node.context(), pod.key))
        assert [one.alive for one in found.containers] == [alive, True]
        assert (found.problems, found.state) == (problems, "assigned")


def test_pod_begins_with_its_first_container_and_has_the_names_of_any(tmp_path: Path) -> None:
    with plain_host(tmp_path) as host:
        with host.context.monitor.hold(KEYS[0]) as locked:
            locked.add_member("a" * 64, {"time": 0})
            locked.add_member("b" * 64, {"time": 50, "pod": "web"})
            locked.add_member("c" * 64, {"time": 40, "namespace": "shop"})
        found = not_none(module.pod_of(host.context, KEYS[0]))
        assert (found.since, found.namespace, found.pod) == (40, "shop", "web")


def test_inventory_without_resctrl_has_the_problem_and_the_pods(tmp_path: Path) -> None:
    with plain_host(tmp_path) as host:
        host.group(0, "web")
        owned = account(host.context, {KEYS[0]: "shop/web"})  # the kernel's numbers are missing
        assert (owned.rmids, owned.closids, owned.limits, owned.free_by_class) == ({}, {}, {}, {})
        assert [one.owner for one in owned.owners] == ["classes", "pods"]
        shutil.rmtree(host.resctrl)
        found = module.gather(host.context)
        assert "resctrl is not mounted at" in found.problem
        assert ([pod.name for pod in found.pods], found.rmids, found.foreign) == (["shop/web"], None, [])
        assert [(group.origin, group.tasks) for group in found.pods[0].groups] == [("missing", 0)]
        assert module.rmids_of(host.context.monitor.resctrl, 3) is None


def test_state_of_a_pod(golden: Golden) -> None:
    missing = GROUP.model_copy(update={"origin": "missing"})
    unmonitored, ended, astray = container(monitored=False), container(alive=False), container(outside=1)
    cases: dict[str, dict[str, Any]] = {
        "nothing": {},
        "group": {"groups": [GROUP]},
        "group and cgroup": {"groups": [GROUP], "cgroup": "/sys/fs/cgroup/pod"},
        "missing group": {"groups": [GROUP, missing]},
        "unmonitored": {"containers": [unmonitored]},
        "one unmonitored": {"containers": [unmonitored, container()]},
        "group, unmonitored": {"groups": [GROUP], "containers": [unmonitored]},
        "group, ended": {"groups": [GROUP], "containers": [ended]},
        "group, one ended outside": {"groups": [GROUP], "containers": [container(alive=False, outside=1), container()]},
        "group, one astray": {"groups": [GROUP], "containers": [container(), astray]},
    }
    pods = {label: Pod(key="k", state="assigned", **values) for label, values in cases.items()}
    states = {
        label: [module.state_of(one, waiting=waiting) for waiting in (False, True)] for label, one in pods.items()
    }
    golden("\n".join(f"{label}: {state}, or if it waits {other}" for label, (state, other) in states.items()))


def test_pod_known_only_by_refusals_is_refused_since_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with plain_host(tmp_path) as host:
        folder = host.context.ledger.folder
        for when, key, pod in ((100, KEYS[0], "web"), (200, KEYS[1], "db"), (300, KEYS[0], "web-0"), (400, "", "x")):
            monkeypatch.setattr("time.time", lambda when=when: float(when))
            record_refusal(folder, {"key": key, "namespace": "shop", "pod": pod}, "no RMID")
        found = not_none(module.refused_pod(host.context, KEYS[0]))
        assert (found.key, found.name, found.state, found.since) == (KEYS[0], "shop/web-0", "refused", 100)
        assert module.refused_pod(host.context, KEYS[2]) is None
        assert module.refused_pod(host.context, "") is None


def test_podman_is_asked_only_for_missing_names(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Mock(return_value=PodmanNames({"alone": "web", "member": "db"}, {"pod": "shop"}))
    monkeypatch.setattr(module, "podman_names", ask)
    of_others = Pod(key="a", state="idle", containers=[container("a", runtime="cri-o")])
    named = Pod(key="b", state="idle", containers=[container("b", runtime="podman", name="own")])
    module.name_podmans([of_others, named])
    assert (of_others.pod, named.pod, ask.call_count) == ("", "own", 0)
    alone = Pod(key="alone", state="idle", containers=[container("alone", runtime="podman")])
    known = [container(id_, runtime="podman") for id_ in ("member", "unknown")]
    pod = Pod(key="pod", state="idle", containers=[*known, container("kept", runtime="podman", name="kept")])
    module.name_podmans([of_others, named, alone, pod])
    assert [one.pod for one in (of_others, named, alone, pod)] == ["", "own", "web", "shop"]
    assert [one.name for one in pod.containers] == ["db", "", "kept"]
    assert ask.call_count == 1
