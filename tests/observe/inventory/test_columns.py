"""Lines and columns of `top`: each column in every place, lines of pods, groups and sums, load of memory domains."""

import csv
import io
import itertools
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from hosts.counter_tree import say_paths
from hosts.monitored import KEYS, MonitoredHost, plain_host
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from observe.inventory.test_rates import KEY, OCCUPANCY, OTHER, gold, reading, snapshot
from observe.inventory.test_rates import TOTAL as BYTES
from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.core.node.resctrl.counters import COUNTERS, CUMULATIVE, UNASSIGNED, UNAVAILABLE, WAITING, slot_at
from resctrl_hooks.observe.cli.top import _CSV, _item
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_screen import Screen
from resctrl_hooks.observe.cli.top_state import SORT_KEYS
from resctrl_hooks.observe.cli.top_table import usage_table
from resctrl_hooks.observe.cluster import usage as cluster
from resctrl_hooks.observe.cluster.api import MetricsPod
from resctrl_hooks.observe.cluster.exposition import parse
from resctrl_hooks.observe.cluster.readings import NodeReading
from resctrl_hooks.observe.cluster.usage import NAMES as SERIES
from resctrl_hooks.observe.cluster.usage import pods_of
from resctrl_hooks.observe.inventory import usage as lines_of
from resctrl_hooks.observe.inventory.columns import BY_KEY, COLUMNS, LLC, MBM, RATES, Column, value_in
from resctrl_hooks.observe.inventory.memory_load import memory_usage, pod_memory
from resctrl_hooks.observe.inventory.pod_rates import PodMemory, PodRates
from resctrl_hooks.observe.inventory.rates import FOREIGN, POD, TOTAL, UNGROUPED, Line, added
from resctrl_hooks.observe.inventory.rates import TOTAL as NODE
from resctrl_hooks.observe.inventory.slowdown import as_text
from resctrl_hooks.observe.inventory.usage import USERS, Users, grouped, ordered, usage, with_total
from resctrl_hooks.observe.inventory.usage_models import MemoryUsage
from resctrl_hooks.observe.node.capacity.capacity import Capacities
from resctrl_hooks.observe.node.guard.snapshots import domains_of, traffic_of
from resctrl_hooks.observe.node.snapshot.snapshot import ClassCounts, Counts, Snapshot, take
from resctrl_hooks.observe.recording.analysis import MEASURES

EACH = pytest.mark.parametrize("column", COLUMNS, ids=[*BY_KEY])
VALUE = 123.0
PAGE = Path(__file__).parents[3] / "docs/looking.md"


def scene(column: Column) -> Scene:
    lines = [Line(kind, kind, kind, {column.key: VALUE}) for kind in (POD, TOTAL)]
    return Scene("node", "12:00:00", lines, llc_bytes=1000)


def text_of(shown: object) -> str:
    out = Console(width=200, file=io.StringIO())
    out.print(shown)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


@EACH
def test_column_is_in_each_place_where_columns_are_shown(column: Column) -> None:
    for of in ("key", "heading", "counter", "field", "metric", "press", "title", "recorded"):
        assert [getattr(one, of) for one in COLUMNS].count(getattr(column, of)) == 1, of
    one = scene(column)
    form: dict[str, Any] = {"by": "pod", "sort": "mbm", "reverse": False, "pictures": False, "headers": True}
    text = text_of(usage_table(one, one.lines, width=200, **form))
    assert scaled(VALUE, column.unit, binary=not column.is_rate) in text
    assert column.heading in text
    assert not column.share or column.share.heading in text
    item = _item(one.lines[0], one)
    assert value_in(item, column) == VALUE
    row = {name: get(item) for name, get in _CSV}
    assert VALUE in row.values()
    csv.writer(io.StringIO()).writerow(row.values())
    assert not column.share or getattr(item, column.share.field) == 12.3
    assert f"`{column.heading}`" in PAGE.read_text()
    assert any(measure.title == column.title for measure in MEASURES)
    assert column.field in cluster.PodUsage.model_fields
    assert f"*_{column.metric.partition('_')[2]}" in cluster.NAMES
    assert (column.field in PodRates.model_fields) == column.is_rate == (column in RATES)
    assert (COUNTERS[column.counter].kind == CUMULATIVE) == column.is_rate


@EACH
def test_column_has_a_key_that_sorts_and_adds(column: Column) -> None:
    screen = Screen(scene(column))
    screen.press(column.press)
    assert screen.state.sort == SORT_KEYS[column.press] == column.key
    screen.press("?")
    assert column.meaning.replace("`", "") in text_of(screen.render(200, 50))
    lines = [Line(POD, str(value), "", {column.key: float(value)}) for value in (1, 3, 2)]
    assert [line.name for line in ordered(lines, column.key)] == ["3", "2", "1"]
    assert added(lines)[column] == (6 if column.adds else 3)


CART, ETL = KEYS[0], KEYS[1]
NAMES = {CART: "shop/cart", ETL: "batch/etl"}
Moved = tuple[object, object]


class Node:
    """Some pods in the root class, whose domains can carry 1000 bytes in an interval."""

    def __init__(self, host: MonitoredHost, pods: int) -> None:
        self.host = host
        self.folders = {"": host.resctrl} | {KEYS[one]: host.group(one, f"pod-{one}") for one in range(pods)}
        self.count(dict.fromkeys(self.folders, ((0, 0), (0, 0))))

    def count(self, moved: Mapping[str, tuple[Moved, Moved]]) -> None:
        """Set total and local traffic of the two L3 domains."""
        for name, of in moved.items():
            for domain, (total, local) in zip(("mon_L3_00", "mon_L3_01"), of, strict=True):
                say_paths(self.folders[name], {f"{domain}/mbm_total_bytes": total, f"{domain}/mbm_local_bytes": local})

    def measured(self, moved: Mapping[str, tuple[Moved, Moved]]) -> list[MemoryUsage]:
        """Return the load in an interval in which the traffic became this."""
        self.before = take(self.host.context)
        self.domains = [*domains_of(self.host.context, self.before)]
        time.sleep(0.1)
        self.count(moved)
        self.now = take(self.host.context)
        self.seconds = self.now.when - self.before.when
        self.capacity = Capacities({"*": 1000 / self.seconds})
        return memory_usage(self.before, self.now, self.domains, self.capacity, NAMES)

    def of(self, key: str) -> list[PodMemory]:
        return pod_memory(self.before, self.now, self.domains, self.capacity, key)


@pytest.fixture
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    with plain_host(tmp_path, sysPath=str(tmp_path / "sys")) as host:
        yield Node(host, getattr(request, "param", 2))


def test_load_of_two_domains_names_largest_pods_and_their_shares(node: Node) -> None:
    idle = (0, 0)
    moved = {CART: ((300, 200), idle), ETL: ((600, 600), (50, 50)), "": ((900, 800), (50, 50))}
    first, second = node.measured(moved)
    assert (first.domain, first.l3, first.estimated) == (0, [0], False)
    assert (first.load_percent, second.load_percent) == (80, 15)
    assert [(pod.name, pod.share_percent) for pod in first.pods] == [("batch/etl", 75.0), ("shop/cart", 25.0)]
    assert [pod.name for pod in second.pods] == ["shop/cart", "batch/etl"]
    of_first, of_second = node.of(CART)
    assert (of_first.domain, of_first.share_percent, of_first.load_percent, of_first.estimated) == (0, 25.0, 80, False)
    assert of_first.memory_bandwidth_bytes_per_second == pytest.approx(200 / node.seconds)
    assert (of_second.domain, of_second.share_percent, of_second.load_percent) == (1, 66.7, 15.0)
    assert [one.share_percent for one in node.of(KEYS[2])] == [None, None]  # not tracked
    node.count({ETL: (("Unavailable", 0), idle)})
    node.measured({})
    assert {(one.memory_bandwidth_bytes_per_second, one.share_percent) for one in node.of(ETL)} == {(None, None)}


def test_share_of_pod_is_of_known_traffic_beside_unknown_domain(node: Node) -> None:
    """The remote traffic of an unknown domain is in neither the whole nor the part."""
    moved = {CART: ((100, 100), (900, 0)), ETL: ((100, 100), (0, 0)), "": ((200, 200), ("Unavailable", 0))}
    first, _ = node.measured(moved)
    assert {pod.name: pod.share_percent for pod in first.pods} == {"shop/cart": 50.0, "batch/etl": 50.0}
    (shown, _) = node.of(CART)
    assert shown.share_percent == 50.0
    assert shown.memory_bandwidth_bytes_per_second == pytest.approx(1000 / node.seconds)


@pytest.mark.parametrize("node", [5], indirect=True)
def test_three_largest_pods_are_shown_by_name_or_key(node: Node) -> None:
    totals = (1000, 10, 0, 400, 300, 250)
    node.measured({name: ((total, total), (0, 0)) for name, total in zip(node.folders, totals, strict=True)})
    first, second = memory_usage(node.before, node.now, node.domains, Capacities(), {KEYS[2]: "shop/pod-2"})
    shares = [("shop/pod-2", 40.0), (KEYS[3], 30.0), (KEYS[4], 25.0)]
    assert [(pod.name, pod.share_percent) for pod in first.pods] == shares
    assert (first.capacity_bytes_per_second, first.load_percent, second.pods) == (None, None, [])


def test_no_byte_of_caches_and_memories_that_both_count_is_counted_twice(tmp_path: Path) -> None:
    with plain_host(tmp_path, "info") as host:
        folders = (host.resctrl, host.group(0, "web-0"))

        def count(total: int) -> None:
            for folder in folders:
                places = {f"{place}/mbm_total_bytes": total for place in ("mon_L3_01", "mon_MB_10")}
                say_paths(folder, {**places, "mon_L3_01/mbm_local_bytes": total, "mon_L3_01/llc_occupancy": 4096})

        count(1000)
        before, text = take(host.context), host.run("metrics").output
        count(3000)
        now, series = take(host.context), [parse(one, SERIES) for one in (text, host.run("metrics").output)]
        now.when = before.when + 2.0  # two reads can be of the same millisecond
        for domain in ("", "mon_L3_01"):
            lines = usage(before, now, domain=domain)
            assert [line.moved["mbm_total_bytes"] for line in lines if line.kind == "pod"] == [2000]
        (whole,) = traffic_of(before, now, domains_of(host.context, now))
    assert (whole.domain, whole.estimated) == ((10,), False)
    assert whole.rate == pytest.approx(1000)
    pod = MetricsPod("worker-0", "metrics-worker-0", "10.0.0.1", ready=True, image="i")
    names = {one.partition("{")[0] for one in series[1]}
    assert {"l3_mbm_total_bytes_total", "mb_mbm_total_bytes_total"} <= names
    alone = [{one: value for one, value in of.items() if "l3_mbm" not in one} for of in series]
    readings = (NodeReading(pod, of[0], of[1], 1.0) for of in (series, alone))
    both, memory = ([value_in(one, MBM) for one in pods_of(found)] for found in readings)
    assert both == memory


BOTH = ("", "gold")


@pytest.mark.parametrize(
    "before, now, held, rates",
    [
        ([reading(0, 7), gold(0, 7)], [reading(40, 9), gold(20, 9)], BOTH, {"/": 20, "gold": 10}),
        ([reading(0, 7, UNASSIGNED), gold(0, 7)], [reading(0, 7, UNASSIGNED), gold(20, 9)], BOTH,
         {"/": None, "gold": 10}),
        # It left the class long ago; it changes its class; it waits in no class.
        ([reading(50, 7, WAITING), gold(0, 7)], [reading(50, 7, WAITING), gold(20, 9)], ("gold",), {"gold": 10}),
        ([reading(0, 7)], [reading(20, 8, WAITING), gold(20, 1)], None, {"/": None, "gold": None}),
        ([reading(0, 7, WAITING)], [reading(0, 7, WAITING)], None, {"(no group)": None}),
    ],
)  # fmt: skip
def test_pod_has_its_share_in_each_class(before: Any, now: Any, held: Any, rates: dict[str, float | None]) -> None:
    lines = usage(snapshot(100, *before, held=held), snapshot(102, *now, held=held))
    by_class = [line for line in grouped(lines, "class") if line.kind == POD]
    assert {line.name: line[MBM] for line in by_class} == rates
    assert {line.members for line in by_class} == {1}
    assert {line.name: line.uncounted for line in by_class if line[MBM] is not None} == {
        name: 0 for name, rate in rates.items() if rate is not None
    }
    assert [line.members for line in grouped(lines, "namespace") if line.kind == POD] == [1]


def test_lines_of_a_domain_have_only_its_values() -> None:
    cache = OCCUPANCY.replace("00", "01")

    def look(when: float, here: float, there: float) -> Snapshot:
        gauges = [reading(5, 0, path=cache), reading(9, 0, path=OCCUPANCY)]
        found = [reading(here, when), reading(there, when, path=OTHER), *gauges]
        classes = {"": ClassCounts("0", {OCCUPANCY: 9, cache: 5}, {BYTES: here, OTHER: there}, {}, {})}
        groups = {("", "job"): Counts("1", {BYTES: here, OTHER: there})}
        slots = {path: slot_at(path) for path in (BYTES, OTHER, OCCUPANCY, cache)}
        return Snapshot(when, slots, {KEY: found}, {KEY: {""}}, groups, classes)

    before, now = look(100, 0, 0), look(102, 40, 20)
    lines = usage(before, now, None, "mon_L3_01")
    assert [(line[MBM], line[LLC]) for line in lines] == [(10, 5), (10, None), (10, None), (30, 5)]
    whole = usage(before, now)
    assert [line[MBM] for line in whole] == [30, 30, 30, 90]
    assert [lines_of.total(whole, now, 2, f"mon_L3_0{number}")[MBM] for number in (0, 1, 2)] == [60, 30, None]


def test_line_of_a_pod_has_its_names_and_its_only_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_of, "is_partial", lambda one, _: one.value == 9)
    with plain_host(tmp_path, "gold/mon_groups") as host:
        host.group(0, "web", rdt_class="gold")
        host.group(1, "db")
        host.group(1, "db", rdt_class="gold")
        users = Users(host.context)
        users.learn(KEYS[:2])
        used = Line(values={"mbm": 5}, counted=1.0)
        counted, uncounted = reading(1, 7), reading(1, 7, UNASSIGNED)
        one, two = users.line(KEYS[0], used, [counted]), users.line(KEYS[1], used, [counted, uncounted])
        assert users.line(KEYS[2], Line(), [counted, reading(9, 7)]).partial
        now = Snapshot(102, {}, {KEYS[0]: [counted]})
        assert usage(Snapshot(100, {}), now, Users(host.context))[0].name == "shop/web", "its name is learnt"
    assert one == Line(POD, "shop/web", KEYS[0], {"mbm": 5}, "shop", "web", "gold", counted=1.0)
    assert two == Line(POD, "shop/db", KEYS[1], {"mbm": 5}, "shop", "db", None, uncounted=1, counted=1.0)
    assert (users.name(KEYS[0]), users.name(KEYS[2])) == ("shop/web", KEYS[2][:12])


@pytest.mark.parametrize("identity, rate, moved", [("1", 20.0, 40), ("2", None, 50), (None, None, 50)])
def test_foreign_group_and_class_have_a_rate_unless_new(identity: str | None, rate: float | None, moved: int) -> None:
    def look(when: float, which: str | None, value: float) -> Snapshot:
        groups = {("gold", "job"): Counts(which, {BYTES: value})} if which else {}
        classes = {"gold": ClassCounts(which or "", {}, {BYTES: value}, {}, {})}
        return Snapshot(when, {BYTES: slot_at(BYTES)}, foreign=groups, classes=classes)

    line, rest, node = usage(look(100, identity, 10), look(102, "1", 50))
    assert (line.kind, line.name, line.key) == (FOREIGN, "gold/mon_groups/job", "")
    assert (line[MBM], line.moved) == (rate, {"mbm_total_bytes": moved})
    assert (rest.kind, rest[MBM], node.kind) == (UNGROUPED, rate, NODE)
    assert node[MBM] == (moved if rate else None)


@pytest.mark.parametrize("other, cache", [(300, 400), (UNAVAILABLE, None)])
def test_total_is_the_sum_of_all_lines_and_of_the_classes_cache(other: float | str, cache: float | None) -> None:
    def look(when: float, one: float, rest: float) -> Snapshot:
        part = "mon_L3_00/mon_sub_L3_01/llc_occupancy"
        classes = {
            "": ClassCounts("0", {OCCUPANCY: 100, part: 60, BYTES: 9}, {BYTES: rest}, {}, {}),
            "gold": ClassCounts("1", {OCCUPANCY: other}, {BYTES: 0}, {}, {}),
        }
        slots = {path: slot_at(path) for path in (BYTES, OCCUPANCY, part)}
        return Snapshot(when, slots, {KEY: [reading(one, when - 90, path=BYTES)]}, {KEY: {""}}, classes=classes)

    *_, node = usage(look(100, 0, 0), look(102, 40, 20))
    assert (node.name, node.key, node[MBM], node[LLC]) == ("TOTAL", "", 30, cache)
    assert usage(look(100, 0, 0), look(100, 40, 20))[-1][MBM] is None


RATIOS = st.one_of(st.none(), st.sampled_from([0.0, 1.0, 1.04, 1.05, 1.2, 1.64, 1.9]))
AMOUNTS = st.one_of(
    st.none(),
    st.sampled_from([0.0, 0.2, 10, 10.9, 999.7e3, 1.004e6, 1.006e6, 199.4e6, 199.6e6, 200.4e6, 2**20, 2.001 * 2**20]),
)
FACTS: dict[str, Any] = {
    "kind": st.sampled_from([POD, POD, FOREIGN, UNGROUPED, NODE]), "name": st.text("abc", min_size=1, max_size=3),
    "values": st.fixed_dictionaries(dict.fromkeys(BY_KEY, AMOUNTS)),
    "namespace": st.sampled_from(["", "shop", "batch"]),
    "rdt_class": st.sampled_from([None, "", "gold"]), "slowdown": RATIOS, "uncounted": st.integers(0, 1),
}  # fmt: skip
LINES = st.lists(st.builds(Line, **FACTS), max_size=8)


def shown(line: Line, sort: str) -> tuple[float, str]:
    """Return the value of a line, and its text; an unknown one is smaller than any other."""
    value = line.slowdown if sort == "slow" else line.values[sort]
    if value is None:
        return -1.0, ""
    return value, as_text(value) if sort == "slow" else scaled(value, "", binary=not BY_KEY[sort].is_rate)


@settings(max_examples=examples(100))
@given(LINES, st.sampled_from([*BY_KEY, "slow", "name"]), st.booleans(), st.booleans())
def test_lines_are_ordered_by_shown_or_exact_values(lines: list[Line], sort: str, reverse: bool, exact: bool) -> None:
    found = ordered(lines, sort, reverse=reverse, exact=exact)
    users = [line for line in found if line.kind in USERS]
    assert sorted(map(id, found)) == sorted(map(id, lines))
    assert found[len(users) :] == [line for line in lines if line.kind not in USERS], "the sums stay last"
    for one, two in itertools.pairwise(users):
        if sort == "name":
            assert one.name >= two.name if reverse else one.name <= two.name
            continue
        (first, text), (second, other) = shown(one, sort), shown(two, sort)
        is_equal = first == second or (not exact and text == other)
        assert one.name <= two.name if is_equal else (first < second) == reverse


@settings(max_examples=examples(60))
@given(LINES, st.sampled_from(["namespace", "class"]))
def test_each_line_is_in_one_sum_and_unknown_values_make_it_unknown(lines: list[Line], by: str) -> None:
    found = grouped(lines, by)
    names = {"namespace": lambda one: one.namespace or "(no namespace)"}
    names["class"] = lambda one: "(no group)" if one.rdt_class is None else one.rdt_class or "/"
    for line in found:
        parts = [
            one for one in lines if one.kind == line.kind and (line.kind == FOREIGN or names[by](one) == line.name)
        ]
        if line.kind not in USERS:
            assert line in lines
            continue
        values = [one.values["mbm"] for one in parts]
        assert line[MBM] == (None if None in values else sum(values))  # type: ignore[arg-type]
        assert (line.members, line.uncounted) == (len(parts), sum(one.uncounted for one in parts))
        if line.kind == POD:
            ratios = [one.slowdown for one in parts if one.slowdown is not None]
            assert (line.key, line.slowdown) == (line.name, max(ratios, default=None))
            assert line.namespace == (parts[0].namespace if by == "namespace" else "")
    assert [line.name for line in found if line.kind == FOREIGN] in ([], ["(foreign groups)"])
    assert {line.kind for line in found} == {line.kind for line in lines}
    assert grouped(lines, "pod") == lines


@settings(max_examples=examples(25))
@given(LINES)
def test_total_is_that_of_the_lines_above(lines: list[Line]) -> None:
    *above, total = with_total(lines)
    assert above == [line for line in lines if line.kind != NODE]
    values = [line.values["mbm"] for line in above]
    assert total[MBM] == (sum(values) if values and None not in values else None)  # type: ignore[arg-type]
    assert (total.kind, total.members, total.uncounted) == (NODE, len(above), sum(one.uncounted for one in above))
