"""Decisions of reconcile and `list` on containers that the plugin recorded: labels and annotations are in no bundle."""

import json

import pytest
from click.testing import CliRunner
from conftest import CONTAINERDS, ID, POD_CGROUP, UID, Host, containerd_annotations
from hosts import crun

from nri.conftest import NOTHING, RDT, asking, configure, container, message, plugin_of, served, synchronized
from nri.test_conflicts import recorded
from resctrl_hooks.cli import main
from resctrl_hooks.node.reconcile.discovery import observe
from resctrl_hooks.node.reconcile.rank import priority
from resctrl_hooks.node.reconcile.reconcile import reconcile
from resctrl_hooks.node.reconcile.report import Options

pytestmark = pytest.mark.usefixtures("alarm")


def test_changed_rules_rank_pods_by_their_labels(host: Host) -> None:
    plugin = plugin_of(host, monitoring={"priority": [{"namespaces": ["none"], "value": 1}]})
    host.process(41, f"{POD_CGROUP}/{ID}")
    assert served(plugin, "StartContainer", message(41)) == NOTHING
    rules = [{"labels": {"app": "db"}, "value": 90}, {"labels": {"app": "web"}, "value": 50}]
    configure(host, monitoring={"priority": rules})
    context = host.context()
    (one,) = observe(context).containers
    assert priority(context, one, None) == 50


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
    assert priority(context, one, None) == 50
    assert not record.get("unplanned")
