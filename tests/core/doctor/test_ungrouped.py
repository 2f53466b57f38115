"""`explain POD`: the reason why a pod has no group, and the next command."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Host as Made
from conftest import always
from golden import Golden
from hosts.monitored import MonitoredHost, monitored_host, run
from schema_checks import refusal

from core.doctor.unrecorded import HOOK, ID, POD, PODMANS, Node
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.doctor import ungrouped
from resctrl_hooks.core.doctor.finding import Finding
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.runner import checks
from resctrl_hooks.core.doctor.state import classes
from resctrl_hooks.core.doctor.ungrouped import PodExplanation
from resctrl_hooks.core.install.directories import RUNTIMES
from resctrl_hooks.core.install.paths import UNITS
from resctrl_hooks.core.install.unit import Unit
from resctrl_hooks.core.inventory.find import NoSuchPodError, SeveralPodsError
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.refusals import record_refusal
from resctrl_hooks.core.node.settings import load
from resctrl_hooks.core.rdt.classes import Classes
from resctrl_hooks.lab.simulation.mount import mounted

HOUSES = ("lab",)
STEPS: Any = [{"feature": "rdt", "action": "into", "needs": {"class": "gold"}}]


def without_boot_time(node: Node) -> None:
    node.install()
    (node.host.proc / "stat").unlink()


def state_directory_is_a_file(node: Node) -> None:
    node.host.state.parent.mkdir()
    node.host.state.touch()


def text_of(found: PodExplanation) -> str:
    return f"{found.name} ({found.runtime or 'recorded'}): {found.reason}\n  {found.text}\nnext: {found.next_command}"


SITUATIONS: dict[str, Callable[[Node], object]] = {
    "namespaces exclude it": lambda node: node.host.configure(namespaces=["db", "web*"]),
    "labels exclude it": lambda node: node.host.configure(labelSelector={"app": "web"}),
    "monitoring is disabled": lambda node: node.host.configure(monitoring={"enabled": False}),
    "no hook": lambda node: None,
    "older than the hook": lambda node: node.install(boot=-3600),
    "newer than the hook": lambda node: node.install(boot=3600),
    "age unknown": without_boot_time,
    "no resctrl": lambda node: node.host.configure(resctrlPath=str(node.root / "none")),
    "state directory is a file": state_directory_is_a_file,
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_reason_and_next_command_of_a_pod(
    node: Node, monkeypatch: pytest.MonkeyPatch, golden: Golden, situation: str
) -> None:
    monkeypatch.setattr(ungrouped, "SERVER", None)
    SITUATIONS[situation](node)
    first = node.explain()
    golden(text_of(first), "without record")
    for what in ("web-0", ID[:8], POD[:8]):
        assert node.explain(what) == first
    if situation == "state directory is a file":
        return
    node.record(ID, steps=STEPS, unmet={"rdt": "unknown RDT class 'gold'"})
    golden(text_of(node.explain()), "recorded, not selected")
    with node.host.context().monitor.hold(POD) as locked:
        locked.remove_member(ID)
    node.record(ID, unmet={"rdt": "unknown RDT class 'gold'"})
    golden(text_of(node.explain()), "recorded")


@pytest.mark.parametrize("runtimes", [["podman"], ["podman", "crio"], []])
def test_name_of_no_pod_or_of_several_is_refused(
    node: Node, monkeypatch: pytest.MonkeyPatch, golden: Golden, runtimes: list[str]
) -> None:
    for name in runtimes:
        path = node.root / f"image/usr/bin/{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    node.podman(monkeypatch, r"shop/web-1\t\t")
    for recorded in (False, True):
        if recorded:
            node.record(ID)
        for what in ("shop/other", "shop/wep-0", "", "c", "3f", "s", *(() if recorded else ("shop",))):
            with pytest.raises((NoSuchPodError, SeveralPodsError)) as caught:
                node.explain(what)
            golden(
                f"{caught.value}\n{caught.value.hint}", f"{what or 'nothing'}, {'recorded' if recorded else 'running'}"
            )
    assert node.explain("shop/web-1").key == PODMANS


def test_podman_container_is_explained_by_its_name_also_if_that_is_the_start_of_another_id(
    node: Node, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    name = ID[:5]
    node.podman(monkeypatch, rf"{name}\t\t")

    def explained(label: str) -> None:
        found = node.explain(PODMANS[:5])
        assert node.explain(name) == found
        assert (found.name, found.namespace, found.pod, found.key) == (name, "", name, PODMANS)
        golden(text_of(found), label)

    explained("running")
    node.host.configure(namespaces=["shop"])
    explained("excluded")
    node.host.configure()
    node.record(PODMANS)
    explained("recorded")
    node.record(PODMANS, steps=STEPS)
    explained("selected since its start")


def test_service_in_place_of_hooks_is_the_registration_where_it_has_run_and_a_refusal_is_explained(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    for has_run, reason in ((True, "no-record"), (False, "hook-not-called")):
        unit = Unit("served.service", "", 1, status=always({} if has_run else None))
        monkeypatch.setattr(ungrouped, "SERVER", unit)
        found = node.explain()
        assert found.reason == reason
        assert found.text.startswith(f"{UNITS}/served.service exists, but no record") is has_run
    names = {"namespace": "shop", "pod": "gone-0", "container": "c0", "id": "d" * 64, "key": "k" * 8}
    record_refusal(str(node.host.state), names, "no free RMID")
    found = node.explain("shop/gone-0")
    assert (found.reason, found.name) == ("refused", "shop/gone-0")
    assert found.text == "container c0 was rejected: no free RMID"


def test_runtime_that_ignores_the_folder_of_hooks_is_restarted(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.install(boot=3600)
    monkeypatch.setattr(ungrouped, "looks_past", lambda runtime, tree, folder: folder == f"/{os.path.dirname(HOOK)}")
    found = node.explain()
    assert (found.reason, found.next_command) == ("hook-not-called", RUNTIMES[found.runtime].restart)
    assert f"{found.runtime} started before" in found.text


@pytest.mark.fuse
def test_recorded_pods_are_explained_by_the_command(tmp_path: Path) -> None:
    with mounted(tmp_path / "sim") as root, monitored_host(tmp_path, root) as monitored:
        check_recorded(monitored)


def check_recorded(monitored: MonitoredHost) -> None:
    monitored.pod(0, "web-0")
    monitored.pod(1, "web-1", outside=1)
    for pod, reason in {"web-0": "grouped", "web-1": "incomplete"}.items():
        done = run(monitored, "explain", f"shop/{pod}")
        assert done.exit_code == 0, done.output
        assert done.stdout.startswith(f"shop/{pod}: {reason}\n")
        assert "\nnext: resctrl-hook " in done.stdout
    os.rmdir(monitored.resctrl / "mon_groups" / monitored.pod(2, "web-2"))
    assert "incomplete\n  another program removed the pod's group" in run(monitored, "explain", "shop/web-2").stdout
    made = json.loads(run(monitored, "explain", "shop/web-1", "-o", "json").stdout)
    assert refusal(made, schemas()["explain-pod"]) == ""
    assert made["items"][0]["next"] == f"resctrl-hook --config {monitored.config} reconcile"
    os.mkdir(monitored.resctrl / "mon_groups/somebody")
    is_foreign = "is a foreign group without a record"
    for name, said in (("somebody", is_foreign), ("mon_groups/somebody", is_foreign), ("shop/none", "unknown pod")):
        done = run(monitored, "explain", name)
        assert (done.exit_code, done.stdout, said in done.stderr, repr(name) in done.stderr) == (1, "", True, True)


# doctor on declared RDT classes that the node does not have as declared


@pytest.mark.fuse
def test_missing_or_changed_class_is_named_until_it_is_applied(host: Made, tmp_path: Path) -> None:
    def found() -> list[Finding]:
        return list(classes(Host(str(host.config))))

    declared = {"gold": {"L3": "50%"}, "batch": {"MB": 20}, "rest": {"L3": "25%"}}
    host.configure(resctrlPath=str(tmp_path / "none"), rdt={"classes": declared})
    assert found() == [], "the check of the mount names it"
    assert checks()["classes"].find is classes
    with mounted(tmp_path / "sim") as root:
        host.configure(resctrlPath=str(root), rdt={"classes": declared})
        Path(root, "rest").mkdir()
        [finding] = found()
        assert finding.level == "warning"
        assert finding.text == "declared RDT classes: gold (missing), batch (missing), rest (differs)"
        assert "`resctrl-hook rdt apply`" in finding.remedy
        Classes.of_node(Context(load(str(host.config))[0])).apply()
        assert [one.level for one in found()] == ["ok"]
        Path(root, "gold/schemata").write_text("L3:0=1\n")
        assert [one.text for one in found()] == ["declared RDT classes: gold (differs)"]
