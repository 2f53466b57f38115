"""Decisions of reconcile and `list` on containers that the plugin recorded: labels and annotations are in no bundle."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import CONTAINERDS, ID, POD_CGROUP, UID, Host, containerd_annotations, crio_annotations, state
from hosts import crun

from nri.node.conftest import (
    LIMITS,
    MEMORY,
    NOTHING,
    POD,
    RDT,
    TIMEOUT,
    asking,
    configure,
    container,
    log,
    message,
    placement,
    plugin_of,
    served,
    synchronized,
)
from nri.node.test_conflicts import cgroup_with, recorded
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.node.reconcile.discovery import observe
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.core.node.sharing.priority import priority_in
from resctrl_hooks.nri.node.plugin import NodePlugin

pytestmark = pytest.mark.usefixtures("alarm")


def test_changed_rules_rank_pods_by_their_labels(host: Host) -> None:
    plugin = plugin_of(host, monitoring={"priority": [{"namespaces": ["none"], "value": 1}]})
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert served(plugin, "StartContainer", message(41)) == NOTHING
    rules = [{"labels": {"app": "db"}, "value": 90}, {"labels": {"app": "web"}, "value": 50}]
    configure(host, monitoring={"priority": rules})
    context = host.context()
    (one,) = observe(context).containers
    assert priority_in(context, one, None) == 50


def test_pods_of_plugin_are_selected_by_label(host: Host) -> None:
    plugin = plugin_of(host)
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert served(plugin, "StartContainer", message(41)) == NOTHING
    for selector, found in (("app=web", "pod/shop/web-0"), ("app=db", "")):
        result = CliRunner().invoke(main, ["--config", str(host.config), "list", "-o", "name", "-l", selector])
        assert result.output.strip() == found.removeprefix("pod/")


def test_class_by_annotation_is_applied_as_soon_as_it_exists(host: Host) -> None:
    plugin = plugin_of(host, rdt=RDT)
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="")
    assert served(plugin, "StartContainer", message(41, asking("gold"))) == NOTHING
    assert host.groups() == [f"mon_groups/{UID}"]
    host.add_class("gold")
    assert host.enforce().applied == {"rdt": [ID]}
    assert (host.resctrl / "gold/tasks").read_text().split() == ["41"]


def appear(host: Host, pid: int) -> None:
    """Put a container of containerd into its runtime's directory, without the pod's labels and annotations."""
    bundle = host.root / CONTAINERDS / "k8s.io" / ID
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps({"annotations": containerd_annotations(UID, "shop"), "linux": {}}))
    crun.record(host.root / "none", ID, pid, bundle, 1000)


@pytest.mark.parametrize("event", ["StartContainer", "Synchronize"])
def test_labels_and_annotations_complete_a_container_that_reconcile_adopted_first(host: Host, event: str) -> None:
    plugin = plugin_of(host, rdt=RDT, monitoring={"priority": [{"labels": {"app": "web"}, "value": 50}]})
    host.add_class("gold")
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="")
    appear(host, 41)
    reconcile(host.context(), Options())
    assert ("told" in recorded(host), [step["feature"] for step in recorded(host)["steps"]]) == (False, ["monitoring"])
    if event == "Synchronize":
        assert synchronized(plugin, container(41), pod=asking("gold")) == NOTHING
    else:
        assert served(plugin, event, message(41, asking("gold"))) == NOTHING
    reconcile(host.context(), Options())
    record = recorded(host)
    assert record["told"]["labels"] == {"app": "web"}
    assert [step["feature"] for step in record["steps"]] == ["rdt", "monitoring"]
    assert (host.resctrl / "gold/tasks").read_text().split() == ["41"]
    context = host.context()
    (one,) = observe(context).containers
    assert priority_in(context, one, None) == 50
    assert not record.get("unplanned")


def call_hook(host: Host, pid: int = 41) -> None:
    """Call the hook as NRI's hook-injector has containerd call it: without the pod's labels and annotations."""
    notes = containerd_annotations(UID, "shop")
    bundle = host.root / CONTAINERDS / "k8s.io" / ID
    if not bundle.exists():
        bundle.parent.mkdir(parents=True)
        Path(host.bundle({"annotations": notes, "linux": {}})).rename(bundle)
    assert host.call(state(pid=pid, bundle=str(bundle), annotations=notes)).code == 0


def begin(host: Host, plugin: NodePlugin, event: str, pod: dict[str, Any]) -> None:
    """Serve the first event that tells a container's labels and annotations."""
    if event == "Synchronize":
        assert synchronized(plugin, container(41), pod=pod) == NOTHING
    else:
        assert served(plugin, event, message(41, pod)) == NOTHING


def features(host: Host) -> list[str]:
    return [step["feature"] for step in recorded(host)["steps"]]


@pytest.mark.parametrize("event", ["StartContainer", "PostStartContainer", "Synchronize"])
def test_plugin_completes_a_container_of_a_hook_without_annotations(host: Host, event: str) -> None:
    plugin = plugin_of(host, **LIMITS)
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="/")
    folder = cgroup_with(host, f"{POD_CGROUP}/{ID}", **{"cgroup.procs": "41"})
    call_hook(host)
    assert ("told" in recorded(host), features(host)) == (False, ["monitoring"])
    begin(host, plugin, event, MEMORY)
    assert (folder / "memory.high").read_text().strip() == str(64 << 20)
    assert (recorded(host)["told"]["labels"], features(host)) == ({"app": "web"}, ["monitoring", "memory"])
    assert not recorded(host).get("unplanned")
    assert not reconcile(host.context(), Options()).applied
    assert served(plugin, "StartContainer", message(41, MEMORY)) == NOTHING
    assert log(host).count("completed by labels and annotations: memory") == (event != "Synchronize")


@pytest.mark.parametrize("event", ["StartContainer", "Synchronize"])
def test_annotated_class_replaces_the_default_of_a_hook_without_annotations(host: Host, event: str) -> None:
    defaults = {"defaults": {"namespaces": {"shop": "bronze"}}}
    classes = [{"name": "batch", "allowswap": True}, {"name": "bronze", "allowswap": False}]
    plugin = plugin_of(
        host, rdt={**RDT, **defaults}, **{**LIMITS, "memory": {**LIMITS["memory"], **defaults}, "classes": classes}
    )
    host.add_class("gold")
    host.add_class("bronze")
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="/")
    folder = cgroup_with(host, f"{POD_CGROUP}/{ID}", **{"cgroup.procs": "41"})
    call_hook(host)
    assert features(host) == ["rdt", "monitoring", "memory"]
    assert host.tasks("bronze") == [41]
    (host.proc / "41/cpu_resctrl_groups").write_text(f"res:bronze\nmon:{UID}\n")
    begin(host, plugin, event, {**MEMORY, "annotations": {**MEMORY["annotations"], **asking("gold")["annotations"]}})
    assert features(host) == ["rdt", "monitoring", "memory"]
    assert [step["needs"]["class"] for step in recorded(host)["steps"]] == ["gold", "bronze", "batch"]
    assert 41 in host.tasks("gold")
    assert (folder / "memory.swap.max").read_text().strip() == "max"


def test_default_of_a_hook_stays_without_other_annotations(host: Host) -> None:
    plugin = plugin_of(host, rdt={**RDT, "defaults": {"namespaces": {"shop": "bronze"}}})
    host.add_class("bronze")
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="/")
    call_hook(host)
    (host.proc / "41/cpu_resctrl_groups").write_text(f"res:bronze\nmon:{UID}\n")
    before = recorded(host)["steps"]
    assert served(plugin, "StartContainer", message(41)) == NOTHING
    assert recorded(host)["steps"] == before
    assert host.tasks("bronze") == [41]


@pytest.mark.houses("placement")
def test_container_of_a_hook_gets_the_cpus_that_its_annotation_requests(host: Host) -> None:
    section = {"policy": "pools", "pools": [{"name": "fast", "cpus": "0-1"}]}
    plugin = plugin_of(host, **placement(host, **section))
    host.context().ledger.prepare()
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="/")
    folder = cgroup_with(host, f"{POD_CGROUP}/{ID}", **{"cpuset.cpus": "", "cpuset.mems": "", "cgroup.procs": "41"})
    call_hook(host)
    assert (folder / "cpuset.cpus").read_text() == "2-3"
    asks = {**POD, "annotations": {"pool.placement.resctrl-hooks.io": "fast"}}
    assert served(plugin, "StartContainer", message(41, asks)) == NOTHING
    assert (folder / "cpuset.cpus").read_text() == "0-1"
    (step,) = [step for step in recorded(host)["steps"] if step["feature"] == "placement"]
    assert step["needs"]["decision"]["pool"] == "fast"
    assert not reconcile(host.context(), Options()).changed


def test_failed_step_of_a_completed_container_is_counted_and_applied_by_reconcile(host: Host) -> None:
    plugin = plugin_of(host, **{**LIMITS, "failurePolicy": "fail"})
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="/")
    folder = cgroup_with(host, f"{POD_CGROUP}/{ID}", **{"cgroup.procs": "41"})
    call_hook(host)
    (folder / "memory.high").unlink()
    (folder / "memory.high").mkdir()
    assert served(plugin, "StartContainer", message(41, MEMORY)) == NOTHING, "CRI-O would start it anyhow"
    assert "memory" in features(host)
    assert "runs without memory: cannot use a file: Is a directory (EISDIR)" in log(host)
    (folder / "memory.high").rmdir()
    (folder / "memory.high").write_text("max\n")
    reconcile(host.context(), Options())
    assert (folder / "memory.high").read_text().strip() == str(64 << 20)


def test_forbidden_class_of_annotations_that_hooks_do_not_see_is_refused_at_creation(host: Host) -> None:
    plugin = plugin_of(host, **{**LIMITS, "memory": {"allow": {}}})
    assert served(plugin, "CreateContainer", message(0, MEMORY))[0] == 2


def test_hook_after_the_plugin_keeps_what_the_plugin_has_done(host: Host) -> None:
    plugin = plugin_of(host, **LIMITS)
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="/")
    cgroup_with(host, f"{POD_CGROUP}/{ID}", **{"cgroup.procs": "41"})
    assert served(plugin, "StartContainer", message(41, MEMORY)) == NOTHING
    before = recorded(host)
    call_hook(host)
    assert recorded(host) == before
    host.process(42, f"{POD_CGROUP}/{ID}", rdt="/")
    call_hook(host, 42)
    assert recorded(host)["pid"] == 42, "started again"


def test_hook_of_crio_leaves_nothing_to_complete(host: Host) -> None:
    plugin = plugin_of(host, **LIMITS)
    plugin.configure({"runtime_name": "cri-o", "request_timeout": TIMEOUT})
    host.process(41, f"{POD_CGROUP}/crio-{ID}", rdt="/")
    cgroup_with(host, f"{POD_CGROUP}/crio-{ID}", **{"cgroup.procs": "41"})
    notes = crio_annotations() | MEMORY["annotations"]
    assert host.call(state(pid=41, bundle=host.bundle(), annotations=notes)).code == 0
    before = recorded(host)
    assert features(host) == ["monitoring", "memory"]
    assert served(plugin, "StartContainer", message(41, MEMORY)) == NOTHING
    assert recorded(host) == before


@pytest.mark.parametrize("value", ["\x01" * 1000, '"' * 1000, "\U0001f600" * 250], ids=["control", "quotes", "long"])
def test_most_texts_that_a_pod_can_have_leave_its_record_readable(host: Host, value: str) -> None:
    plugin = plugin_of(host)
    host.process(41, f"{POD_CGROUP}/{ID}")
    pod = {
        **POD,
        "annotations": {f"{number:03}.nri.io": value for number in range(255)},
        "labels": {"app": "web", **{f"{number:04}" + "x" * 300: "y" * 63 for number in range(500)}},
    }
    assert served(plugin, "StartContainer", message(41, pod)) == NOTHING
    (one,) = observe(host.context()).containers
    assert [step["feature"] for step in one.record["steps"]] == ["monitoring"]
    assert one.record["told"]["labels"]["app"] == "web"
    assert "not affected" not in log(host)


HOSTILE = ["x" * 70_000, "a\0b", "\x1b[2J", "[" * 5000]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_of_a_pod_cost_it_neither_default_nor_group(host: Host, value: str) -> None:
    host.add_class("bronze")
    defaults = {"defaults": {"namespaces": {"shop": "bronze"}}}
    plugin = plugin_of(host, rdt={"enabled": True, "classes": {"bronze": {}}, **defaults})
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="/")
    pod = {**POD, "annotations": {"class.rdt.resctrl-hooks.io": value}, "labels": {"app": value, value: "app"}}
    assert served(plugin, "StartContainer", message(41, pod)) == NOTHING
    assert log(host).count("annotation class.rdt.resctrl-hooks.io is ignored") == 1
    (one,) = observe(host.context()).containers
    assert [step["feature"] for step in one.record["steps"]] == ["rdt", "monitoring"]
    assert one.record["steps"][0]["needs"] == {"class": "bronze"}


@pytest.mark.parametrize(
    "annotations, words",
    [
        ({"class.rdt.resctrl-hooks.io": "x" * 70_000}, "annotation class.rdt.resctrl-hooks.io is ignored"),
        ({"class.rdt.resctrl-hooks.io": "missing"}, "missing"),
    ],
    ids=["dropped wish", "unknown class"],
)
def test_problem_with_a_wish_is_reported_once_for_all_events_of_a_container(
    host: Host, annotations: dict[str, str], words: str
) -> None:
    host.add_class("bronze")
    defaults = {"defaults": {"namespaces": {"shop": "bronze"}}, "failurePolicy": "ignore"}
    plugin = plugin_of(
        host,
        nri={"adjust": ["rdt"]},
        rdt={"enabled": True, "classes": {"bronze": {}}, **defaults},
    )
    pod = {**POD, "annotations": annotations}
    code, answer, _ = served(plugin, "CreateContainer", message(pod=pod))
    assert code == 0
    assert b"bronze" in answer
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="/")
    assert served(plugin, "StartContainer", message(41, pod)) == NOTHING
    (line,) = (line for line in log(host).splitlines() if "the default is applied" in line)
    assert words in line
