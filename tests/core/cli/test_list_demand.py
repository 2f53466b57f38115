"""`list --demand` on a node with more pods than RMIDs, as a table and for programs."""

import csv
import json
from pathlib import Path

import pytest
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


LEVELS = [(100, 1, 1, 1, 100.0), (50, 1, 1, 1, 100.0), (-10, 3, 1, 1, 33.3)]


def test_list_demand_prints_a_row_for_each_priority(crowded: SharedNode) -> None:
    found = run(crowded.host, "list", "--demand")
    assert found.exit_code == 0, found.output
    lines = [line.split() for line in found.output.splitlines()]
    assert lines[0][:2] == ["4", "RMIDs:"]
    start = lines.index(["PRIORITY", "PODS", "COUNTED", "WAITING", "KEEP", "TURN"])
    rows = [
        [str(one) for one in (priority, pods, counted, pods - counted, kept)] + [f"{turn:g}%"]
        for priority, pods, counted, kept, turn in LEVELS
    ]
    assert lines[start + 1 : start + 4] == rows
    assert [line[0] for line in lines[-2:]] == ["KEEP:", "TURN:"]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_list_demand_has_the_same_figures_for_programs(crowded: SharedNode, form: str) -> None:
    text = run(crowded.host, "list", "--demand", "-o", form).stdout
    if form == "json":
        (item,) = json.loads(text)["items"]
        assert (item["resource"], item["total"], item["others"]) == ("RMIDs", 4, 1)
        names = ("priority", "wanted", "counted", "kept", "turnPercent")
        assert [tuple(level[name] for name in names) for level in item["levels"]] == LEVELS
    else:
        head, *rows = csv.reader(text.splitlines())
        assert head == ["resource", "total", "priority", "wanted", "counted", "kept", "turnPercent"]
        assert [row[:2] for row in rows] == [["RMIDs", "4"]] * 3
        assert [tuple(map(float, row[2:])) for row in rows] == LEVELS


def test_list_demand_without_headers_has_neither_headings_nor_legend(crowded: SharedNode) -> None:
    text = run(crowded.host, "list", "--demand", "--no-headers").output
    assert "KEEP" not in text
    assert "TURN" not in text
    assert "PRIORITY" not in run(crowded.host, "list", "--demand", "--no-headers", "-o", "csv").output.upper()
