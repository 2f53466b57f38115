"""`kubectl resctrl nodes`, against an API server with nodes in every state; and what all commands refuse."""

import gzip
import json
import tracemalloc
from typing import Any

import pytest
from click.testing import CliRunner, Result

from resctrl_hooks.core.cli.errors import KUBECTL
from resctrl_hooks.observe.cluster.access import MOST_NODES
from resctrl_hooks.observe.cluster.command import group
from resctrl_hooks.observe.cluster.exposition import labels_of, parse
from resctrl_hooks.observe.cluster.nodes import SLOWED

from .fake_cluster import FakeCluster, node_page


def run(cluster: FakeCluster, *words: str) -> Result:
    """Return the result of a command."""
    arguments = [words[0], *cluster.options, "--interval", "1s", *words[1:]]
    return CliRunner().invoke(group, arguments, prog_name=KUBECTL)


def refused(cluster: FakeCluster, *words: str, code: int = 1) -> str:
    """Return the only line that a command prints."""
    result = run(cluster, *words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (code, "", 1), result.output
    return result.stderr


CAPACITY = "resctrl_domain_capacity_bytes_per_second"


def nodes(cluster: FakeCluster, *words: str) -> dict[str, dict[str, Any]]:
    """Return the nodes of the JSON output, by name."""
    result = run(cluster, "nodes", "-o", "json", *words)
    assert result.exit_code == 0, result.output
    return {item["name"]: item for item in json.loads(result.stdout)["items"]}


def test_node_that_counts_has_its_rmids_load_and_versions(cluster: FakeCluster) -> None:
    ratios = {"a": SLOWED, "b": SLOWED - 0.01}
    lines = "".join(f'resctrl_pod_slowdown_ratio{{pod="{pod}"}} {ratio}\n' for pod, ratio in ratios.items())
    cluster.pages = {"worker-0": node_page, "worker-1": lambda count: node_page(count) + lines}
    found = nodes(cluster)
    about = {"counting": "yes", "rmids": 16, "rmidsUsed": 7, "rmidsFree": 9, "waiting": 0, "slowed": None, "load": 0.1}
    about |= {"capacitySource": "configured", "known": ["bandwidth"]}
    about |= {"version": "0.3.0", "image": "example.com/resctrl-hooks:1.2", "problem": ""}
    assert found["worker-0"] == {"name": "worker-0", **about}  # 1 GB in a second of a capacity of 10 GB/s
    assert found["worker-1"]["slowed"] == 1


def test_load_has_the_source_of_the_capacity(cluster: FakeCluster) -> None:
    """A load by the largest rate so far is an upper bound, and stands only where no other is known."""

    def page(*sources: str) -> Any:
        capacity = "".join(f'{CAPACITY}{{domain="{at}",source="{one}"}} 2e9\n' for at, one in enumerate(sources))

        def text(count: int) -> str:
            rest = node_page(count).replace(f'{CAPACITY}{{domain="*"}} 1e10\n', capacity)
            return f'{rest}resctrl_domain_mbm_bytes_total{{domain="1"}} {count * 1e9}\n'

        return text

    cluster.pages = {"by-table": page("smbios", "seen"), "by-rate": page("seen", "seen"), "odd": page("?[red]")}
    found = nodes(cluster)
    assert [(one["load"], one["capacitySource"]) for _, one in sorted(found.items())] == [
        (0.5, "seen"), (0.5, "smbios"), (0.5, "configured"),
    ]  # fmt: skip
    table = run(cluster, "nodes").output
    assert "≤50% (largest so far)" in table
    assert " 50% (SMBIOS)" in table


def test_problem_of_a_node_is_named_and_comes_first_in_the_table(cluster: FakeCluster) -> None:
    def virtual(count: int) -> str:
        lines = node_page(count).splitlines()
        kept = [line for line in lines if "_class_" not in line and "_domain_" not in line]
        return "\n".join([*kept, f"cgroup_cpu_seconds_total{{}} {count}\n"])

    problems: dict[str, tuple[Any, str, str]] = {
        "good": (node_page, "yes", ""),
        "fails": (lambda count: node_page(count, ok=0), "no", "unreadable"),
        "stands": (lambda count: node_page(count, moves=False), "no", "no counter moved"),
        "waits": (lambda count: node_page(count, waiting=3), "yes", "3 pods wait"),
        "late": (lambda count: node_page(count, reconciled=1e9), "yes", "reconcile has not run"),
        "removes": (
            lambda count: f"{node_page(count)}resctrl_hooks_groups_vanished_total 1\n", "yes", "removed 1 groups",
        ),
        "virtual": (virtual, "no-rdt", ""),
        "garbage": (lambda count: "<html>busy</html>", "unknown", "no metrics of resctrl-hooks"),
        "bare": (None, "unknown", "no metrics pod"),
    }  # fmt: skip
    cluster.pages = {name: page for name, (page, *_) in problems.items() if page}
    cluster.extra_nodes = ["bare"]
    found = nodes(cluster)
    assert {name: one["counting"] for name, one in found.items()} == {
        name: how for name, (_, how, _) in problems.items()
    }
    assert [name for name, (*_, why) in problems.items() if why not in found[name]["problem"]] == []
    assert found["good"]["problem"] == found["virtual"]["problem"] == ""
    assert found["virtual"]["known"] == ["CPU"]
    cluster.pages, cluster.extra_nodes = {name: cluster.pages[name] for name in ("good", "waits")}, []
    lines = run(cluster, "nodes").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["NODE", "waits", "good"]
    assert lines[1].split()[1:5] == ["yes", "7/16", "9", "3"]


def test_silent_node_has_a_reason_and_a_selector_or_missing_rights_leave_out_nodes(cluster: FakeCluster) -> None:
    assert "app.kubernetes.io/name=resctrl-hooks-metrics" in refused(cluster, "nodes")
    cluster.pages, cluster.labels = {"a": node_page, "b": node_page}, {"a": {"rdt": "yes"}}
    cluster.hang = {"b"}
    found = nodes(cluster, "--request-timeout", "2s")
    assert (found["a"]["counting"], found["b"]["counting"]) == ("yes", "unknown")
    assert "no answer within 2 s" in found["b"]["problem"]
    assert [*nodes(cluster, "-l", "rdt=yes")] == ["a"]
    cluster.hang, cluster.forbidden, cluster.extra_nodes = set(), {"nodes"}, ["bare"]
    assert [*nodes(cluster)] == ["a", "b"], "those with metrics pods"


@pytest.mark.parametrize(
    "right, command, said",
    [
        ("pods", "nodes", "not permitted: list pods in resctrl-hooks; "),
        *(("pods/proxy", one, "not permitted: get pods/proxy in resctrl-hooks; ") for one in ("nodes", "diagnose -A")),
        ("pods", "show shop/cart", "not permitted: list pods in shop; ClusterRole resctrl-hooks-view does not contain"),
        ("", "nodes --context gone", "cannot reach the API server http://127.0.0.1:1"),
        *(("", f"nodes --{wrong}", "kubeconfig") for wrong in ("kubeconfig /missing", "context unknown")),
    ],
)
def test_missing_right_or_server_is_one_line(cluster: FakeCluster, right: str, command: str, said: str) -> None:
    cluster.pages, cluster.forbidden = {"a": node_page, "b": node_page}, {right}
    line = refused(cluster, *command.split())
    assert line.startswith("kubectl resctrl: ")
    assert said in line
    assert not right or "resctrl-hooks-view" in line


@pytest.mark.ci
def test_more_nodes_than_the_limit_are_read_only_on_request(cluster: FakeCluster) -> None:
    cluster.pages = {f"worker-{number:03}": node_page for number in range(MOST_NODES + 1)}
    result = run(cluster, "nodes")
    assert (result.exit_code, result.stdout, "--all" in result.stderr) == (2, "", True)
    assert not cluster.counts  # no node was asked
    assert len(nodes(cluster, "--all")) == MOST_NODES + 1
    del cluster.pages["worker-000"]
    assert len(nodes(cluster)) == MOST_NODES
    assert cluster.most_at_once <= 50


FREE, WAITING = 'resctrl_rmids{owner="free"}', "resctrl_hooks_waiting_pods"
UNUSABLE = ("NaN", "Inf", "-Inf", "1e300", "5e-324")
WRONG = [f"{name} {value}" for name in (FREE, WAITING, f'{CAPACITY}{{domain="*"}}') for value in UNUSABLE] + [
    "resctrl_hooks_last_reconcile_timestamp_seconds NaN",
    'resctrl_hooks_build_info{x="y"} 1', f'{CAPACITY}{{a="b"}} 1', f"{CAPACITY} 1",
    'resctrl_domain_mbm_bytes_total{a="b"} 1', 'resctrl_hooks_build_info{aaa,version="1"} 1',
    f'resctrl_hooks_build_info{{version="1",{"a" * 40_000}="b"}} 1',
]  # fmt: skip


def test_node_with_a_wrong_line_is_listed_beside_the_others(cluster: FakeCluster) -> None:
    def wrong(line: str) -> Any:
        return lambda count: f"{line}\n{node_page(count)}"

    versions = ("[/red]", "\x1b[2J")
    cluster.pages = {f"wrong-{number}": wrong(line) for number, line in enumerate(WRONG)} | {"good": node_page}
    for version in versions:
        cluster.pages[f"text-{len(version)}"] = wrong(f'resctrl_hooks_build_info{{version="{version}"}} 1')
    found = nodes(cluster)
    assert (found["good"]["counting"], found["good"]["problem"]) == ("yes", "")
    for number, line in enumerate(WRONG):
        one = found[f"wrong-{number}"]
        assert (one["counting"], one["problem"][:29]) == ("unknown", "invalid line in the metrics: "), line[:100]
    result = run(cluster, "nodes")
    assert (result.exit_code, "good" in result.stdout, "\x1b" in result.stdout) == (0, True, False)


def test_answers_are_decompressed_up_to_the_limit(cluster: FakeCluster) -> None:
    zeros = gzip.compress(bytes(256 << 20), 1)
    cluster.pages = dict.fromkeys(("good", "packed", "bomb", "twice"), node_page)
    cluster.packed = {"packed": ("gzip", gzip.compress(node_page(0).encode())), "bomb": ("gzip", zeros)}
    cluster.packed["twice"] = "gzip, gzip", gzip.compress(zeros, 1)
    tracemalloc.start()
    found = nodes(cluster)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found["good"]["problem"], found["packed"]["version"]) == ("", "0.3.0")
    assert [found[name]["counting"] for name in ("bomb", "twice")] == ["unknown"] * 2
    assert most < 200 << 20


def test_other_line_separators_in_a_label_end_no_line() -> None:
    for separator in ("\x0b", "\x0c", "\x1c", "\x85", "\u2028"):
        (found,) = parse(f'resctrl_up{{pod="a{separator}b"}} 1\n', {"resctrl_up": ""})
        assert labels_of(found) == {"pod": f"a{separator}b"}
