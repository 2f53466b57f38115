"""Decisions of reconcile and `list` on containers that the plugin recorded: labels and annotations are in no bundle."""

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner
from conftest import CONTAINERDS, ID, POD_CGROUP, UID, Host, containerd_annotations
from hosts import crun

from nri.test_conflicts import recorded
from nri.test_events import OK, POD, Plugin, asking, container, host, start
from resctrl_hooks.cli import main
from resctrl_hooks.node.reconcile.discovery import observe
from resctrl_hooks.node.reconcile.rank import priority
from resctrl_hooks.node.reconcile.reconcile import reconcile
from resctrl_hooks.node.reconcile.report import Options

__all__ = ["host", "start"]


def test_changed_rules_rank_pods_by_their_labels(host: Host, start: Callable[..., Plugin]) -> None:
    peer = start(monitoring={"priority": [{"namespaces": ["none"], "value": 1}]}).greet()
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert peer.event("StartContainer", POD, container(41)) == OK
    rules = [{"labels": {"app": "db"}, "value": 90}, {"labels": {"app": "web"}, "value": 50}]
    host.configure(runtimeRoots={"runc": str(host.root / "none")}, monitoring={"priority": rules})
    context = host.context()
    (one,) = observe(context).containers
    assert priority(context, one, None) == 50


def test_pods_of_plugin_are_selected_by_label(host: Host, start: Callable[..., Plugin]) -> None:
    peer = start().greet()
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert peer.event("StartContainer", POD, container(41)) == OK
    for selector, found in (("app=web", "pod/shop/web-0"), ("app=db", "")):
        result = CliRunner().invoke(main, ["--config", str(host.config), "list", "-o", "name", "-l", selector])
        assert result.output.strip() == found.removeprefix("pod/")


def test_class_by_annotation_is_applied_as_soon_as_it_exists(host: Host, start: Callable[..., Plugin]) -> None:
    peer = start(rdt={"enabled": True, "allow": {"*": ["gold"]}}).greet()
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="")
    assert peer.event("StartContainer", asking("gold"), container(41)) == OK
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
def test_labels_and_annotations_complete_a_container_that_reconcile_adopted_first(
    host: Host, start: Callable[..., Plugin], event: str
) -> None:
    plugin = start(
        rdt={"enabled": True, "allow": {"*": ["gold"]}},
        monitoring={"priority": [{"labels": {"app": "web"}, "value": 50}]},
    )
    host.add_class("gold")
    host.process(41, f"{POD_CGROUP}/{ID}", rdt="")
    appear(host, 41)
    peer = plugin.peer
    peer.introduce()
    reconcile(host.context(), Options())
    assert ("told" in recorded(host), [step["feature"] for step in recorded(host)["steps"]]) == (False, ["monitoring"])
    if event == "Synchronize":
        peer.synchronize(container(41, state=3), pod=asking("gold"))
    else:
        peer.synchronize()
    plugin.wait_for_log("Synchronize: ")
    if event == "StartContainer":
        assert peer.event(event, asking("gold"), container(41)) == OK
    reconcile(host.context(), Options())
    record = recorded(host)
    assert record["told"]["labels"] == {"app": "web"}
    assert [step["feature"] for step in record["steps"]] == ["rdt", "monitoring"]
    assert (host.resctrl / "gold/tasks").read_text().split() == ["41"]
    context = host.context()
    (one,) = observe(context).containers
    assert priority(context, one, None) == 50
    assert not record.get("unplanned")
