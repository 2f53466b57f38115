"""`kubectl resctrl nodes`, against an API server with nodes in every state."""

import gzip
import json
import tracemalloc
from typing import Any

import pytest
from click.testing import CliRunner, Result

from resctrl_hooks.core.cli.errors import KUBECTL
from resctrl_hooks.observe.cluster.access import MOST_NODES
from resctrl_hooks.observe.cluster.command import group
from resctrl_hooks.observe.cluster.nodes import SLOWED

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
        (lambda count: f"{node_page(count)}resctrl_hooks_groups_vanished_total 1\n", "yes", "removed 1 groups"),
    ],
)
def test_problem_of_a_node_is_named(cluster: FakeCluster, page: Any, counting: str, problem: str) -> None:
    cluster.pages["worker-0"] = page
    found = nodes(cluster)["worker-0"]
    assert found["counting"] == counting
    assert problem in found["problem"]


def test_pod_at_the_bound_is_slowed(cluster: FakeCluster) -> None:
    ratios = {"a": SLOWED, "b": SLOWED - 0.01}
    lines = "".join(f'resctrl_pod_slowdown_ratio{{pod="{pod}"}} {ratio}\n' for pod, ratio in ratios.items())
    cluster.pages["worker-0"] = lambda count: node_page(count) + lines
    assert nodes(cluster)["worker-0"]["slowed"] == 1


def test_selector_leaves_out_other_nodes(cluster: FakeCluster) -> None:
    cluster.pages = {"a": node_page, "b": node_page}
    cluster.labels = {"a": {"rdt": "yes"}}
    assert [*nodes(cluster, "-l", "rdt=yes")] == ["a"]


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


def test_missing_right_outside_of_the_metrics_pods_namespace_is_not_asked_of_the_role(cluster: FakeCluster) -> None:
    cluster.pages = {"a": node_page}
    cluster.forbidden = {"pods"}
    result = run(cluster, "show", "shop/cart-0")
    assert result.exit_code == 1
    assert "not permitted: list pods in shop; ClusterRole resctrl-hooks-view does not contain it" in result.stderr


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


WRONG = {
    "not-a-number": 'resctrl_rmids{owner="free"} NaN',
    "infinite": "resctrl_hooks_waiting_pods Inf",
    "above-any-counter": "resctrl_hooks_waiting_pods 1e300",
    "denormal": 'resctrl_domain_capacity_bytes_per_second{domain="*"} 5e-324',
    "time-not-a-number": "resctrl_hooks_last_reconcile_timestamp_seconds NaN",
    "no-version": 'resctrl_hooks_build_info{x="y"} 1',
    "capacity-without-domain": 'resctrl_domain_capacity_bytes_per_second{a="b"} 1',
    "capacity-without-labels": "resctrl_domain_capacity_bytes_per_second 1",
    "traffic-without-domain": 'resctrl_domain_mbm_bytes_total{a="b"} 1',
    "junk-before-label": 'resctrl_hooks_build_info{aaa,version="1"} 1',
    "long-label": f'resctrl_hooks_build_info{{version="1",{"a" * 40_000}="b"}} 1',
}


@pytest.mark.parametrize("line", WRONG.values(), ids=WRONG)
def test_node_with_a_wrong_line_is_listed_beside_the_others(cluster: FakeCluster, line: str) -> None:
    cluster.pages = {"good": node_page, "wrong": lambda count: f"{line}\n{node_page(count)}"}
    found = nodes(cluster)
    assert (found["good"]["counting"], found["good"]["problem"]) == ("yes", "")
    assert found["wrong"]["counting"] == "unknown"
    assert found["wrong"]["problem"].startswith("invalid line in the metrics: ")


@pytest.mark.parametrize("version", ["[/red]", "\x1b[2J"])
def test_version_of_a_node_reaches_the_table_as_text(cluster: FakeCluster, version: str) -> None:
    wrong = f'resctrl_hooks_build_info{{version="{version}"}} 1\n'
    cluster.pages = {"good": node_page, "wrong": lambda count: wrong + node_page(count)}
    result = run(cluster, "nodes")
    assert result.exit_code == 0, result.output
    assert "good" in result.stdout
    assert "\x1b" not in result.stdout


def test_compressed_metrics_are_read(cluster: FakeCluster) -> None:
    cluster.pages["packed"] = node_page
    cluster.packed["packed"] = "gzip", gzip.compress(node_page(0).encode())
    assert nodes(cluster)["packed"]["version"] == "0.3.0"


@pytest.mark.parametrize("encoding, times", [("gzip", 1), ("gzip, gzip", 2)])
def test_answer_above_the_limit_is_not_decompressed(cluster: FakeCluster, encoding: str, times: int) -> None:
    body = bytes(256 << 20)
    for _ in range(times):
        body = gzip.compress(body, 1)
    cluster.pages = {"good": node_page, "bomb": node_page}
    cluster.packed["bomb"] = encoding, body
    tracemalloc.start()
    found = nodes(cluster)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found["good"]["problem"] == ""
    assert found["bomb"]["counting"] == "unknown"
    assert most < 200 << 20
