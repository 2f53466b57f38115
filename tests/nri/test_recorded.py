"""Decisions of reconcile and `list` on containers that the plugin recorded: labels and annotations are in no bundle."""

from collections.abc import Callable

from click.testing import CliRunner
from conftest import ID, POD_CGROUP, UID, Host

from nri.test_events import OK, POD, Plugin, asking, container, host, start
from resctrl_hooks.cli import main
from resctrl_hooks.node.reconcile.discovery import observe
from resctrl_hooks.node.reconcile.rank import priority

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
