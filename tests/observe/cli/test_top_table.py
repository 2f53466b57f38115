"""The lines above the table of `top`, and its cells, for known and unknown values."""

import io
import itertools
from typing import Any

import pytest
from core.cli.test_show_text import squeezed
from rich.console import Console

from resctrl_hooks.core.cli import list_options
from resctrl_hooks.core.cli.list_options import ListOptions
from resctrl_hooks.core.inventory.models import Pod, Rmids
from resctrl_hooks.core.inventory.selector import Selector
from resctrl_hooks.core.node.resctrl.counters import slot_at
from resctrl_hooks.observe.cli import top_samples
from resctrl_hooks.observe.cli.top import _item
from resctrl_hooks.observe.cli.top_scene import Scene
from resctrl_hooks.observe.cli.top_scenes import Scenes
from resctrl_hooks.observe.cli.top_table import domain_line, head_line, memory_lines, power_lines, usage_table
from resctrl_hooks.observe.inventory.rates import FOREIGN, POD, TOTAL, UNGROUPED, Line
from resctrl_hooks.observe.inventory.usage_models import DomainUsage, MemoryShare, MemoryUsage, PowerUsage
from resctrl_hooks.observe.node.snapshot.snapshot import ClassCounts, Snapshot
from resctrl_hooks.observe.params import Bandwidth

NAMES = ("llc", "mbm", "local", "watts")


def line(kind: str, name: str, *values: float | None, counted: float | None = None, **more: Any) -> Line:
    return Line(kind, name, name, dict(zip(NAMES, values, strict=False)), counted=counted, **more)


def rows(scene: Scene, width: int = 200, **more: Any) -> list[str]:
    options: dict[str, Any] = {"by": "pod", "sort": "mbm", "reverse": False, "pictures": False, "headers": True}
    out = Console(width=width, file=io.StringIO(), highlight=False)
    out.print(usage_table(scene, scene.lines, width=width, **{**options, **more}))
    assert isinstance(out.file, io.StringIO)
    return squeezed(out.file.getvalue().splitlines())


PODS = [
    line(POD, "a", 500, 3e6, 1e6, 4.0, counted=0.75, slowdown=1.5, rdt_class="gold"),
    line(POD, "b", 99, 1e6, None, None, partial=True, rdt_class=""),
    line(POD, "c", None, None, None, None, uncounted=1),
    line(FOREIGN, "job", 0, 0.0, 0.0, 0.0, counted=1.0),
    line(UNGROUPED, "(ungrouped)", 1, 0.5e6, 0.25e6, 1.0),
    line(TOTAL, "TOTAL", 600, 4.5e6, 1.25e6, 5.0, uncounted=1),
]


def test_table_has_each_measured_column() -> None:
    assert rows(Scene("n", "t", PODS, llc_bytes=1000)) == [
        "POD  LLC  L3%  MBM\N{BLACK DOWN-POINTING SMALL TRIANGLE}  LOCAL  POWER  SLOW  COUNTED",
        "a  500 B  50%  ~3.00 MB/s  ~1.00 MB/s  ~4 W  1.5\N{MULTIPLICATION SIGN}  75%",
        "~b  99 B  9.9%  1.00 MB/s  -  -  -  -",
        "c  -  -  -  -  -  -  0%",
        "job  0 B  0.0%  0 B/s  0 B/s  0 W  -  100%",
        "(ungrouped)  1 B  0.1%  500 kB/s  250 kB/s  1 W  -  -",
        "TOTAL  600 B  60%  4.50 MB/s  1.25 MB/s  5 W  -  -",
    ]


def test_order_is_marked_once() -> None:
    (head, *_) = rows(Scene("n", "t", PODS, llc_bytes=1000), sort="llc")
    assert head.startswith("POD  LLC\N{BLACK DOWN-POINTING SMALL TRIANGLE}  L3%  MBM  ")


def test_columns_and_pictures_are_added_at_these_widths() -> None:
    def columns(width: int) -> int:
        options = {"by": "pod", "sort": "mbm", "reverse": False, "pictures": True, "headers": True}
        return len(usage_table(Scene("n", "t", PODS, llc_bytes=1000), PODS, width=width, **options).columns)  # type: ignore[arg-type]

    assert [width for width in range(41, 200) if columns(width) != columns(width - 1)] == [50, 66, 76, 96, 110, 130]


def test_columns_without_values_are_left_out() -> None:
    plain = [line(POD, "a", 5, 3.0, 1.0), line(TOTAL, "TOTAL", 5, 3.0, 1.0)]
    assert rows(Scene("n", "t", plain), headers=False) == ["a  5 B  3 B/s  1 B/s", "TOTAL  5 B  3 B/s  1 B/s"]
    assert rows(Scene("n", "t", plain), sort="name", reverse=True)[0].startswith(
        "POD\N{BLACK UP-POINTING SMALL TRIANGLE}  "
    )


def test_sums_have_the_number_of_pods_and_lowered_values() -> None:
    lines = [
        line(POD, "gold", 5, 3.0, members=2),
        line(POD, "silver", 5, 3.0),
        line(FOREIGN, "(foreign groups)", 5, 1.0),
    ]
    scene = Scene("n", "t", lines, lowered={"gold": "MB 100 to 60", "(foreign groups)": "x"})
    assert [one.split("  ")[0] for one in rows(scene, by="class")] == [
        "CLASS",
        "gold (2) MB 100 to 60",
        "silver (1)",
        "(foreign groups)",
    ]
    assert [one.split("  ")[0] for one in rows(scene, by="namespace")][1] == "gold (2)"


@pytest.mark.parametrize("uncounted, cell", [(2, "0%"), (1, "-"), (0, "-")])
def test_sum_of_uncounted_pods_is_counted_for_no_time(uncounted: int, cell: str) -> None:
    lines = [line(POD, "shop", None, None, members=2, uncounted=uncounted), line(POD, "b", 1, 1.0, counted=0.5)]
    assert rows(Scene("n", "t", lines), by="namespace")[1].split()[-1] == cell


def test_first_line_has_as_many_sums_as_fit() -> None:
    scene = Scene("node-1", "12:00:00", PODS, 1000, Rmids(total=8, used=3), waiting=2)
    whole = (
        "node-1  12:00:00  4.50 MB/s  RMIDs 3/8, 2 waiting  1 pod not counted  5 W  L3 600 B of 1000 B  "
        "counters llc mbm local energy"
    )
    assert head_line(scene, len(whole)) == whole
    assert head_line(scene, len(whole) - 1) == whole.partition("  counters")[0]
    assert head_line(scene, 9) == "node-1"
    assert head_line(scene, 3) == "nod"
    past = Scene("node-1", "12:00:00", [line(POD, "a")], past="PAST")
    assert head_line(past, 99) == "PAST  node-1  counters none"
    assert head_line(Scene("n", "t", [], rmids=Rmids(total=8, used=3)), 99) == "n  t  RMIDs 3/8"
    sizeless = Scene("n", "t", [line(TOTAL, "TOTAL", 600)])
    assert head_line(sizeless, 99) == "n  t  counters llc"


def domain(number: int, rate: float | None = 5e8, **more: Any) -> DomainUsage:
    values = {"peak_bytes_per_second": 1e9, "peak_is": "observed", "llc_occupancy_bytes": 50, "llc_bytes": 100}
    return DomainUsage.model_validate({"domain": number, "memory_bandwidth_bytes_per_second": rate, **values, **more})


@pytest.mark.parametrize(
    "one, text",
    [
        (domain(0), "L3 0 500 MB/s (~50% of max so far), 50% full"),
        (domain(1, peak_is="configured"), "L3 1 500 MB/s (50% of 1.00 GB/s), 50% full"),
        (domain(0, peak_bytes_per_second=None), "L3 0 500 MB/s, 50% full"),
        (domain(0, None), "L3 0 -, 50% full"),
        (domain(0, llc_bytes=None), "L3 0 500 MB/s (~50% of max so far)"),
        (domain(0, llc_occupancy_bytes=None), "L3 0 500 MB/s (~50% of max so far)"),
        (domain(0, llc_occupancy_bytes=0), "L3 0 500 MB/s (~50% of max so far), 0% full"),
    ],
)
def test_line_of_a_cache_has_what_is_known(one: DomainUsage, text: str) -> None:
    assert domain_line(Scene("n", "t", [], domains=[one]), 99).plain == text


RATES_OF_CACHES = ("L3 0 100 MB/s (~10% of max so far)", "L3 1 900 MB/s (~90% of max so far)")


def test_line_of_caches_leaves_details_out_before_caches() -> None:
    scene = Scene("n", "t", [], domains=[domain(0, 1e8), domain(1, 9e8), domain(2, None)], domain=("L3", 1))
    texts = [
        "   ".join(f"{one}, 50% full" for one in (*RATES_OF_CACHES, "L3 2 -")),
        "   ".join((*RATES_OF_CACHES, "L3 2 -")),
        "L3 0 100 MB/s   L3 1 900 MB/s   L3 2 -",
        "L3 1 900 MB/s   L3 0 100 MB/s   +1",
        "L3 1 900 MB/s   +2",
        "",
    ]
    for text, shorter in itertools.pairwise(texts):
        assert domain_line(scene, len(text)).plain == text
        assert domain_line(scene, len(text) - 1).plain == shorter
    narrow = domain_line(scene, len(texts[3]))
    assert [narrow.plain[span.start : span.end] for span in narrow.spans if span.style] == ["L3 1 900 MB/s"]
    spans = {str(span.style): (span.start, span.end) for span in domain_line(scene, 200).spans}
    assert texts[0][slice(*spans["underline"])] == "L3 1 900 MB/s (~90% of max so far), 50% full"


def memory(**more: Any) -> MemoryUsage:
    pods = [MemoryShare(name=name, memory_bandwidth_bytes_per_second=1.0, share_percent=60.4) for name in ("a", "b")]
    values = {"domain": 1, "l3": [1], "memory_bandwidth_bytes_per_second": 2e9, "capacity_bytes_per_second": 4e9}
    return MemoryUsage.model_validate({**values, "load_percent": 50.4, "estimated": False, "pods": pods, **more})


@pytest.mark.parametrize(
    "more, text",
    [
        ({}, "memory 1 2.00 GB/s, 50% of 4.00 GB/s: a 60%, b 60%"),
        ({"estimated": True}, "memory 1 ~2.00 GB/s, ~50% of 4.00 GB/s: a 60%, b 60%"),
        ({"pods": [], "capacity_bytes_per_second": None}, "memory 1 2.00 GB/s"),
        (
            {"memory_bandwidth_bytes_per_second": None, "load_percent": None, "pods": [], "estimated": True},
            "memory 1 -, - of 4.00 GB/s",
        ),
    ],
)
def test_line_of_a_memory_domain_has_load_and_pods(more: dict[str, Any], text: str) -> None:
    scene = Scene("n", "t", [], memory=[memory(**more)])
    assert [one.plain for one in memory_lines(scene, 99)] == [text]
    assert len(memory_lines(scene, 10)[0]) == 10


def test_power_without_known_parts_has_dashes() -> None:
    power = PowerUsage(packages_watts=9, attributed_watts=1, other_tasks_watts=None, unattributed_watts=None)
    (made,) = power_lines(Scene("n", "t", [], power=power), 99)
    assert made.plain == "packages 9 W: 1 W attributed to pods, - unattributed (cores, other tasks: -)"
    (made,) = power_lines(Scene("n", "t", [], power=power), 20)
    assert len(made) == 20


def test_item_for_programs_has_percentages() -> None:
    made: Any = _item(PODS[0], Scene("n", "t", PODS, llc_bytes=3000))
    assert (made.counted_percent, made.llc_share_percent, made.slowdown) == (75.0, 16.667, 1.5)
    made = _item(PODS[2], Scene("n", "t", PODS))
    assert (made.counted_percent, made.llc_share_percent, made.uncounted, made.partial) == (None, None, 1, False)


def snapshot(when: float, *values: float) -> Snapshot:
    """Return a node with so many caches, whose ungrouped tasks have moved these bytes."""
    paths = [f"mon_L3_{number:02}/mbm_total_bytes" for number in range(len(values))]
    found = dict(zip(paths, values, strict=True))
    part, energy = "mon_L3_00/mon_sub_L3_00/mbm_total_bytes", "mon_PERF_PKG_00/core_energy"
    slots = {path: slot_at(path) for path in (*paths, part, energy)}
    occupied = {f"mon_L3_{number:02}/llc_occupancy": 10 * number for number in range(len(values))}
    slots |= {path: slot_at(path) for path in occupied}
    return Snapshot(when, slots, classes={"": ClassCounts("1", {**found, **occupied}, {**found}, {}, {})})


def scenes(domain: tuple[str, int] | None = None, capacity: float | None = None, **options: Any) -> Scenes:
    made = Scenes(ListOptions(**options), lambda one: one.name == "web", {0: 100, 1: 200}, domain, capacity)
    made.learn(snapshot(0, 0, 0))
    return made


def test_peak_is_the_largest_rate_after_the_first_interval() -> None:
    users: Any = None
    made = scenes()
    first = made.between(snapshot(0, 0, 0), snapshot(2, 8, 0), users, 9.0)
    assert [(one.peak_bytes_per_second, one.peak_is) for one in first.domains] == [(None, None), (None, None)]
    assert (first.seconds, first.llc_bytes, first.power is not None) == (2, 300, True)
    second = made.between(snapshot(2, 8, 0), snapshot(4, 12, 0), users, None)
    found = [(one.domain, one.memory_bandwidth_bytes_per_second, one.peak_bytes_per_second) for one in second.domains]
    assert found == [(0, 2, 4), (1, 0, None)]
    assert [one.peak_is for one in second.domains] == ["observed", None]
    assert [(one.llc_occupancy_bytes, one.llc_bytes) for one in second.domains] == [(0, 100), (10, 200)]
    configured = scenes(capacity=50.0).between(snapshot(0, 0, 0), snapshot(2, 8, 0), users, None)
    assert [(one.peak_bytes_per_second, one.peak_is) for one in configured.domains] == [(50, "configured")] * 2


def test_selected_cache_is_one_after_the_other() -> None:
    users: Any = None
    made = scenes()
    seen = []
    for _ in range(4):
        scene = made.between(snapshot(0, 0, 0), snapshot(2, 8, 6), users, 9.0)
        seen.append((made.domain, scene.domain, scene.llc_bytes, scene.lines[-1].values["mbm"], bool(scene.power)))
        made.turn_domain()
    assert seen == [
        (None, None, 300, 7, True),
        (("L3", 0), ("L3", 0), 100, 4, False),
        (("L3", 1), ("L3", 1), 200, 3, False),
        (None, None, 300, 7, True),
    ]


def test_single_cache_has_a_line_only_with_a_capacity() -> None:
    users: Any = None
    for capacity, number in ((None, 0), (5.0, 1)):
        made = Scenes(ListOptions(), lambda _: True, {}, None, capacity)
        made.learn(snapshot(0, 0))
        assert len(made.between(snapshot(0, 0), snapshot(2, 8), users, None).domains) == number


@pytest.mark.parametrize(
    "text, value", [("500", 500.0), ("1.5G", 1.5e9), ("120GB/s", 120e9), ("2k", 2e3), ("3T", 3e12)]
)
def test_bandwidth_has_a_prefix(text: str, value: float) -> None:
    assert Bandwidth().convert(text, None, None) == value


@pytest.mark.parametrize("text", ["", "fast", "1X", "1GG", "1.5.5G", "0", "-1", "\N{SUPERSCRIPT TWO}", "1kk"])
def test_other_text_is_not_a_bandwidth(text: str) -> None:
    with pytest.raises(Exception, match=r"bandwidth|range"):
        Bandwidth().convert(text, None, None)


@pytest.mark.parametrize(
    "options, wanted",
    [
        ({}, "abc"),
        ({"pods": ("a", "c")}, "ac"),
        ({"namespace": "shop"}, "ab"),
        ({"selector": Selector("app=b")}, "b"),
        ({"selector": Selector("app"), "namespace": "other"}, "c"),
        ({"selector": Selector("app=b"), "pods": ("a",)}, ""),
    ],
)
def test_lines_of_the_present_are_selected_once(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], wanted: str
) -> None:
    asked: list[str] = []

    def pod_of(_: Any, key: str) -> Pod | None:
        asked.append(key)
        return None if key == "gone" else Pod(key=key, state="idle", namespace="shop" if key != "c" else "other")

    monkeypatch.setattr(top_samples, "pod_of", pod_of)
    monkeypatch.setattr(list_options, "labels_of", lambda _, pod: {"app": pod.key})
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
