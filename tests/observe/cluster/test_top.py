"""`kubectl resctrl top` and `show`: rates between two readings of each node, sums, and Prometheus instead of nodes."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.observe.cluster.api import MetricsPod
from resctrl_hooks.observe.cluster.exposition import parse
from resctrl_hooks.observe.cluster.readings import NodeReading
from resctrl_hooks.observe.cluster.usage import NAMES, PodUsage, pods_of
from resctrl_hooks.observe.inventory.columns import LLC, MBM, value_in

from .fake_cluster import FakeCluster, node_page
from .test_nodes import refused, run

POD = MetricsPod("worker-0", "metrics-worker-0", "10.0.0.1", ready=True, image="i")


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


def rate(before: str, now: str) -> float | None:
    (found,) = between(before, now).values()
    return value_in(found, MBM)


CLASSES = st.dictionaries(st.sampled_from(["", "gold"]), st.integers(0, 1000), min_size=1)


@settings(max_examples=examples(40))
@given(
    st.dictionaries(st.sampled_from("abc"), st.tuples(CLASSES, st.sampled_from([0, 3, 5, 10]), st.booleans())),
    st.sampled_from([1, 2]),
)
def test_rate_is_the_amount_by_the_counted_time_if_half_of_the_interval_is_counted(
    pods: dict[str, tuple[dict[str, int], int, bool]], domains: int
) -> None:
    """By pod, its bytes per second in each class, its counted seconds of 10, and whether it is new."""
    before, now = series("other", 0, 0), series("other", 0, 10)
    for pod, (rates, counted, is_new) in pods.items():
        begin = 0 if is_new else 7
        for rdt_class, each in rates.items():
            for domain in range(domains):
                folder = f"mon_L3_0{domain}"
                before += "" if is_new else series(pod, 100, begin, rdt_class, folder)
                now += series(pod, each * counted + (0 if is_new else 100), begin + counted, rdt_class, folder)
    found = between(before, now)
    assert found.keys() == {"other", *pods}
    for pod, (rates, counted, _) in pods.items():
        expected = domains * sum(rates.values()) if counted >= 5 else None
        assert value_in(found[pod], MBM) == (None if expected is None else pytest.approx(expected))
        assert value_in(found[pod], LLC) == 1024 * domains * len(rates)


def test_unclear_or_former_counted_time() -> None:
    before, now = series("a", 100, 5), series("a", 1100, 15)
    assert value_in(between(before, now, 11)["a"], MBM) == 100, "the exporter's time counts, not the desk's clock"
    older = between(series("b", 0, 0), series("b", 0, 10) + now.replace(" 15", " 500"))
    assert value_in(older["a"], MBM) is None, "not all of it is of the interval"
    classes = series("a", 0, 0) + series("a", 0, 0, "gold")
    assert rate(classes, series("a", 1000, 10) + series("a", 500, 6, "gold")) is None, "not counted together"
    # A node of 0.2 has the former name of the counted time; one with both names counts it once, by the new name.
    old_before, old_now = (text.replace("counted_seconds", "counter_seconds") for text in (before, now))
    other = old_now.replace(" 15", " 1500")
    pairs = [(old_before, old_now), (old_before, now), (old_before + before, old_now + now)]
    assert [rate(*pair) for pair in [*pairs, (old_before + before, now + other)]] == [100] * 4


def page(rates: dict[str, float]) -> Callable[[int], str]:
    """Return a node's metrics: one second passes between two scrapes."""
    return lambda count: node_page(count) + "".join(series(pod, of * count, count) for pod, of in rates.items())


def items(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["items"]
    return found


@pytest.fixture
def two(cluster: FakeCluster) -> FakeCluster:
    """Two nodes with three pods."""
    cluster.pages = {"a": page({"cart": 1e6, "web": 3e6}), "b": page({"etl": 9e6})}
    cluster.pods = [("shop", name, node, {"app": name}) for name, node in (("cart", "a"), ("web", "a"), ("etl", "b"))]
    return cluster


def test_pods_of_all_nodes_are_sorted_selected_and_added(two: FakeCluster) -> None:
    lines = run(two, "top").stdout.splitlines()
    expected = [["POD", "NODE"], ["shop/etl", "b"], ["shop/web", "a"], ["shop/cart", "a"]]
    assert [line.split()[:2] for line in lines] == expected
    assert "9.00 MB/s" in lines[1]
    rows = run(two, "top", "--no-headers").stdout.splitlines()
    assert [line.split() for line in rows] == [line.split() for line in lines[1:]]
    for by, sums in (("namespace", [("", "shop", 3, 13e6)]), ("node", [("b", "", 1, 9e6), ("a", "", 2, 4e6)])):
        found = items(run(two, "top", "--by", by, "-o", "json"))
        names = ("node", "namespace", "pods", "memoryBandwidthBytesPerSecond")
        assert [tuple(one[name] for name in names) for one in found] == sums
    assert items(run(two, "top", "-n", "other", "-o", "json")) == []
    for more, order in ([], ["cart", "etl", "web"]), (["--reverse"], ["web", "etl", "cart"]):
        assert [one["pod"] for one in items(run(two, "top", "--sort", "name", *more, "-o", "json"))] == order


def test_selector_and_show_read_only_the_nodes_of_their_pods(two: FakeCluster) -> None:
    for words in (["top", "-l", "app=etl"], ["show", "shop/etl"]):
        (found,) = items(run(two, *words, "-o", "json"))
        assert (found["node"], found["pod"], found["memoryBandwidthBytesPerSecond"]) == ("b", "etl", 9e6)
    shown = run(two, "show", "shop/etl").stdout.splitlines()
    assert [line.split()[:2] for line in shown] == [["POD", "NODE"], ["shop/etl", "b"]]
    assert [*two.counts] == ["b"]


@pytest.mark.parametrize(
    "words, why",
    [
        ("show shop/none", "no pod 'none'"),
        ("show late", "has no counters on its node"),
        ("top --prometheus http://127.0.0.1:1", "cannot reach http://127.0.0.1:1"),
    ],
)
def test_command_without_an_answer_says_why(two: FakeCluster, words: str, why: str) -> None:
    two.pods.append(("shop", "late", "a", {}))
    assert why in refused(two, *words.split())


def test_missing_client_names_the_extra(two: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert "install the extra `kubernetes`" in refused(two, "top")


def test_nodes_without_an_answer_are_named_below_the_others(two: FakeCluster) -> None:
    two.hang = {"b"}
    done = run(two, "top", "--request-timeout", "2s")
    assert (done.exit_code, "shop/web" in done.stdout) == (0, True)
    assert done.stderr == "kubectl resctrl: node b: metrics pod metrics-b of node b: no answer within 2 s\n"


def answer(query: str, value: object = "7e6") -> str:
    """Return Prometheus' answer: one pod on the node whose metrics pod has this address."""
    metric = {"instance": "10.0.0.1:9777", "namespace": "shop", "pod": "etl"}
    result = [{"metric": metric, "value": [0, value]}] if "mbm_total" in query else []
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})


WRONG: tuple[object, ...] = ("NaN", "+Inf", "-Inf", "-5", "1e308", "abc", "1_000", None, True, [], 10**400)


@pytest.mark.parametrize("value, found", [("7e6", 7e6), *zip(WRONG, [None] * len(WRONG), strict=True)])
def test_prometheus_is_asked_instead_of_the_nodes_and_unusable_values_are_unknown(
    two: FakeCluster, value: object, found: float | None
) -> None:
    two.recorded = lambda query: answer(query, value)
    for form in ("table", "json", "csv", "name"):
        done = run(two, "top", "--prometheus", "auto", *([] if form == "table" else ["-o", form]))
        assert (done.exit_code, done.stderr, "etl" in done.stdout) == (0, "", True)
        assert not {"nan", "inf", "1e+308"}.intersection(done.stdout.lower().replace(",", " ").split())
        if form == "json":
            (one,) = items(done)
            assert (one["pod"], one["memoryBandwidthBytesPerSecond"], one["powerWatts"]) == ("etl", found, None)
    assert not two.counts


RESULTS: list[object] = [
    *(5, None, {}, "x", [], [1], [{"value": [1, "5"]}], [{"metric": {}}], [{"metric": [1], "value": [1, "5"]}]),
    *([{"metric": {}, "values": [[1, "5"]]}], [{"metric": {}, "value": {}}], [{"metric": {}, "value": [1]}]),
]


@pytest.mark.parametrize("text", ["<html>", "{}", *(json.dumps({"data": {"result": one}}) for one in RESULTS)])
def test_answer_of_another_form_is_one_line(two: FakeCluster, text: str) -> None:
    two.recorded = lambda _: text
    refused(two, "top", "--prometheus", "auto")


COUNTERS = ("l3_mbm_total_bytes_total", "resctrl_counted_seconds_total", "resctrl_counter_seconds_total")


@pytest.mark.parametrize("value", ["NaN", "Inf", "-Inf", "1e308", "5e-324"])
def test_node_with_an_impossible_number_costs_a_line(two: FakeCluster, value: str) -> None:
    for name in COUNTERS:
        two.pages["b"] = lambda count, name=name: f'{node_page(count)}{name}{{pod="etl",pod_uid="u"}} {value}\n'  # type: ignore[misc]
        result = run(two, "top", "-o", "name")
        assert (result.exit_code, result.stdout.split()) == (0, ["shop/web", "shop/cart"]), result.output
        assert "node b: invalid line in the metrics: " in result.stderr
