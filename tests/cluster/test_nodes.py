"""`kubectl resctrl nodes`, against an API server with nodes in every state."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from resctrl_hooks.cli.errors import KUBECTL
from resctrl_hooks.cluster.access import MOST_NODES
from resctrl_hooks.cluster.command import group

from .fake_cluster import FakeCluster, node_page


def run(cluster: FakeCluster, *words: str) -> Result:
    """Return the result of a command with a short interval."""
    arguments = [words[0], *cluster.options, "--interval", "100ms", *words[1:]]
    return CliRunner().invoke(group, arguments, prog_name=KUBECTL)


def nodes(cluster: FakeCluster, *words: str) -> dict[str, dict[str, Any]]:
    """Return the nodes of the JSON output, by name."""
    result = run(cluster, "nodes", "-o", "json", *words)
    assert result.exit_code == 0, result.output
    return {item["name"]: item for item in json.loads(result.stdout)["items"]}


def test_node_that_counts_has_its_rmids_load_and_versions(cluster: FakeCluster) -> None:
    cluster.pages["worker-0"] = node_page
    found = nodes(cluster)["worker-0"]
    load = found.pop("load")
    assert found == {
        "name": "worker-0",
        "counting": "yes",
        "rmids": 16,
        "rmidsUsed": 7,
        "rmidsFree": 9,
        "waiting": 0,
        "slowed": None,
        "version": "0.3.0",
        "image": "example.com/resctrl-hooks:1.2",
        "problem": "",
    }
    assert 0 < load < 1.01  # 1 GB in at least 0.1 s of a capacity of 10 GB/s


@pytest.mark.parametrize(
    "page, counting, problem",
    [
        (lambda count: node_page(count, ok=0), "no", "unreadable"),
        (lambda count: node_page(count, moves=False), "no", "no counter moved"),
        (lambda count: node_page(count, waiting=3), "yes", "3 pods wait"),
        (lambda count: node_page(count, reconciled=1e9), "yes", "reconcile has not run"),
    ],
)
def test_problem_of_a_node_is_named(cluster: FakeCluster, page: Any, counting: str, problem: str) -> None:
    cluster.pages["worker-0"] = page
    found = nodes(cluster)["worker-0"]
    assert found["counting"] == counting
    assert problem in found["problem"]


def test_nodes_that_do_not_answer_are_listed_with_the_reason(cluster: FakeCluster) -> None:
    cluster.pages = {"good": node_page, "silent": node_page, "garbage": lambda count: "<html>busy</html>"}
    cluster.hang = {"silent"}
    cluster.extra_nodes = ["bare"]
    found = nodes(cluster, "--request-timeout", "500ms")
    assert {name: one["counting"] for name, one in found.items()} == {
        "good": "yes",
        "silent": "unknown",
        "garbage": "unknown",
        "bare": "unknown",
    }
    assert "no answer within 0.5 s" in found["silent"]["problem"]
    assert "no metrics of resctrl-hooks" in found["garbage"]["problem"]
    assert "no metrics pod" in found["bare"]["problem"]


def test_nodes_with_problems_come_first_in_the_table(cluster: FakeCluster) -> None:
    cluster.pages = {"a": node_page, "b": lambda count: node_page(count, waiting=1), "c": node_page}
    lines = run(cluster, "nodes").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["NODE", "b", "a", "c"]
    assert lines[1].split()[1:5] == ["yes", "7/16", "9", "1"]


def test_user_without_the_right_to_list_nodes_sees_those_with_metrics_pods(cluster: FakeCluster) -> None:
    cluster.pages = {"a": node_page}
    cluster.forbidden = {"nodes"}
    assert [*nodes(cluster)] == ["a"]


@pytest.mark.parametrize("right, verb", [("pods", "list"), ("pods/proxy", "get")])
def test_missing_right_is_named_with_the_role(cluster: FakeCluster, right: str, verb: str) -> None:
    cluster.pages = {"a": node_page, "b": node_page}
    cluster.forbidden = {right}
    result = run(cluster, "nodes")
    assert result.exit_code == 1
    assert not result.stdout
    assert f"kubectl resctrl: not permitted: {verb} {right} in resctrl-hooks; " in result.stderr
    assert "resctrl-hooks-view" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_cluster_without_metrics_pods_names_the_label(cluster: FakeCluster) -> None:
    result = run(cluster, "nodes")
    assert result.exit_code == 1
    assert "app.kubernetes.io/name=resctrl-hooks-metrics" in result.stderr


def test_unreachable_api_server_is_one_line(cluster: FakeCluster) -> None:
    result = run(cluster, "nodes", "--context", "gone")
    assert result.exit_code == 1
    assert "cannot reach the API server http://127.0.0.1:1" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("options", [["--kubeconfig", "/missing"], ["--context", "unknown"]])
def test_unusable_kubeconfig_is_one_line(cluster: FakeCluster, options: list[str]) -> None:
    result = run(cluster, "nodes", *options)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "kubeconfig" in result.stderr


def test_more_nodes_than_the_limit_are_read_only_on_request(cluster: FakeCluster) -> None:
    cluster.pages = {f"worker-{number:03}": node_page for number in range(MOST_NODES + 1)}
    refused = run(cluster, "nodes")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--all" in refused.stderr
    assert not cluster.counts  # no node was asked
    assert len(nodes(cluster, "--all")) == MOST_NODES + 1
    assert cluster.most_at_once <= 50
