"""`explain POD`: the reason why a pod has no group, and the next command."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hosts.monitored import MonitoredHost, monitored_host, run
from schema_checks import refusal

from core.doctor.unrecorded import ID, NAME, POD, PODMANS, Node
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.doctor import ungrouped
from resctrl_hooks.core.install.paths import UNITS
from resctrl_hooks.core.install.unit import Unit
from resctrl_hooks.core.inventory.find import NoSuchPodError, SeveralPodsError
from resctrl_hooks.core.node.refusals import record_refusal
from resctrl_hooks.lab.simulation.mount import mounted

HOUSES = ("lab",)
STEPS: Any = [{"feature": "rdt", "action": "into", "needs": {"class": "gold"}}]
LABEL = "label app=web of the label selector does not match, or the pod has the same annotation"


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    "settings, text",
    [
        ({"namespaces": ["db", "web*"]}, '`namespaces: ["db", "web*"]` excludes namespace shop'),
        ({"labelSelector": {"app": "web"}}, f"`labelSelector` excludes it: {LABEL}"),
        ({"monitoring": {"enabled": False}}, "`monitoring.enabled` is false"),
    ],
)
def test_excluding_key_is_named(node: Node, settings: dict[str, Any], text: str, *, recorded: bool) -> None:
    node.configure(**settings)
    if recorded:
        node.record(ID, steps=STEPS)
    found = node.explain()
    assert (found.reason, found.text, found.next_command) == ("not-selected", text, "resctrl-hook config show")


def test_excluding_key_of_a_podman_container_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.podman(monkeypatch, r"excl\t\t")
    node.configure(namespaces=["shop"])
    assert node.explain("excl").text == '`namespaces: ["shop"]` excludes a container without a namespace (`""`)'


def test_missing_feature_is_explained(node: Node) -> None:
    node.record(ID, unmet={"rdt": "unknown RDT class 'gold'"})
    assert node.explain().text.endswith("; without rdt: unknown RDT class 'gold'")


def test_pod_that_is_selected_only_since_its_start_needs_a_restart(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.podman(monkeypatch, r"excl\t\t")
    text = "excluded when it started; the present configuration selects it: restart the pod to monitor it"
    for id_, what, after in ((ID, NAME, ""), (PODMANS, "excl", "podman restart excl")):
        node.record(id_, steps=STEPS)
        found = node.explain(what)
        assert (found.reason, found.text, found.next_command) == ("not-selected", text, after)


def test_runtime_without_the_hook_is_named_with_its_directories(node: Node) -> None:
    for what in (NAME, "web-0", ID[:8], POD[:8]):
        found = node.explain(what)
        assert found.reason == "hook-not-called"
        assert "crio reads hooks in /usr/share/containers/oci/hooks.d; none has resctrl-hooks.json" in found.text
        assert found.next_command == "resctrl-hook install --runtime crio"


@pytest.mark.parametrize("has_run", [True, False])
def test_service_in_place_of_hooks_is_the_registration_where_it_has_run(
    node: Node, monkeypatch: pytest.MonkeyPatch, has_run: bool
) -> None:
    unit = Unit("served.service", "", 1, status=lambda folder: {} if has_run else None)
    monkeypatch.setattr(ungrouped, "SERVER", unit)
    found = node.explain()
    assert found.reason == ("no-record" if has_run else "hook-not-called")
    assert found.text.startswith(f"{UNITS}/served.service exists, but no record") is has_run


def test_node_without_a_service_in_place_of_hooks_names_the_directories(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ungrouped, "SERVER", None)
    assert "crio reads hooks in" in node.explain().text


def test_container_older_than_the_installation_is_explained(node: Node) -> None:
    node.install(boot=-3600)
    found = node.explain()
    assert (found.reason, found.next_command) == ("started-before-installation", "resctrl-hook reconcile")


@pytest.mark.parametrize("boot", [3600, None])
def test_container_whose_hook_left_no_record_is_explained(node: Node, boot: float | None) -> None:
    node.install(boot or 0)
    if boot is None:
        (node.host.proc / "stat").unlink()
    found = node.explain()
    assert found.reason == "no-record"
    assert "the hook failed, crio did not call it, or the settings excluded it" in found.text


def test_missing_resctrl_is_the_reason(node: Node) -> None:
    node.configure(resctrlPath=str(node.root / "none"))
    found = node.explain()
    assert (found.reason, found.next_command) == ("no-resctrl", "resctrl-hook doctor")
    assert "resctrl is not mounted" in found.text


def test_reason_of_a_pod_whose_resctrl_was_unmounted_is_resctrl_and_not_reconcile(node: Node) -> None:
    node.record(ID)
    for state in ("state", "without a group"):
        found = node.explain()
        assert (found.reason, found.next_command) == ("incomplete", "resctrl-hook reconcile"), state
        node.configure(resctrlPath=str(node.root / "none"))
        found = node.explain()
        assert (found.reason, found.next_command) == ("no-resctrl", "resctrl-hook doctor"), state
        node.configure()


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("what", ["late", PODMANS[:5]])
def test_podman_container_has_its_name(
    node: Node, monkeypatch: pytest.MonkeyPatch, what: str, *, recorded: bool
) -> None:
    node.podman(monkeypatch, r"late\t\t")
    if recorded:
        node.record(PODMANS)
    found = node.explain(what)
    assert (found.name, found.namespace, found.pod, found.key) == ("late", "", "late", PODMANS)
    assert found.reason == ("incomplete" if recorded else "hook-not-called")


@pytest.mark.parametrize(
    "runtimes, hint",
    [
        (["podman"], "`podman ps --all` lists all containers"),
        (["podman", "crio"], "`kubectl get pod -o wide` shows a pod's node"),
        ([], "`kubectl get pod -o wide` shows a pod's node"),
    ],
)
def test_unknown_pod_has_a_hint_for_the_runtimes_of_the_node(node: Node, runtimes: list[str], hint: str) -> None:
    for name in runtimes:
        path = node.root / f"image/usr/bin/{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with pytest.raises(NoSuchPodError) as caught:
        node.explain("shop/other")
    assert caught.value.hint == hint


def test_refused_container_is_explained(node: Node) -> None:
    names = {"namespace": "shop", "pod": "gone-0", "container": "c0", "id": "d" * 64, "key": "k" * 8}
    record_refusal(str(node.host.state), names, "no free RMID")
    found = node.explain("shop/gone-0")
    assert (found.reason, found.name) == ("refused", "shop/gone-0")
    assert found.text == "container c0 was rejected: no free RMID"


@pytest.mark.parametrize(
    "what, text", [("", "the name of the pod is empty"), ("c", "unknown"), ("3f", "unknown"), ("s", "unknown")]
)
@pytest.mark.parametrize("recorded", [False, True])
def test_empty_or_short_name_never_selects_a_running_pod(node: Node, what: str, text: str, *, recorded: bool) -> None:
    if recorded:
        node.record(ID)
    with pytest.raises(NoSuchPodError, match=text):
        node.explain(what)


def test_name_of_several_running_pods_is_refused_with_their_names(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.podman(monkeypatch, r"shop/web-1\t\t")
    with pytest.raises(SeveralPodsError, match="'shop' matches 2 pods: shop/web-0, shop/web-1"):
        node.explain("shop")
    assert node.explain("shop/web-1").key == PODMANS


def test_whole_name_of_a_running_pod_wins_over_the_start_of_an_id(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.podman(monkeypatch, rf"{ID[:5]}\t\t")
    assert node.explain(ID[:5]).key == PODMANS


def test_recorded_pod_is_explained_by_its_record_under_each_name(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.podman(monkeypatch, r"late\t\t")
    node.record(PODMANS)
    for what in ("late", "lat", PODMANS[:3], PODMANS):
        assert node.explain(what).reason == "incomplete"


def test_unknown_pod_has_the_most_similar_running_name(node: Node) -> None:
    with pytest.raises(NoSuchPodError, match="did you mean shop/web-0"):
        node.explain("shop/wep-0")


def test_pod_of_another_node_is_unknown(node: Node) -> None:
    with pytest.raises(NoSuchPodError, match="no container of it runs on this node"):
        node.explain("shop/other")


@pytest.mark.fuse
def test_recorded_pods_are_explained_by_the_command(tmp_path: Path) -> None:
    with mounted(tmp_path / "sim") as root, monitored_host(tmp_path, root) as monitored:
        _check_recorded(monitored)


def _check_recorded(monitored: MonitoredHost) -> None:
    monitored.pod(0, "web-0")
    monitored.pod(1, "web-1", outside=1)
    for pod, reason in {"web-0": "grouped", "web-1": "incomplete"}.items():
        done = run(monitored, "explain", f"shop/{pod}")
        assert done.exit_code == 0, done.output
        assert done.stdout.startswith(f"shop/{pod}: {reason}\n")
        assert "\nnext: resctrl-hook " in done.stdout
    made = json.loads(run(monitored, "explain", "shop/web-1", "-o", "json").stdout)
    assert refusal(made, schemas()["explain-pod"]) == ""
    assert made["items"][0]["next"] == f"resctrl-hook --config {monitored.config} reconcile"
    os.mkdir(monitored.resctrl / "mon_groups/somebody")
    for name in ("somebody", "mon_groups/somebody"):
        foreign = run(monitored, "explain", name)
        assert (foreign.exit_code, foreign.stdout) == (1, "")
        assert f"{name!r} is a foreign group without a record" in foreign.stderr
    unknown = run(monitored, "explain", "shop/none")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    misused = run(monitored, "explain", "shop/web-0", "--stage", "poststop")
    assert (misused.exit_code, misused.stdout) == (2, "")
