"""`kubectl resctrl top` and `show`: rates between two readings of each node, sums, and Prometheus instead of nodes."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from resctrl_hooks.core.cli.errors import KUBECTL
from resctrl_hooks.observe.cluster.api import MetricsPod
from resctrl_hooks.observe.cluster.command import group
from resctrl_hooks.observe.cluster.exposition import parse
from resctrl_hooks.observe.cluster.readings import NodeReading
from resctrl_hooks.observe.cluster.usage import NAMES, PodUsage, pods_of
from resctrl_hooks.observe.inventory.columns import LLC, MBM, value_in

from .fake_cluster import FakeCluster, node_page

POD = MetricsPod("worker-0", "metrics-worker-0", "10.0.0.1", ready=True, image="i")
ALL = 'domain_id="",domain_name=""'


def labels(pod: str, rdt_class: str = "", **more: str) -> str:
    named = {"pod_uid": f"uid-{pod}", "namespace": "shop", "pod": pod, "container": "", "rdt_class": rdt_class, **more}
    return ",".join(f'{name}="{value}"' for name, value in named.items())


def series(pod: str, total: float, seconds: float, rdt_class: str = "", domain: str = "mon_L3_00") -> str:
    """Return the series of a pod's traffic, and of the time for which it was counted."""
    where = {"domain_id": domain[-2:], "domain_name": domain}
    everywhere = {"domain_id": "", "domain_name": "", "counter": "mbm_total_bytes"}
    return (
        f"l3_mbm_total_bytes_total{{{labels(pod, rdt_class, **where)}}} {total}\n"
        f"resctrl_counted_seconds_total{{{labels(pod, rdt_class, **everywhere)}}} {seconds}\n"
        f"l3_llc_occupancy_bytes{{{labels(pod, rdt_class, **where)}}} 1024.0\n"
    )


def between(before: str, now: str, seconds: float = 10.0) -> dict[str, PodUsage]:
    """Return the use of each pod between two scrapes."""
    found = NodeReading(POD, parse(f"resctrl_x 1\n{before}", NAMES), parse(f"resctrl_x 1\n{now}", NAMES), seconds)
    return {one.pod: one for one in pods_of(found)}


def rate(before: str, now: str, seconds: float = 10.0) -> float | None:
    (found,) = between(before, now, seconds).values()
    return value_in(found, MBM)


def test_rate_is_the_amount_by_the_counted_time() -> None:
    assert rate(series("a", 100, 5), series("a", 1100, 15)) == 100
    # The exporter answered with a reading of its own time: what it counted for counts, not the desk's clock.
    assert rate(series("a", 100, 5), series("a", 1100, 15), seconds=11) == 100


@pytest.mark.parametrize(
    "before, now",
    [
        (series("a", 100, 5) + series("b", 0, 0), series("a", 400, 8) + series("b", 0, 10)),  # less than half counted
        (series("b", 0, 0), series("a", 1100, 500) + series("b", 0, 10)),  # older than the interval, first seen now
        (series("a", 100, 5) + series("b", 0, 0), series("a", 100, 5) + series("b", 0, 10)),  # it waits
    ],
)
def test_rate_that_is_not_known_is_none(before: str, now: str) -> None:
    assert value_in(between(before, now)["a"], MBM) is None


def test_node_of_either_version_has_rates() -> None:
    """A node of 0.2 has the former name of the counted time; one with both names counts it once, by the new name."""
    before, now = series("a", 100, 5), series("a", 1100, 15)
    old_before, old_now = (text.replace("counted_seconds", "counter_seconds") for text in (before, now))
    assert rate(old_before, old_now) == 100
    assert rate(f"{old_before}{before}", f"{old_now}{now}") == 100
    assert rate(old_before, now) == 100  # the node's exporter was replaced between the readings
    other = old_now.replace(" 15", " 1500")
    assert rate(f"{old_before}{before}", f"{now}{other}") == 100


def test_new_pod_counts_from_zero() -> None:
    found = between(series("b", 0, 0), series("a", 600, 6) + series("b", 0, 10))
    assert value_in(found["a"], MBM) == 100


def test_classes_that_counted_together_are_added_and_others_are_unknown() -> None:
    before = series("a", 0, 0) + series("a", 0, 0, "gold")
    assert rate(before, series("a", 1000, 10) + series("a", 500, 10, "gold")) == 150
    assert rate(before, series("a", 1000, 10) + series("a", 500, 6, "gold")) is None


def test_domains_are_added() -> None:
    before = series("a", 0, 0) + series("a", 0, 0, domain="mon_L3_01")
    found = between(before, series("a", 1000, 10) + series("a", 500, 10, domain="mon_L3_01"))["a"]
    assert (value_in(found, MBM), value_in(found, LLC)) == (150, 2048)


def page(rates: dict[str, float]) -> Callable[[int], str]:
    """Return a node's metrics: one second passes between two scrapes."""

    def at(count: int) -> str:
        return node_page(count) + "".join(series(pod, each * count, count) for pod, each in rates.items())

    return at


def run(cluster: FakeCluster, *words: str) -> Result:
    arguments = [words[0], *cluster.options, "--interval", "1s", *words[1:]]
    return CliRunner().invoke(group, arguments, prog_name=KUBECTL)


def items(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["items"]
    return found


@pytest.fixture
def two(cluster: FakeCluster) -> FakeCluster:
    """Two nodes with three pods."""
    cluster.pages = {"a": page({"cart": 1e6, "web": 3e6}), "b": page({"etl": 9e6})}
    cluster.pods = [
        ("shop", "cart", "a", {"app": "cart"}),
        ("shop", "web", "a", {"app": "web"}),
        ("shop", "etl", "b", {"app": "etl"}),
    ]
    return cluster


def test_pods_of_all_nodes_are_sorted_by_their_use(two: FakeCluster) -> None:
    lines = run(two, "top").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["POD", "NODE"],
        ["shop/etl", "b"],
        ["shop/web", "a"],
        ["shop/cart", "a"],
    ]
    assert "9.00 MB/s" in lines[1]
    rows = run(two, "top", "--no-headers").stdout.splitlines()
    assert [line.split() for line in rows] == [line.split() for line in lines[1:]]


@pytest.mark.parametrize(
    "by, expected",
    [("namespace", [("", "shop", 3, 13e6)]), ("node", [("b", "", 1, 9e6), ("a", "", 2, 4e6)])],
)
def test_sums_of_namespaces_and_nodes(two: FakeCluster, by: str, expected: list[tuple[Any, ...]]) -> None:
    found = items(run(two, "top", "--by", by, "-o", "json"))
    assert [
        (one["node"], one["namespace"], one["pods"], one["memoryBandwidthBytesPerSecond"]) for one in found
    ] == expected


def test_selector_reads_only_the_nodes_of_its_pods(two: FakeCluster) -> None:
    found = items(run(two, "top", "-l", "app=etl", "-o", "json"))
    assert [one["pod"] for one in found] == ["etl"]
    assert [*two.counts] == ["b"]


def test_namespace_leaves_out_the_pods_of_others(two: FakeCluster) -> None:
    assert items(run(two, "top", "-n", "other", "-o", "json")) == []


@pytest.mark.parametrize("more, expected", [([], ["cart", "etl", "web"]), (["--reverse"], ["web", "etl", "cart"])])
def test_pods_are_sorted_by_name_on_request(two: FakeCluster, more: list[str], expected: list[str]) -> None:
    assert [one["pod"] for one in items(run(two, "top", "--sort", "name", *more, "-o", "json"))] == expected


def test_missing_client_names_the_extra(two: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    done = run(two, "top")
    assert (done.exit_code, "install the extra `kubernetes`" in done.stderr) == (1, True)


def test_nodes_without_an_answer_are_named_below_the_others(two: FakeCluster) -> None:
    two.hang = {"b"}
    done = run(two, "top", "--request-timeout", "300ms")
    assert done.exit_code == 0
    assert "shop/web" in done.stdout
    assert done.stderr.splitlines() == [
        "kubectl resctrl: node b: metrics pod metrics-b of node b: no answer within 0.3 s"
    ]


def test_show_asks_only_the_pods_node(two: FakeCluster) -> None:
    (found,) = items(run(two, "show", "shop/etl", "-o", "json"))
    assert (found["node"], found["memoryBandwidthBytesPerSecond"]) == ("b", 9e6)
    assert [*two.counts] == ["b"]


@pytest.mark.parametrize("name, why", [("shop/none", "no pod 'none'"), ("late", "has no counters on its node")])
def test_show_of_a_pod_without_counters_says_why(two: FakeCluster, name: str, why: str) -> None:
    two.pods.append(("shop", "late", "a", {}))
    done = run(two, "show", name)
    assert (done.exit_code, done.stdout) == (1, "")
    assert why in done.stderr


def answer(query: str) -> str:
    """Return Prometheus' answer: one pod on the node whose metrics pod has this address."""
    metric = {"instance": "10.0.0.1:9777", "namespace": "shop", "pod": "etl"}
    result = [{"metric": metric, "value": [0, "7e6"]}] if "mbm_total" in query else []
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})


def test_prometheus_is_asked_instead_of_the_nodes(two: FakeCluster) -> None:
    two.recorded = answer
    (found,) = items(run(two, "top", "--prometheus", "auto", "-o", "json"))
    assert (found["pod"], found["memoryBandwidthBytesPerSecond"], found["powerWatts"]) == ("etl", 7e6, None)
    assert not two.counts


@pytest.mark.parametrize("text", ["<html>", "{}", '{"data": {"result": []}}'])
def test_prometheus_without_our_series_is_an_error(two: FakeCluster, text: str) -> None:
    two.recorded = lambda _: text
    done = run(two, "top", "--prometheus", "auto")
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-5", "1e308", "abc", "1_000", None, True, [], 10**400])
@pytest.mark.parametrize("form", ["table", "json", "csv", "name"])
def test_unusable_value_of_prometheus_is_unknown_in_every_form(two: FakeCluster, form: str, value: object) -> None:
    def answers(query: str) -> str:
        document = json.loads(answer(query))
        for one in document["data"]["result"]:
            one["value"][1] = value
        return json.dumps(document)

    two.recorded = answers
    options = [] if form == "table" else ["-o", form]
    done = run(two, "top", "--prometheus", "auto", *options)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "etl" in done.stdout
    assert not {"nan", "inf", "1e+308"}.intersection(done.stdout.lower().replace(",", " ").split())
    if form == "json":
        (found,) = json.loads(done.stdout)["items"]
        assert found["memoryBandwidthBytesPerSecond"] is None


@pytest.mark.parametrize(
    "result",
    [
        5,
        None,
        {},
        "x",
        [1],
        [{"value": [1, "5"]}],
        [{"metric": {}}],
        [{"metric": [1], "value": [1, "5"]}],
        [{"metric": {}, "values": [[1, "5"]]}],
        [{"metric": {}, "value": {}}],
        [{"metric": {}, "value": [1]}],
    ],
)
def test_answer_of_another_form_is_one_line(two: FakeCluster, result: object) -> None:
    two.recorded = lambda _: json.dumps({"data": {"result": result}})
    done = run(two, "top", "--prometheus", "auto")
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)


def test_unreachable_prometheus_is_one_line(two: FakeCluster) -> None:
    done = run(two, "top", "--prometheus", "http://127.0.0.1:1")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "cannot reach http://127.0.0.1:1" in done.stderr


@pytest.mark.parametrize("value", ["NaN", "Inf", "-Inf", "1e308", "5e-324"])
@pytest.mark.parametrize(
    "name", ["l3_mbm_total_bytes_total", "resctrl_counted_seconds_total", "resctrl_counter_seconds_total"]
)
def test_node_with_an_impossible_number_costs_a_line(two: FakeCluster, name: str, value: str) -> None:
    two.pages["b"] = lambda count: f'{node_page(count)}{name}{{pod="etl",pod_uid="u"}} {value}\n'
    result = run(two, "top", "-o", "name")
    assert result.exit_code == 0, result.output
    assert [*result.stdout.split()] == ["shop/web", "shop/cart"]
    assert "node b: invalid line in the metrics: " in result.stderr
