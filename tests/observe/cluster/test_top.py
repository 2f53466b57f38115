"""`kubectl resctrl` top, show and diagnose: rates of nodes or from Prometheus, and verdicts of nodes."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result
from conftest import examples
from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, plain_host
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.table import Table

from observe.cli.test_diagnosis_text import diagnosis
from resctrl_hooks.core.inventory.envelope import envelope
from resctrl_hooks.observe.cli.top import command as top_command
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_table import usage_table
from resctrl_hooks.observe.cluster.api import MetricsPod
from resctrl_hooks.observe.cluster.command import top_command as on_cluster
from resctrl_hooks.observe.cluster.exposition import parse
from resctrl_hooks.observe.cluster.readings import NodeReading
from resctrl_hooks.observe.cluster.tables import pods_table
from resctrl_hooks.observe.cluster.usage import NAMES, PodUsage, pods_of
from resctrl_hooks.observe.inventory.class_changes import ClassChange
from resctrl_hooks.observe.inventory.columns import BY_KEY, COLUMNS, LLC, MBM, value_in, values_of
from resctrl_hooks.observe.inventory.limited import PodLimit
from resctrl_hooks.observe.inventory.rates import Line
from resctrl_hooks.observe.metrics.diagnoses import diagnoses as served
from resctrl_hooks.observe.slowdown.diagnosis import LIST, CausePod, CauseState, Diagnosis, Help

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


def test_limited_pod_has_a_mark(two: FakeCluster) -> None:
    unlimited, limits = two.pages["a"], ""
    for value, device, end in (("cpu.max", "", 0), ("io.max", "8:0", 1.9e9), ("io.max", "8:16", 1.8e9)):
        of = labels("cart", value=value, device=device, owner="`limit` of root")
        limits += f"resctrl_pod_limit_end_timestamp_seconds{{{of}}} {end}\n"
    two.pages["a"] = lambda count: f"{unlimited(count)}{limits}"
    lines = [line.split() for line in run(two, "top").stdout.splitlines()]
    assert [line[-1] for line in lines] == ["LIMITED", "-", "-", time.strftime("%H:%M", time.localtime(1.8e9))]
    cart = items(run(two, "top", "-o", "json"))[-1]
    assert (cart["pod"], cart["limited"], cart["limitEnds"]) == ("cart", ["cpu.max", "io.max"], 1.8e9)


def cells(table: Table) -> dict[str, str]:
    """Return the texts of a table's first row by heading."""
    first = {str(one.header): next(iter(one.cells)) for one in table.columns}
    return {head: str(getattr(cell, "text", cell)) for head, cell in first.items()}


def test_names_units_and_orders_are_those_of_top() -> None:
    values: dict[str, float | None] = {column.key: 1_234_567_890.0 for column in COLUMNS}
    limited = [PodLimit(values=["cpu.max max -> 5", "io.max 8:0 a -> b"], owner="", reason="", ends=1.8e9)]
    line = Line("pod", "shop/web", "uid", values, "shop", "web", slowdown=1.6, limited=limited)
    usage = PodUsage(node="a", namespace="shop", pod="web", slowdown=1.6, **values_of(values))
    usage.limited, usage.limit_ends = ["cpu.max", "io.max"], 1.8e9
    options: dict[str, Any] = dict.fromkeys(("reverse", "pictures"), False)
    options.update(by="pod", sort="", width=400, headers=True)
    found, top_scene = cells(pods_table([usage], "pod", headers=True)), Scene("n", "t", [line])
    top = cells(usage_table(top_scene, [line], **options))
    assert found.pop("NODE") == "a"
    assert found == {head: top[head] for head in found}
    assert {column.heading for column in COLUMNS} <= found.keys()
    orders = [one.type for command in (top_command, on_cluster) for one in command.params if one.name == "sort"]
    assert [{*one.choices} for one in orders if isinstance(one, click.Choice)] == [{*BY_KEY, "slow", "name"}] * 2


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
    printed = run(two, "limit", "shop/etl", "--cpu", "50%", "--for", "10m")
    assert printed.stdout == "resctrl-hook limit shop/etl --cpu 50% --for 10m\n"
    assert "is on node b" in printed.stderr


def test_command_without_an_answer_says_why(two: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    two.pods.append(("shop", "late", "a", {}))
    for words, why in (
        ("show shop/none", "no pod 'none'"),
        ("limit shop/none --cpu 50%", "no pod 'none'"),
        ("show late", "has no counters on its node"),
        ("top --prometheus http://127.0.0.1:1", "cannot reach http://127.0.0.1:1"),
    ):
        assert why in refused(two, *words.split())
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert "install the extra `kubernetes`" in refused(two, "top")


def answer(query: str, value: object = "7e6") -> str:
    """Return Prometheus' answer: one pod on the node whose metrics pod has this address."""
    metric = {"instance": "10.0.0.1:9777", "namespace": "shop", "pod": "etl"}
    result = [{"metric": metric, "value": [0, value]}] if "mbm_total" in query else []
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})


WRONG: tuple[object, ...] = ("NaN", "+Inf", "-Inf", "-5", "1e308", "abc", "1_000", None, True, [], 10**400)


@pytest.mark.parametrize("value, found", [("7e6", 7e6), *zip(WRONG, [None] * len(WRONG), strict=True)])
def test_prometheus_replaces_nodes_and_bad_values_are_unknown(
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


def test_answer_of_another_form_is_one_line(two: FakeCluster) -> None:
    for text in ("<html>", "{}", *(json.dumps({"data": {"result": one}}) for one in RESULTS)):
        two.recorded = lambda _, text=text: text  # type: ignore[misc]
        refused(two, "top", "--prometheus", "auto")


COUNTERS = ("l3_mbm_total_bytes_total", "resctrl_counted_seconds_total", "resctrl_counter_seconds_total")


@pytest.mark.parametrize("value", ["NaN", "Inf", "-Inf", "1e308", "5e-324"])
def test_node_with_an_impossible_number_costs_a_line(two: FakeCluster, value: str) -> None:
    for name in COUNTERS:
        two.pages["b"] = lambda count, name=name: f'{node_page(count)}{name}{{pod="etl",pod_uid="u"}} {value}\n'  # type: ignore[misc]
        result = run(two, "top", "-o", "name")
        assert (result.exit_code, result.stdout.split()) == (0, ["shop/web", "shop/cart"]), result.output
        assert "node b: invalid line in the metrics: " in result.stderr


CULPRIT = CausePod(name="shop/batch", share=0.8, correlation=0.9)
CAUSE = CauseState(cause="memory-bandwidth", state="supported", pods=[CULPRIT], text="load 90 %")
CHANGE = ClassChange(rdt_class="bronze", since=12345.0, change="MB 100 to 30", source="guard")


def pod(name: str, verdict: str = "slowed", ratio: float | None = 1.6, **more: Any) -> Diagnosis:
    causes = [CAUSE] if verdict == "slowed" else []
    facts = {"ratio": ratio, "ratio_low": ratio, "ratio_high": ratio, "advice": ["let the guard do it"], **more}
    helps = [Help(cause=CAUSE.cause, text="less", command="resctrl-hook limit shop/batch --mb 30")]
    return diagnosis(name=name, key=name, verdict=verdict, causes=causes, remedies=helps, **facts)


def document(*pods: Diagnosis, judged: bool = True) -> str:
    return json.dumps(envelope(LIST, pods, judged=judged))


@pytest.fixture
def judged(cluster: FakeCluster) -> FakeCluster:
    """Two nodes: shop/cart is slowed on the first, shop/search and shop/x are on the second."""
    cluster.pages = {"worker-0": node_page, "worker-1": node_page}
    first = document(pod("shop/cart"), pod("team/etl", ratio=2.5))
    cluster.diagnoses = {"worker-0": first, "worker-1": document(pod("shop/search", "normal", 1.0))}
    cluster.pods = [("shop", "cart", "worker-0", {}), ("shop", "search", "worker-1", {}), ("shop", "x", "worker-1", {})]
    return cluster


def test_pod_is_judged_by_its_own_node_and_without_a_pod_the_worst_is_first(judged: FakeCluster) -> None:
    done = run(judged, "diagnose", "shop/cart")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("shop/cart: slowed, its work takes 1.60 times as long")
    assert "because: memory-bandwidth: load 90 %; by shop/batch 80%" in done.stdout
    for words in ("helps: let the guard", "node: worker-0; run "):
        assert words in done.stdout
    assert [*judged.counts] == ["worker-0"]
    assert run(judged, "diagnose", "-n", "shop", "search").stdout.startswith("shop/search: normal")
    found = json.loads(run(judged, "diagnose", "shop/cart", "-o", "json").stdout)
    assert (found["kind"], [(one["node"], one["ratio"]) for one in found["items"]]) == (LIST, [("worker-0", 1.6)])
    refused = run(judged, "diagnose", "shop/x")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "shop/x on node worker-1 is not judged" in refused.stderr
    found = json.loads(run(judged, "diagnose", "-o", "json").stdout)
    assert [one["name"] for one in found["items"]] == ["team/etl", "shop/cart"]
    assert run(judged, "diagnose", "-n", "shop", "-o", "name").stdout.split() == ["shop/cart"]
    assert run(judged, "diagnose", "-n", "none").stdout == "no pod of 2 nodes is judged\n"


LATE = document(pod("shop/search", class_changes=[CHANGE]))
RATIO = document(pod("shop/search", ratio=12345.0))
GARBAGE = "did not answer with diagnoses"
PAGES: list[tuple[str | None, str]] = [
    (document(judged=False), "slowdown.enabled"),
    (None, "of a version without diagnoses"),
    *((text, GARBAGE) for text in ("<html>", "[" * 100_000, '{"judged": true, "items": [' + '{"a":' * 50_000)),
    *((LATE.replace("12345.0", since), GARBAGE) for since in ("1e300", "1e15", "-1e18", "NaN", "Infinity", '"nan"')),
    *((RATIO.replace("12345.0", ratio), GARBAGE) for ratio in ("NaN", "1e999", '"inf"')),
]


@pytest.mark.parametrize("page, why", PAGES, ids=range(len(PAGES)))
def test_node_without_usable_diagnoses_costs_a_line(judged: FakeCluster, page: str | None, why: str) -> None:
    judged.diagnoses = {"worker-0": judged.diagnoses["worker-0"], **({} if page is None else {"worker-1": page})}
    done = run(judged, "diagnose", "-o", "name")
    assert (done.exit_code, done.stdout.split()) == (0, ["team/etl", "shop/cart"])
    (line,) = done.stderr.splitlines()
    assert "node worker-1: " in line
    assert why in line
    refused = run(judged, "diagnose", "shop/search")
    assert (refused.exit_code, why in refused.stderr) == (1, True)


def test_message_of_a_node_has_no_control_characters(judged: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, hostile = judged.answer, json.dumps({"message": "\x1b]0;owned\x07" + "x" * 5000})
    monkeypatch.setattr(judged, "answer", lambda path, of: (500, hostile) if "proxy" in path else answer(path, of))
    done = run(judged, "diagnose")
    assert "?]0;owned?x" in done.stderr
    assert "\x1b" not in done.output
    assert len(done.stderr) < 2000


def test_document_of_a_real_metrics_server_is_understood(judged: FakeCluster, tmp_path: Path) -> None:
    with plain_host(tmp_path) as host:
        host.group(0, "cart", llc_occupancy=1, mbm_total_bytes=1)
        write_slowdown_state(host.context, KEYS[0])
        judged.diagnoses["worker-0"] = served(host.context)().decode()
        done = run(judged, "diagnose", "shop/cart")
    assert done.exit_code == 0, done.output
    assert "shop/cart: slowed, its work takes 1.60 times as long" in done.stdout
    assert "because: memory-bandwidth" in done.stdout
