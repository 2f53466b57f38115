"""The RDT class and the group of a container: its choice, permission, place and repair."""

from pathlib import Path
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, containerd_annotations, crio_annotations, state
from hosts.cluster import Cluster
from hosts.faults import Fail

from resctrl_hooks.core.node import errors, registry
from resctrl_hooks.core.node.container.oci import Bundle, State
from resctrl_hooks.core.node.container.workload import Workload, derive
from resctrl_hooks.core.node.feature import SKIP, Feature, Step
from resctrl_hooks.core.node.features import monitoring, rdt_class
from resctrl_hooks.core.node.host.procfs import Cgroup
from resctrl_hooks.core.node.resctrl.locked_key import LockedKey
from resctrl_hooks.core.node.sharing.limits import NamespaceLimitError, check_limit

HOUSES = ("lab",)
OURS = "class.rdt.resctrl-hooks.io"
NRI = "rdtclass.resource-policy.nri.io"
BETA = "rdt.resources.beta.kubernetes.io"
PODMAN = {"io.container.manager": "libpod"}
CONTAINERD = containerd_annotations(UID, "shop")
CRIO = crio_annotations()


@pytest.fixture
def rdt_host(host: Host) -> Host:
    host.configure(rdt={"enabled": True, "allow": {"shop": ["gold"], "": ["*"]}})
    for name in ("gold", "silver"):
        host.add_class(name)
    host.process(100, f"{POD_CGROUP}/crio-{ID}", threads=(101,))
    return host


def workload(annotations: dict[str, str] = CRIO, cgroup: str = POD_CGROUP, pid: int = 100, **rdt: Any) -> Workload:
    told = State(ID, "created", pid, "/b", annotations)
    makers = {"cri-o": "crio", "libpod": "libpod"}
    maker = makers.get(annotations.get("io.container.manager", ""), "cri-containerd")
    cgroup = f"{'/machine.slice' if maker == 'libpod' else cgroup}/{maker}-{ID}"
    return derive(told, Bundle({"linux": {"intelRdt": rdt}}), [Cgroup("", cgroup)], "/cg")


def plan(host: Host, annotations: dict[str, str] = CRIO, feature: Feature = rdt_class.FEATURE, **of: Any) -> Step:
    (step,) = registry.plan(feature, workload(annotations, **of), host.context())
    return step


@pytest.mark.parametrize("annotations, chosen", [
    (CRIO | {OURS: "gold"}, "gold"), (CRIO | {f"{OURS}/c0": "gold", OURS: "silver"}, "gold"),
    (CRIO | {f"{OURS}/other": "gold"}, ""), (CRIO | {f"{BETA}/pod": "gold"}, ""),  # CRI-O's own business
    (CONTAINERD | {f"{BETA}/pod": "silver", f"{BETA}/container.c0": "gold"}, "gold"),
    (PODMAN | {"io.kubernetes.cri.rdt-class": "silver"}, "silver"), (PODMAN | {f"{BETA}/pod": "silver"}, "silver"),
    (CRIO | {f"{NRI}/pod": "silver", f"{NRI}/container.c0": "gold"}, "gold"),
    (CONTAINERD | {f"{NRI}/pod": "gold"}, "gold"),
    (CONTAINERD | {f"{BETA}/pod": "gold", f"{NRI}/pod": "silver"}, "gold"), (CRIO | {OURS: "/"}, ""), (CRIO, ""),
])  # fmt: skip
def test_annotation_precedence_is_as_documented(rdt_host: Host, annotations: dict[str, str], chosen: str) -> None:
    step = plan(rdt_host, annotations)
    assert step.parameters == ({"class": chosen} if chosen else {})
    assert (step.action == SKIP) is not bool(chosen)


def test_class_of_runtime_or_of_another_program_stays(rdt_host: Host) -> None:
    given: dict[str, Any] = {
        "the runtime assigned RDT class silver": {"closID": "silver"},
        "already in RDT class silver": {},
    }
    for why, bundle in given.items():
        step = plan(rdt_host, CRIO | {OURS: "gold"}, **bundle)
        assert (step.action, step.foreign) == (SKIP, ["class is silver instead of gold"])
        assert why in step.why
        rdt_host.end_process(100)
        rdt_host.process(100, rdt="silver")


@pytest.mark.parametrize("allowed, asked, meant", [
    *(("gold", asked, "gold") for asked in ("gld", "Gold", "goldd", "glod", "ogld", "hold")),
    *(("gold", asked, "") for asked in ("silver", "silvr", "gone", "x", "x" * 999, "../gold")),
    ("*", "glod", "gold"), ("*", "silvr", "silver"), ("*", "bronze", ""),
])  # fmt: skip
def test_only_allowed_and_existing_classes_are_used_or_suggested(
    rdt_host: Any, allowed: str, asked: str, meant: str
) -> None:
    rdt_host.configure(rdt={"enabled": True, "allow": {"shop": [allowed]}, "classes": {"gold": {}, "silver": {}}})
    words = "is not allowed to use RDT class" if allowed == "gold" else f"unknown RDT class '{asked}' for annotation"
    with pytest.raises(rdt_class.RdtClassError, match=words) as caught:
        plan(rdt_host, CRIO | {OURS: asked})
    said = str(caught.value)
    assert said.partition("; did you mean ")[2] == (f"'{meant}'?" if meant else "")
    if allowed == "gold":
        assert (": unknown name;" in said) == bool(meant)
        assert ("rdt.allow in the configuration" in said) != bool(meant)


@pytest.mark.parametrize("defaults, cgroup, chosen", [
    ({"namespaces": {"sh*": "silver"}, "qos": {"Guaranteed": "gold"}}, POD_CGROUP, "silver"),
    ({"namespaces": {"other": "silver"}, "qos": {"Burstable": "gold"}}, POD_CGROUP, "gold"),
    ({"qos": {"Guaranteed": "gold"}}, POD_CGROUP.replace("/burstable", ""), "gold"),
    ({"qos": {"BestEffort": "gold"}}, POD_CGROUP, ""), ({}, POD_CGROUP, ""),
])  # fmt: skip
def test_defaults_need_no_permission(rdt_host: Host, defaults: dict[str, Any], cgroup: str, chosen: str) -> None:
    rdt_host.configure(rdt={"enabled": True, "defaults": defaults})
    assert plan(rdt_host, cgroup=cgroup).parameters.get("class", "") == chosen


def test_process_still_in_root_class_was_not_moved_and_is_repaired(rdt_host: Host) -> None:
    rdt_host.process(100, f"{POD_CGROUP}/crio-{ID}", rdt="/")
    for policy in ("fail", "ignore"):
        rdt_host.configure(rdt={"enabled": True, "failurePolicy": policy, "allow": {"shop": ["gold"]}})
        outcome = rdt_host.call(state(bundle=rdt_host.bundle(), annotations=CRIO | {OURS: "gold"}))
        assert outcome.code == (79 if policy == "fail" else 0)
        assert "was moved to RDT class gold but is in the root class" in outcome.stderr
    (rdt_host.resctrl / "gold" / "tasks").write_text("")
    (rdt_host.cgroup / f"{POD_CGROUP}/crio-{ID}".lstrip("/") / "cgroup.threads").write_text("100\n")
    rdt_host.enforce()  # which finds that this simulated /proc still says otherwise
    assert rdt_host.tasks("gold") == [100]
    (rdt_host.proc / "100/cpu_resctrl_groups").write_text("res:silver\nmon:\n")
    report = rdt_host.enforce()
    assert (report.applied, report.events["failed"]) == ({}, {})  # a class to which another program moved it stays
    (rdt_host.proc / "100/cpu_resctrl_groups").write_text("res:/\nmon:\n")
    (rdt_host.resctrl / "gold").rename(rdt_host.root / "away")
    for _ in range(2):
        (why,) = rdt_host.enforce().events["failed"].values()
        assert "RDT class gold was removed; the container runs in the root class" in why
    assert rdt_host.log.read_text().count("RDT class gold was removed") == 1


def group(host: Host, **of: Any) -> Step:
    return plan(host, of.pop("annotations", CRIO), monitoring.FEATURE, **of)


@pytest.mark.parametrize("rdt", [
    {"schemata": ["L3:0=ff"]}, {"enableMonitoring": True}, {"l3CacheSchema": "L3:0=f"}, {"memBwSchema": "MB:0=50"},
    {"enableCMT": True, "closID": ""},
])  # fmt: skip
def test_class_of_bundle_without_closid_is_named_by_the_container(host: Host, rdt: dict[str, Any]) -> None:
    step = group(host, pid=0, **rdt)
    assert step.parameters == {"class": ID}
    assert "because its bundle has linux.intelRdt without closID" in step.why
    host.process(100, rdt=None)
    assert group(host, **rdt).parameters == {"class": ""}, "its runtime has no RDT support"
    host.add_class(ID)
    assert group(host, **rdt).parameters == {"class": ID}


def test_excluded_containers_have_reason_and_labels_are_read_only_on_demand(host: Host) -> None:
    host.process(100)
    unreadable = CRIO | {"io.kubernetes.cri-o.ResolvPath": "/nonexistent/resolv.conf"}
    assert group(host, annotations=unreadable).action == "join"
    excluding: dict[str, Any] = {"not among": {"namespaces": ["kube-*"]}, "app=web": {"labelSelector": {"app": "web"}}}
    for why, config in excluding.items():
        host.configure(**config)
        step = group(host)
        assert step.action == SKIP
        assert why in step.why


@pytest.mark.parametrize("others", [0, 1])
def test_group_of_a_container_that_cannot_join_is_removed_unless_used(tmp_path: Path, fail: Fail, others: int) -> None:
    cluster = Cluster(tmp_path)
    pids = [cluster.start(number)[1] for number in range(1, 1 + others)]
    id_, pid = cluster.spawn(2)
    fail(LockedKey, "assign_pid", errors.TaskGoneError.of(pid))
    cluster.hook(id_, pid)
    record = cluster.context().ledger.read_pod(UID)
    assert record is not None
    assert (len(record["groups"]), len(cluster.kernel.groups())) == (others, others)
    assert [cluster.groups_of(one) for one in pids] == [{("", UID)}] * others


def test_namespace_at_limit_waits_until_one_of_its_pods_ends(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.host.configure(monitoring={"limits": {"sh*": 1, "*": 9}})
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
    cluster.host.configure(monitoring={"limits": {"": 0}})
    with pytest.raises(NamespaceLimitError, match=r'^namespace "" holds 0 RMIDs of at most 0'):
        check_limit(UID, "", cluster.host.context())


def test_group_reserved_beside_other_containers_is_recorded_as_reserved(tmp_path: Path) -> None:
    context = Cluster(tmp_path).context()
    step = Step(monitoring.NAME, "join", {"class": ""}, "")
    with context.monitor.hold(UID) as locked:
        monitoring.FEATURE.reserve(step, workload(), locked, context)
        assert "reserved" not in locked.record, "the first container's group is new"
        locked.add_member("c1", {"steps": []})
        monitoring.FEATURE.reserve(step, workload(), locked, context)
        assert locked.record["reserved"].keys() == {""}
    assert (context.ledger.read_pod(UID) or {}).get("reserved")
