from pathlib import Path
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, state
from hosts.cluster import Cluster
from hosts.faults import Fail

from resctrl_hooks.core.node import registry
from resctrl_hooks.core.node.container.oci import Bundle, State
from resctrl_hooks.core.node.container.workload import Workload, derive
from resctrl_hooks.core.node.errors import TaskGoneError
from resctrl_hooks.core.node.feature import SKIP, Step
from resctrl_hooks.core.node.features import monitoring
from resctrl_hooks.core.node.host.procfs import Cgroup
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.sharing.limits import NamespaceLimitError, check_limit

HOUSES = ("lab",)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def workload(pid: int = 100, annotations: dict[str, str] | None = None, **rdt: Any) -> Workload:
    told = State(ID, "created", pid, "/b", crio_annotations() | (annotations or {}))
    return derive(told, Bundle({"linux": {"intelRdt": rdt}}), [Cgroup("", f"{POD_CGROUP}/crio-{ID}")], "/cg")


def plan(host: Host, **of: Any) -> Step:
    (step,) = registry.plan(monitoring.FEATURE, workload(**of), host.context())
    return step


def test_group_is_that_of_pod(host: Host) -> None:
    host.process(100)
    step = plan(host)
    assert (step.feature, step.action, step.parameters) == ("monitoring", "join", {"class": ""})
    assert step.why == f"group of pod {UID} in the root class, because its bundle names no class"


@pytest.mark.parametrize(
    "rdt, asked, found",
    [
        ("gold", "silver", "gold"),
        ("/", "silver", ""),
        ("", "silver", "silver"),
        (None, "silver", "silver"),
        (None, "", ""),
    ],
)
def test_class_is_that_of_process_or_else_of_bundle(host: Host, rdt: str | None, asked: str, found: str) -> None:
    host.process(100, rdt=rdt)
    assert plan(host, closID=asked).parameters == {"class": found}


OWN = [{"schemata": ["L3:0=ff"]}, {"enableMonitoring": True}, {"l3CacheSchema": "L3:0=f"}, {"memBwSchema": "MB:0=50"}]


@pytest.mark.parametrize("rdt", [*OWN, {"enableCMT": True, "closID": ""}])
def test_class_of_bundle_without_closid_is_named_by_the_container(host: Host, rdt: dict[str, Any]) -> None:
    step = plan(host, pid=0, **rdt)
    assert step.parameters == {"class": ID}
    assert "because its bundle has linux.intelRdt without closID" in step.why
    host.process(100, rdt=None)
    assert plan(host, **rdt).parameters == {"class": ""}, "its runtime has no RDT support"
    host.add_class(ID)
    assert plan(host, **rdt).parameters == {"class": ID}


@pytest.mark.parametrize("rdt", [{}, {"closID": ""}, {"closID": "/"}, {"closID": "/", "schemata": ["L3:0=ff"]}])
def test_bundle_that_implies_no_class_is_in_the_root_class(host: Host, rdt: dict[str, Any]) -> None:
    assert plan(host, pid=0, **rdt).parameters == {"class": ""}
    assert not Bundle({"linux": {"intelRdt": rdt}}).takes_rmid


def test_ended_process_is_reported(host: Host) -> None:
    with pytest.raises(TaskGoneError):
        plan(host)


def test_plan_has_no_effect(host: Host) -> None:
    host.process(100)
    before = sorted(str(path) for path in host.root.rglob("*"))
    plan(host)
    assert sorted(str(path) for path in host.root.rglob("*")) == before


@pytest.mark.parametrize(
    "config, of, why",
    [
        ({"namespaces": ["kube-*"]}, {}, "namespace shop is not among"),
        ({"labelSelector": {"app": "web"}}, {}, "label app=web"),
    ],
)
def test_excluded_containers_have_reason(host: Host, config: dict[str, Any], of: dict[str, Any], why: str) -> None:
    host.configure(**config)
    host.process(100)
    step = plan(host, **of)
    assert step.action == SKIP
    assert why in step.why


def test_labels_are_read_only_on_demand(host: Host) -> None:
    host.process(100)
    unreadable = {"io.kubernetes.cri-o.ResolvPath": "/nonexistent/resolv.conf"}
    assert plan(host, annotations=unreadable).action == "join"


def test_group_without_tasks_after_failure_is_removed(cluster: Cluster, fail: Fail) -> None:
    id_, pid = cluster.spawn(1)
    fail(LockedKey, "assign_pid", TaskGoneError.of(pid))
    cluster.hook(id_, pid)
    assert cluster.kernel.groups() == set()
    record = cluster.context().ledger.read_pod(UID)
    assert record is not None
    assert record["groups"] == {}


def test_group_with_tasks_stays_if_another_container_cannot_join(cluster: Cluster, fail: Fail) -> None:
    _, first = cluster.start(1)
    id_, pid = cluster.spawn(2)
    fail(LockedKey, "assign_pid", TaskGoneError.of(pid))
    cluster.hook(id_, pid)
    assert cluster.groups_of(first) == {("", UID)}


def test_steps_match_plan(host: Host) -> None:
    host.add_class("gold")
    host.process(100, rdt="gold")
    context, of = host.context(), workload()
    of.pod_cgroup = str(host.cgroup)  # it exists
    with context.monitor.hold(of.key) as locked:
        monitoring.FEATURE.apply(plan(host), of, locked, context)
        assert locked.record["cgroup"] == str(host.cgroup)
        assert (locked.record["namespace"], locked.record["pod"]) == ("shop", "web-0")
    assert host.tasks(f"gold/mon_groups/{UID}") == [100]


def test_namespace_at_limit_waits_until_one_of_its_pods_ends(cluster: Cluster) -> None:
    cluster.host.configure(runtimeRoots={"crun": str(cluster.root / "crun")}, monitoring={"limits": {"sh*": 1, "*": 9}})
    first, second = UID, UID.replace("6c01", "6c02")
    ended, first_pid = cluster.start(1, first)
    _, pid = cluster.start(2, second)
    assert cluster.groups_of(pid) == {("", "")}
    report = cluster.reconcile()
    assert "namespace shop holds 1 RMIDs of at most 1" in report.events["queued"][second]
    assert (report.ok, report.events["waiting"]) == (True, {})
    (item,) = [one for one in report.as_document()["items"] if one["event"] == "queued"]
    assert (item["id"], item["message"]) == (second, report.events["queued"][second])
    cluster.poststop(ended)
    cluster.kernel.end(first_pid)
    cluster.end_pod(first)
    assert cluster.reconcile().events["queued"] == {}
    assert cluster.groups_of(pid) == {("", second)}
    assert (cluster.host.context().ledger.read_pod(second) or {})["cgroup"], "the pod's end is known"


def test_limit_of_containers_without_a_namespace_names_the_empty_key(host: Host) -> None:
    host.configure(monitoring={"limits": {"": 0}})
    with pytest.raises(NamespaceLimitError, match=r'^namespace "" holds 0 RMIDs of at most 0'):
        check_limit(UID, "", host.context())


def test_reserved_group_exists_before_the_container(host: Host) -> None:
    host.process(100)
    context, step = host.context(), plan(host)
    with context.monitor.hold(UID) as locked:
        monitoring.FEATURE.reserve(step, workload(), locked, context)
    assert host.groups() == [f"mon_groups/{UID}"]
    assert (context.ledger.read_pod(UID) or {})["pod"] == "web-0"


@pytest.mark.parametrize("lacks", [False, True])
def test_group_without_a_counter_gets_one(host: Host, monkeypatch: pytest.MonkeyPatch, *, lacks: bool) -> None:
    counted: list[str] = []
    monkeypatch.setattr(monitoring, "lacks_counter", lambda *_: lacks)
    monkeypatch.setattr(
        "resctrl_hooks.core.node.sharing.bandwidth_counters.ensure_counted", lambda _, key: counted.append(key)
    )
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    assert host.call(state(bundle=host.bundle(), annotations=crio_annotations())).code == 0
    assert counted == ([UID] if lacks else [])


def test_group_reserved_beside_other_containers_is_recorded_as_reserved(cluster: Cluster) -> None:
    context = cluster.context()
    feature = registry.feature_named(monitoring.NAME)
    assert feature is not None
    with context.monitor.hold(UID) as locked:
        step = Step(monitoring.NAME, "join", {"class": ""}, "")
        feature.reserve(step, workload(), locked, context)
        assert "reserved" not in locked.record, "the first container's group is new"
        locked.add_member("c1", {"steps": []})
        feature.reserve(step, workload(), locked, context)
        assert locked.record["reserved"].keys() == {""}
    assert (context.ledger.read_pod(UID) or {}).get("reserved")
