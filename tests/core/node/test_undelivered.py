"""Settings that enable a feature whose modules are not on the node: it fails by its policy, and the rest works."""

import sys
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations, state

from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options

SLOW = {"enabled": True, "classes": {"slow": [{"weight": 20}]}, "defaults": {"namespaces": {"shop": "slow"}}}
WORDS = (
    "the modules of blockio are not installed here; "
    "run `resctrl-hook install`, or render the MachineConfig, with these settings"
)


def node(host: Host, **section: Any) -> dict[str, Any]:
    host.configure(blockio={**SLOW, **section})
    pid = host.process(100, f"{POD_CGROUP}/crio-{ID}", rdt="/")
    notes = crio_annotations()
    return state(pid=pid, bundle=host.bundle({"annotations": notes, "linux": {}}), annotations=notes)


@pytest.fixture(autouse=True)
def without_blockio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resctrl_hooks.core.node.features.blockio", None)


def test_hook_follows_the_features_policy_and_reconcile_continues(host: Host) -> None:
    outcome = host.call(node(host))
    assert (outcome.code, host.groups()) == (0, [f"mon_groups/{UID}"])
    assert WORDS in outcome.log
    report = reconcile(host.context())
    assert report.ok
    assert report.events["unmet"] == {f"{ID[:12]} blockio": WORDS}
    assert host.call(node(host, failurePolicy="fail")).code == 79


def test_reconcile_reports_a_missing_feature_that_adopts_containers(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FEATURES["blockio"], "adopts", True)
    host.call(node(host))
    for dry_run in (True, False):
        assert reconcile(host.context(), Options(dry_run=dry_run)).events["failed"] == {"blockio": WORDS}
