from __future__ import annotations

from typing import Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, state

from resctrl_hooks.core.node import registry
from resctrl_hooks.core.node.container.oci import Bundle, State
from resctrl_hooks.core.node.container.workload import Workload, derive
from resctrl_hooks.core.node.feature import SKIP, Step
from resctrl_hooks.core.node.features import rdt_class
from resctrl_hooks.core.node.features.rdt_class import RdtClassError
from resctrl_hooks.core.node.host.procfs import Cgroup

OURS = "class.rdt.resctrl-hooks.io"
NRI = "rdtclass.resource-policy.nri.io"
BETA = "rdt.resources.beta.kubernetes.io"
PODMAN = {"io.container.manager": "libpod"}
CONTAINERD = {
    "io.kubernetes.cri.container-type": "container",
    "io.kubernetes.cri.sandbox-uid": UID,
    "io.kubernetes.cri.sandbox-namespace": "shop",
    "io.kubernetes.cri.container-name": "c0",
}


@pytest.fixture
def rdt_host(host: Host) -> Host:
    host.configure(rdt={"enabled": True, "allow": {"shop": ["gold"], "": ["*"]}})
    for name in ("gold", "silver"):
        host.add_class(name)
    host.process(100, f"{POD_CGROUP}/crio-{ID}", threads=(101,))
    return host


def workload(annotations: dict[str, str], cgroup: str = POD_CGROUP, **rdt: Any) -> Workload:
    told = State(ID, "created", 100, "/b", annotations)
    makers = {"cri-o": "crio", "libpod": "libpod"}
    maker = makers.get(annotations.get("io.container.manager", ""), "cri-containerd")
    cgroup = f"{'/machine.slice' if maker == 'libpod' else cgroup}/{maker}-{ID}"
    return derive(told, Bundle({"linux": {"intelRdt": rdt}}), [Cgroup("", cgroup)], "/cg")


def plan(host: Host, annotations: dict[str, str], **of: Any) -> Step:
    (step,) = registry.plan(rdt_class.FEATURE, workload(annotations, **of), host.context())
    return step


@pytest.mark.parametrize(
    "annotations, chosen",
    [
        (crio_annotations() | {OURS: "gold"}, "gold"),
        (crio_annotations() | {f"{OURS}/c0": "gold", OURS: "silver"}, "gold"),
        (crio_annotations() | {f"{OURS}/other": "gold"}, ""),
        (crio_annotations() | {f"{BETA}/pod": "gold"}, ""),  # CRI-O's own business
        (CONTAINERD | {f"{BETA}/pod": "silver", f"{BETA}/container.c0": "gold"}, "gold"),
        (PODMAN | {"io.kubernetes.cri.rdt-class": "silver"}, "silver"),
        (PODMAN | {f"{BETA}/pod": "silver"}, "silver"),
        (crio_annotations() | {f"{NRI}/pod": "silver", f"{NRI}/container.c0": "gold"}, "gold"),
        (CONTAINERD | {f"{NRI}/pod": "gold"}, "gold"),
        (CONTAINERD | {f"{BETA}/pod": "gold", f"{NRI}/pod": "silver"}, "gold"),
        (crio_annotations() | {OURS: "/"}, ""),
        (crio_annotations(), ""),
    ],
)
def test_annotation_precedence_is_as_documented(rdt_host: Host, annotations: dict[str, str], chosen: str) -> None:
    step = plan(rdt_host, annotations)
    assert step.parameters == ({"class": chosen} if chosen else {})
    assert (step.action == SKIP) is not bool(chosen)


def test_class_of_runtime_stays(rdt_host: Host) -> None:
    step = plan(rdt_host, crio_annotations() | {OURS: "gold"}, closID="silver")
    assert step.action == SKIP
    assert "the runtime assigned RDT class silver" in step.why
    rdt_host.end_process(100)
    rdt_host.process(100, rdt="silver")
    assert "already in RDT class silver" in plan(rdt_host, crio_annotations() | {OURS: "gold"}).why


@pytest.mark.parametrize(
    "asked, words",
    [
        ("silver", "namespace shop is not allowed to use RDT class 'silver'"),
        ("../gold", "is not allowed to"),
        ("x" * 999, "is not allowed to"),
    ],
)
def test_only_allowed_classes_are_used(rdt_host: Host, asked: str, words: str) -> None:
    with pytest.raises(RdtClassError, match=words):
        plan(rdt_host, crio_annotations() | {OURS: asked})


@pytest.mark.parametrize(
    "asked, meant",
    [
        ("gld", "gold"), ("Gold", "gold"), ("goldd", "gold"), ("glod", "gold"), ("ogld", "gold"), ("hold", "gold"),
        ("silver", ""), ("silvr", ""), ("gone", ""), ("x", ""), ("x" * 999, ""),
    ],
)  # fmt: skip
def test_mistyped_class_suggests_declared_one_of_namespace(rdt_host: Host, asked: str, meant: str) -> None:
    rdt_host.configure(rdt={"enabled": True, "allow": {"shop": ["gold"]}, "classes": {"gold": {}, "silver": {}}})
    with pytest.raises(RdtClassError, match="is not allowed to use RDT class") as caught:
        plan(rdt_host, crio_annotations() | {OURS: asked})
    assert str(caught.value).partition("; did you mean ")[2] == (f"'{meant}'?" if meant else "")
    assert (": unknown name;" in str(caught.value)) == bool(meant)
    assert ("rdt.allow in the configuration" in str(caught.value)) != bool(meant)


@pytest.mark.parametrize("asked, meant", [("glod", "gold"), ("silvr", "silver"), ("bronze", "")])
def test_missing_class_of_an_allowed_name_suggests_an_existing_one(rdt_host: Host, asked: str, meant: str) -> None:
    rdt_host.configure(rdt={"enabled": True, "allow": {"shop": ["*"]}})
    with pytest.raises(RdtClassError, match=f"unknown RDT class '{asked}' for annotation ") as caught:
        plan(rdt_host, crio_annotations() | {OURS: asked})
    assert str(caught.value).partition("; did you mean ")[2] == (f"'{meant}'?" if meant else "")


def test_missing_class_is_reported(rdt_host: Host) -> None:
    with pytest.raises(RdtClassError, match=r"unknown RDT class 'bronze' for annotation .*rdt apply"):
        plan(rdt_host, PODMAN | {OURS: "bronze"})


@pytest.mark.parametrize(
    "defaults, cgroup, chosen",
    [
        ({"namespaces": {"sh*": "silver"}, "qos": {"Guaranteed": "gold"}}, POD_CGROUP, "silver"),
        ({"namespaces": {"other": "silver"}, "qos": {"Burstable": "gold"}}, POD_CGROUP, "gold"),
        ({"qos": {"Guaranteed": "gold"}}, POD_CGROUP.replace("/burstable", ""), "gold"),
        ({"qos": {"BestEffort": "gold"}}, POD_CGROUP, ""),
        ({}, POD_CGROUP, ""),
    ],
)
def test_defaults_need_no_permission(rdt_host: Host, defaults: dict[str, Any], cgroup: str, chosen: str) -> None:
    rdt_host.configure(rdt={"enabled": True, "defaults": defaults})
    assert plan(rdt_host, crio_annotations(), cgroup=cgroup).parameters.get("class", "") == chosen


def test_container_without_namespace_is_described_so(rdt_host: Host) -> None:
    rdt_host.configure(rdt={"enabled": True, "allow": {"?*": ["*"]}})
    with pytest.raises(RdtClassError) as caught:
        plan(rdt_host, PODMAN | {OURS: "bronze"})
    assert str(caught.value) == (
        "a container without a namespace is not allowed to use RDT class 'bronze'; rdt.allow in the configuration "
        'lists what is allowed (`""` for no namespace)'
    )
    rdt_host.configure(rdt={"enabled": True, "allow": {"db": ["*"]}})
    with pytest.raises(RdtClassError, match=r"^namespace shop .* lists what is allowed$"):
        plan(rdt_host, crio_annotations() | {OURS: "bronze"})
    rdt_host.configure(rdt={"enabled": True, "defaults": {"namespaces": {"": "gold"}}})
    assert plan(rdt_host, PODMAN).why.endswith("by the default of containers without a namespace")


def start(host: Host, name: str) -> Any:
    return host.call(state(bundle=host.bundle(), annotations=crio_annotations() | {OURS: name}))


def test_class_is_joined_before_group(rdt_host: Host) -> None:
    assert start(rdt_host, "gold")[:2] == (0, "")
    assert rdt_host.tasks("gold") == [100, 101]
    assert rdt_host.groups() == [f"gold/mon_groups/{UID}"]
    assert rdt_host.tasks(f"gold/mon_groups/{UID}") == [100, 101]


def test_refusal_follows_policy_of_section(rdt_host: Host) -> None:
    outcome = start(rdt_host, "silver")
    assert outcome.code == 0
    assert "is not allowed to use RDT class 'silver'" in outcome.log
    assert rdt_host.groups() == [f"mon_groups/{UID}"]
    rdt_host.configure(rdt={"enabled": True, "failurePolicy": "fail"})
    assert start(rdt_host, "silver").code == 79


def test_process_still_in_root_class_was_not_moved(rdt_host: Host) -> None:
    rdt_host.process(100, f"{POD_CGROUP}/crio-{ID}", rdt="/")
    rdt_host.configure(rdt={"enabled": True, "failurePolicy": "fail", "allow": {"shop": ["gold"]}})
    outcome = start(rdt_host, "gold")
    assert outcome.code == 79
    assert "was moved to RDT class gold but is in the root class" in outcome.stderr


def test_reconcile_repairs_tasks_in_root_class(rdt_host: Host) -> None:
    rdt_host.end_process(100)
    rdt_host.process(100, f"{POD_CGROUP}/crio-{ID}", rdt="/")
    start(rdt_host, "gold")
    (rdt_host.resctrl / "gold" / "tasks").write_text("")
    (rdt_host.cgroup / f"{POD_CGROUP}/crio-{ID}".lstrip("/") / "cgroup.threads").write_text("100\n")
    rdt_host.enforce()  # which finds that this simulated /proc still says otherwise
    assert rdt_host.tasks("gold") == [100]
    (rdt_host.proc / "100/cpu_resctrl_groups").write_text("res:silver\nmon:\n")
    report = rdt_host.enforce()
    assert (report.applied, report.events["failed"]) == ({}, {})  # a class to which another program moved it stays


def test_class_removed_under_running_container_is_reported(rdt_host: Host) -> None:
    rdt_host.end_process(100)
    rdt_host.process(100, f"{POD_CGROUP}/crio-{ID}", rdt="/")
    start(rdt_host, "gold")
    (rdt_host.resctrl / "gold").rename(rdt_host.root / "away")
    for _ in range(2):
        (why,) = rdt_host.enforce().events["failed"].values()
        assert "RDT class gold was removed; the container runs in the root class" in why
    assert rdt_host.log.read_text().count("RDT class gold was removed") == 1


def test_class_not_joined_does_not_hold_without_proc_files(rdt_host: Host) -> None:
    """As in a simulation."""
    step = plan(rdt_host, crio_annotations() | {OURS: "gold"})
    found = workload(crio_annotations())
    (rdt_host.resctrl / "tasks").write_text("100\n")
    assert not rdt_class.FEATURE.holds(step, found, rdt_host.context())
    (rdt_host.resctrl / "tasks").write_text("")
    assert not rdt_class.FEATURE.holds(step, found, rdt_host.context()), "a plain tree lists no task that never moved"
    (rdt_host.resctrl / "gold/tasks").write_text("100\n")
    assert rdt_class.FEATURE.holds(step, found, rdt_host.context())
