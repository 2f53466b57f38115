"""`list --demand` on a node with more pods than RMIDs, as a table and for programs."""

import json
from pathlib import Path

import pytest
from golden import Golden
from hosts.monitored import run
from hosts.shared_node import RULES, SharedNode

HOUSES = ("lab",)


@pytest.fixture
def crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedNode:
    """Return a node with 3 RMIDs for five pods, which commands read through its kernel."""
    node = SharedNode(tmp_path, rmids=4, priority=RULES)
    for namespace in ("batch", "batch", "batch", "gold", "silver"):
        node.start(namespace)
    monkeypatch.setattr("resctrl_hooks.core.cli.list.open_node", lambda _: node.context())
    return node


def test_list_demand_has_a_row_for_each_priority_in_each_form(crowded: SharedNode, golden: Golden) -> None:
    for words in ("", "--no-headers", "-o csv", "-o csv --no-headers"):
        done = run(crowded.host, "list", "--demand", *words.split())
        assert done.exit_code == 0, done.output
        golden(done.output, words)
    (item,) = json.loads(run(crowded.host, "list", "--demand", "-o", "json").stdout)["items"]
    assert (item["resource"], item["total"], item["others"]) == ("RMIDs", 4, 1)
    names = ("priority", "wanted", "counted", "kept", "turnPercent")
    levels = [(100, 1, 1, 1, 100.0), (50, 1, 1, 1, 100.0), (-10, 3, 1, 1, 33.3)]
    assert [tuple(level[name] for name in names) for level in item["levels"]] == levels
