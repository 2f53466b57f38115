"""The lines above the table of `top`, and its cells, for known and unknown values; domains, capacities, selections."""

import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from golden import Golden
from hosts.counter_tree import say_paths
from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, MonitoredHost, plain_host
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from resctrl_hooks.core.cli import list_options
from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.inventory.models import Pod, Rmids
from resctrl_hooks.core.inventory.selector import PodLabels, Selector
from resctrl_hooks.core.node.resctrl.counters import slot_at
from resctrl_hooks.observe.cli import top_samples
from resctrl_hooks.observe.cli.top_columns import LESS, LONG_NAME, NAME, SHOWN, Shown, fitting
from resctrl_hooks.observe.cli.top_curves import HEIGHT, Past, curves
from resctrl_hooks.observe.cli.top_lines import domain_line, head_line, memory_lines, power_lines
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_scenes import Scenes
from resctrl_hooks.observe.cli.top_table import usage_table
from resctrl_hooks.observe.inventory.columns import BY_KEY
from resctrl_hooks.observe.inventory.package_energy import power_usage
from resctrl_hooks.observe.inventory.rates import FOREIGN, POD, TOTAL, UNGROUPED, Line
from resctrl_hooks.observe.inventory.usage_models import DomainUsage, MemoryShare, MemoryUsage, PowerUsage
from resctrl_hooks.observe.node.capacity.record import NAME as CAPACITIES
from resctrl_hooks.observe.node.snapshot.snapshot import ClassCounts, Snapshot
from resctrl_hooks.observe.params import Bandwidth

NAMES = ("llc", "mbm", "local", "watts")


def line(kind: str, name: str, *values: float | None, counted: float | None = None, **more: Any) -> Line:
    return Line(kind, name, name, dict(zip(NAMES, values, strict=False)), counted=counted, **more)


def rows(scene: Scene, width: int = 200, *, colors: bool = False, **more: Any) -> str:
    options: dict[str, Any] = {"by": "pod", "sort": "mbm", "reverse": False, "pictures": False, "headers": True}
    out = Console(
        width=width, file=io.StringIO(), highlight=False, force_terminal=colors, color_system="truecolor", no_color=None
    )
    out.print(usage_table(scene, scene.lines, width=width, **{**options, **more}))
    assert isinstance(out.file, io.StringIO)
    return "\n".join(text.rstrip() for text in out.file.getvalue().splitlines())


PODS = [
    line(POD, "a", 500, 3e6, 1e6, 4.0, counted=0.75, slowdown=1.5, rdt_class="gold"),
    line(POD, "b", 99, 1e6, None, None, partial=True, rdt_class=""),
    line(POD, "c", None, None, None, None, uncounted=1),
    line(FOREIGN, "job", 0, 0.0, 0.0, 0.0, counted=1.0),
    line(UNGROUPED, "(ungrouped)", 1, 0.5e6, 0.25e6, 1.0),
    line(TOTAL, "TOTAL", 600, 4.5e6, 1.25e6, 5.0, uncounted=1),
]
WHOLE = Scene("n", "t", PODS, llc_bytes=1000)


def test_table_has_each_measured_column_marks_and_colors(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    golden(rows(WHOLE, colors=True, pictures=True), "whole")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Scene("n", "t", [line(POD, "a", 5, 3.0, 1.0), line(TOTAL, "TOTAL", 5, 3.0, 1.0)])
    sums = [line(POD, "gold", 5, 3.0, members=2), line(POD, "silver", 5, 3.0), line(FOREIGN, "(foreign groups)", 5, 1)]
    uncounted = [line(POD, f"u{one}", None, None, members=2, uncounted=one) for one in (2, 1, 0)]
    lowered = {"gold": "MB 100 to 60", "(foreign groups)": "x"}
    texts = [
        rows(WHOLE, 66, sort="llc"),
        rows(plain, headers=False),
        rows(plain, sort="name", reverse=True),
        rows(Scene("n", "t", sums, lowered=lowered), by="class"),
        rows(Scene("n", "t", [*sums, *uncounted, PODS[0]], lowered=lowered), by="namespace"),
    ]
    golden("\n\n".join(texts), "forms")


@settings(max_examples=examples(80))
@given(
    st.sets(st.sampled_from(SHOWN), min_size=1),
    st.sampled_from([*BY_KEY, "slow"]),
    st.integers(1, 80),
    st.integers(20, 300),
)
def test_columns_fit_by_rank_and_a_wider_terminal_adds(known: set[Shown], sort: str, names: int, width: int) -> None:
    columns = [one for one in SHOWN if one in known]
    found = dict(fitting(columns, sort, names, width))
    assert [*found] == [one for one in columns if one in found]
    assert found.keys() <= dict(fitting(columns, sort, names, width + 7)).keys()
    assert all(one.width <= wide <= max(one.width, one.most) for one, wide in found.items())
    main = [one for one in columns if one.of is not None and one.of.key == sort and one.head == one.of.heading]
    assert {*main} <= {*found}, "the order can be seen"
    taken = sum(wide + 2 for wide in found.values())
    if len(found) > 1:
        least = NAME if max(one.rank for one in found if one not in main) < LESS else LONG_NAME
        assert taken + min(names, least) <= width
    missing = [one.rank for one in columns if one not in found]
    assert not missing or min(missing) > max((one.rank for one in found if one not in main), default=-1)


def test_wide_terminal_has_curves_of_the_node(golden: Golden) -> None:
    past = Past()
    scene = Scene("n", "t", PODS, 1000, Rmids(total=8, used=3), seconds=2.0)
    for domain in (None, ("L3", 1), None):
        for rate in (*range(20), 3):
            scene.domain, scene.memory = domain, [memory(capacity_bytes_per_second=9e6)]
            PODS[-1].values["mbm"] = rate * 1e6
            past.add(scene)
    assert curves(past, scene, 159, 40) == curves(past, scene, 160, 23) == curves(Past(), scene, 160, 40) == []
    found = curves(past, scene, 160, 40)
    assert ({len(line) for line in found}, len(found)) == ({159}, HEIGHT)
    golden("\n".join(line.plain.rstrip() for line in found))
    PODS[-1].values["mbm"] = 4.5e6


def domain(number: int, rate: float | None = 5e8, **more: Any) -> DomainUsage:
    values = {"peak_bytes_per_second": 1e9, "peak_is": "observed", "llc_occupancy_bytes": 50, "llc_bytes": 100}
    return DomainUsage.model_validate({"domain": number, "memory_bandwidth_bytes_per_second": rate, **values, **more})


def memory(**more: Any) -> MemoryUsage:
    pods = [MemoryShare(name=name, memory_bandwidth_bytes_per_second=1.0, share_percent=60.4) for name in ("a", "b")]
    values = {"domain": 1, "l3": [1], "memory_bandwidth_bytes_per_second": 2e9, "capacity_bytes_per_second": 4e9}
    return MemoryUsage.model_validate({**values, "load_percent": 50.4, "estimated": False, "pods": pods, **more})


def test_lines_above_the_table_have_what_is_known(golden: Golden) -> None:
    scenes = [
        Scene("node-1", "12:00:00", PODS, 1000, Rmids(total=8, used=3), waiting=2),
        Scene("node-1", "12:00:00", [line(POD, "a")], past="PAST"),
        Scene("n", "t", [], rmids=Rmids(total=8, used=3)),
        Scene("n", "t", [line(TOTAL, "TOTAL", 600)]),
    ]
    golden("\n".join(head_line(scene, 200) for scene in scenes), "head")
    whole = head_line(scenes[0], 200)
    widths = [width for width in range(1, 150) if head_line(scenes[0], width) != head_line(scenes[0], width - 1)]
    ends = [width for width in widths if width > len("node-1")]
    assert {len(head_line(scenes[0], width)) - width for width in ends} == {0}
    assert [head_line(scenes[0], width) for width in (3, 9, len(whole))] == ["nod", "node-1", whole]
    domains = [
        domain(0), domain(1, peak_is="configured"), domain(0, peak_bytes_per_second=None), domain(0, None),
        domain(0, llc_bytes=None), domain(0, llc_occupancy_bytes=None), domain(0, llc_occupancy_bytes=0),
    ]  # fmt: skip
    golden("\n".join(domain_line(Scene("n", "t", [], domains=[one]), 99).plain for one in domains), "domains")
    none: dict[str, Any] = {"memory_bandwidth_bytes_per_second": None, "load_percent": None, "pods": []}
    memories = [memory(), memory(estimated=True), memory(pods=[], capacity_bytes_per_second=None)]
    scene = Scene("n", "t", [], memory=[*memories, memory(**none, estimated=True)])
    golden("\n".join(one.plain for width in (99, 10) for one in memory_lines(scene, width)), "memories")
    power = PowerUsage(packages_watts=9, attributed_watts=1, other_tasks_watts=None, unattributed_watts=None)
    scene = Scene("n", "t", [], power=power)
    golden("\n".join(one.plain for width in (99, 20) for one in power_lines(scene, width)), "power")
    scene.power = power_usage(148.0, [line(POD, "a"), line(TOTAL, "b")])
    assert power_lines(scene, 100) == [], "no energy of pods"


def test_line_of_caches_leaves_details_out_before_caches() -> None:
    scene = Scene("n", "t", [], domains=[domain(0, 1e8), domain(1, 9e8), domain(2, None)], domain=("L3", 1))
    peaks = ("L3 0 100 MB/s (~10% of max so far)", "L3 1 900 MB/s (~90% of max so far)", "L3 2 -")
    texts = [
        "   ".join(f"{one}, 50% full" for one in peaks), "   ".join(peaks), "L3 0 100 MB/s   L3 1 900 MB/s   L3 2 -",
        "L3 1 900 MB/s   L3 0 100 MB/s   +1", "L3 1 900 MB/s   +2", "",
    ]  # fmt: skip
    for text, shorter in itertools.pairwise(texts):
        assert domain_line(scene, len(text)).plain == text
        assert domain_line(scene, len(text) - 1).plain == shorter
    for width, selected in ((len(texts[3]), "L3 1 900 MB/s"), (200, f"{peaks[1]}, 50% full")):
        found = domain_line(scene, width)
        assert [found.plain[span.start : span.end] for span in found.spans if span.style] == [selected]


def snapshot(when: float, *values: float) -> Snapshot:
    """Return a node with so many caches, whose ungrouped tasks have moved these bytes."""
    found = {f"mon_L3_{number:02}/mbm_total_bytes": value for number, value in enumerate(values)}
    part, energy = "mon_L3_00/mon_sub_L3_00/mbm_total_bytes", "mon_PERF_PKG_00/core_energy"
    occupied = {f"mon_L3_{number:02}/llc_occupancy": 10 * number for number in range(len(values))}
    slots = {path: slot_at(path) for path in (*found, part, energy, *occupied)}
    return Snapshot(when, slots, classes={"": ClassCounts("1", {**found, **occupied}, {**found}, {}, {})})


def scenes(capacity: float | None = None, caches: int = 2) -> Scenes:
    made = Scenes(ListOptions(), lambda one: one.name == "web", {0: 100, 1: 200}, None, capacity)
    made.learn(snapshot(0, *[0] * caches))
    return made


NOBODY: Any = None


def test_peak_is_the_largest_rate_after_the_first_interval() -> None:
    made = scenes()
    first = made.between(snapshot(0, 0, 0), snapshot(2, 8, 0), NOBODY, 9.0)
    assert [(one.peak_bytes_per_second, one.peak_is) for one in first.domains] == [(None, None), (None, None)]
    assert (first.seconds, first.llc_bytes, first.power is not None) == (2, 300, True)
    second = made.between(snapshot(2, 8, 0), snapshot(4, 12, 0), NOBODY, None)
    assert [
        (one.domain, one.memory_bandwidth_bytes_per_second, one.peak_bytes_per_second, one.peak_is)
        for one in second.domains
    ] == [(0, 2, 4, "observed"), (1, 0, None, None)]
    assert [(one.llc_occupancy_bytes, one.llc_bytes) for one in second.domains] == [(0, 100), (10, 200)]
    configured = scenes(50.0).between(snapshot(0, 0, 0), snapshot(2, 8, 0), NOBODY, None)
    assert [(one.peak_bytes_per_second, one.peak_is) for one in configured.domains] == [(50, "configured")] * 2
    for capacity, number in ((None, 0), (5.0, 1)):  # a single cache has a line only with a capacity
        assert len(scenes(capacity, 1).between(snapshot(0, 0), snapshot(2, 8), NOBODY, None).domains) == number


def test_selected_cache_is_one_after_the_other() -> None:
    made = scenes()
    seen = []
    for _ in range(4):
        scene = made.between(snapshot(0, 0, 0), snapshot(2, 8, 6), NOBODY, 9.0)
        assert made.domain == scene.domain
        seen.append((scene.domain, scene.llc_bytes, scene.lines[-1].values["mbm"], bool(scene.power)))
        made.turn_domain()
    whole = (None, 300, 7, True)
    assert seen == [whole, (("L3", 0), 100, 4, False), (("L3", 1), 200, 3, False), whole]


def test_bandwidth_has_a_prefix() -> None:
    for text, value in (("500", 500.0), ("1.5G", 1.5e9), ("120GB/s", 120e9), ("2k", 2e3), ("3T", 3e12)):
        assert Bandwidth().convert(text, None, None) == value
    for text in ("", "fast", "1X", "1GG", "1.5.5G", "0", "-1", "\N{SUPERSCRIPT TWO}", "1kk"):
        with pytest.raises(Exception, match=r"bandwidth|range"):
            Bandwidth().convert(text, None, None)


CHOSEN: list[tuple[dict[str, Any], str]] = [
    *(({}, "abc"), ({"pods": ("a", "c")}, "ac"), ({"namespace": "shop"}, "ab"), ({"selector": Selector("app=b")}, "b")),
    ({"selector": Selector("app"), "namespace": "other"}, "c"),
    ({"selector": Selector("app=b"), "pods": ("a",)}, ""),
]


@pytest.mark.parametrize("options, wanted", CHOSEN)
def test_present_lines_are_selected_once(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], wanted: str) -> None:
    asked: list[str] = []

    def pod_of(_: Any, key: str) -> Pod | None:
        asked.append(key)
        return None if key == "gone" else Pod(key=key, state="idle", namespace="shop" if key != "c" else "other")

    monkeypatch.setattr(top_samples, "pod_of", pod_of)
    monkeypatch.setattr(PodLabels, "of", lambda _, __, pod: {"app": pod.key})
    monkeypatch.setattr(list_options, "find", lambda _, what: what.rpartition("/")[2])
    made: Any = top_samples.LiveSamples.__new__(top_samples.LiveSamples)
    made._context, made._options, made._selected = None, ListOptions(**options), {}
    made._keys = {*made._options.pods}
    lines = [Line(POD, key, key, {}, "shop" if key != "c" else "other") for key in "abc"]
    for _ in range(2):
        assert [line.key for line in lines if made._is_selected(line)] == [*wanted]
    assert asked == ([*"abc"] if "selector" in options else [])
    if "selector" in options:
        assert not made._is_selected(Line(POD, "gone", "gone", {}, "shop"))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Two caches, and a pod that fills one of them."""
    sizes = {"info/L3/cbm_mask": "fff", "schemata": "L3:0=fff;1=fff", "size": "L3:0=1200;1=1200"}
    with plain_host(tmp_path, "info/L3") as found:
        for name, text in sizes.items():
            (found.resctrl / name).write_text(f"{text}\n")
        for folder in (found.resctrl, found.group(0, "web-0")):
            for domain, occupancy in (("mon_L3_00", 1200), ("mon_L3_01", 0)):
                say_paths(folder, {f"{domain}/llc_occupancy": occupancy, f"{domain}/mbm_total_bytes": 5})
        yield found


def test_full_cache_next_to_an_empty_one_is_visible(host: MonitoredHost) -> None:
    words = ("top", "--interval", "0.1", "--capacity", "1G")
    made = host.json(*words)
    assert [
        (one["domain"], one["llcOccupancyBytes"], one["llcBytes"], one["peakBytesPerSecond"]) for one in made["domains"]
    ] == [(0, 1200, 1200, 1e9), (1, 0, 1200, 1e9)]
    text = host.run(*words, "--once").stdout
    assert "L3 0 0 B/s (0% of 1.00 GB/s), 100% full   L3 1 0 B/s (0% of 1.00 GB/s), 0% full" in text
    for domain, share in (("0", 100.0), ("1", 0.0)):
        made = host.json("top", "--interval", "0.1", "--domain", domain)
        assert made["domain"] == int(domain)
        assert {item["name"]: item["llcSharePercent"] for item in made["items"]}["shop/web-0"] == share
    for wrong in (["--domain", "7"], ["--capacity", "fast"], ["--capacity", "0"]):
        assert host.run("top", "--once", "--interval", "0.1", *wrong).exit_code == 2


def test_memory_domains_are_shown_where_a_capacity_is_configured(host: MonitoredHost) -> None:
    assert host.json("top", "--interval", "0.1")["memoryDomains"] == []
    host.configure(monitoring={"capacity": {"*": 1e9}})
    made = host.json("top", "--interval", "0.1")["memoryDomains"]
    assert {one["capacityBytesPerSecond"] for one in made} == {1e9}
    assert "memory 0 " in host.run("top", "--once", "--interval", "0.1").stdout
    host.configure(monitoring={})
    seen = {"tables": {}, "source": "", "seen": {"0": 5e8}}
    Path(host.context.settings.state_dir, CAPACITIES).write_text(json.dumps(seen))
    text = host.run("top", "--once", "--interval", "0.1").stdout
    assert "≤0% of 500 MB/s (largest so far)" in text


def test_lost_time_of_namespaces_is_shown_by_namespace(host: MonitoredHost) -> None:
    write_slowdown_state(host.context, KEYS[0])
    text = host.run("top", "--once", "--interval", "0.1", "--by", "namespace").stdout
    assert "(none) lost 3.8 s: to (none) 3.8 s\n" in text
    (lost,) = host.json("top", "--interval", "0.1", "--by", "namespace")["lost"]
    assert lost == {"culprit": "", "victim": "", "cause": "", "seconds": 3.75, "cpuSeconds": 3.75}
    assert "lost" not in host.run("top", "--once", "--interval", "0.1").stdout
