"""The charts of a page, as Plotly gets them: lines, colours, gaps, marks, and how many of each."""

import json
import re
from typing import Any

import pytest

from resctrl_hooks.core.inventory.interval import LEAST_TURNS
from resctrl_hooks.observe.node.history.rows import SCHEMATA, Row
from resctrl_hooks.observe.recording.analysis import OTHERS, recording_of
from resctrl_hooks.observe.recording.noise import noisy
from resctrl_hooks.observe.recording.page import page_of
from resctrl_hooks.observe.recording.style import SCRIPT
from resctrl_hooks.observe.recording.texts import number

from .rows import L3, rows_of, slowdown, turns

GREY = "#999999"


def charts(page: str) -> list[Any]:
    """Return data and layout of each chart."""
    decode = json.JSONDecoder().raw_decode
    found = []
    for start in re.finditer(r'Plotly\.newPlot\(\s*"[0-9a-f-]{36}",\s*', page):
        data, end = decode(page, start.end())
        layout, _ = decode(page, re.compile(r",\s*").match(page, end).end())  # type: ignore[union-attr]
        found.append((data, layout))
    return found


def colors(data: Any) -> dict[str, str]:
    return {line["name"]: line["line"]["color"] for line in data}


def test_twelve_largest_pods_have_a_line_and_a_color_each() -> None:
    rows = rows_of({f"p{one:02}": [one + 1] * 2 for one in range(14)})
    occupied = [
        {**row, "llc_occupancy_bytes": (int(str(row["key"])[1:]) + 1) << 20} for row in rows if row["key"] != "p13"
    ]
    gone = [row for row in rows if row["key"] == "p13"]
    (data, _), (sums, _), (cache, _), _ = charts(page_of(recording_of([*occupied, *gone])))
    names = [f"shop/p{one:02}" for one in range(13, 1, -1)]
    assert [line["name"] for line in data] == [*names, OTHERS]
    assert data[-1]["y"] == [None, 3, 3], "in GB/s; no rate before the second sample"
    assert not any(line["connectgaps"] for line in data)
    found = colors(data)
    assert found.pop(OTHERS) == GREY
    assert len({*found.values(), GREY}) == 13
    (namespace,) = colors(sums).values()
    assert namespace != GREY
    # the same color in all charts, apart from the smallest pods, which get the remaining ones
    same = names[1:11]
    assert {name: colors(cache)[name] for name in same} == {name: found[name] for name in same}
    assert {line["name"]: line["y"][0] for line in cache}["shop/p12"] == 13, "in MiB"


def test_pod_that_was_created_again_is_one_line() -> None:
    rows = [*rows_of({"old": [1, 1]}), *rows_of({"new": [3]}, start=3)]
    (data, _), _ = charts(page_of(recording_of([{**row, "pod": "web"} for row in rows])))
    assert [(line["name"], line["y"]) for line in data] == [("shop/web", [None, 1, 1, None, 3])]


def test_name_is_once_in_the_legend_of_several_domains() -> None:
    (data, layout), (sums, _) = charts(page_of(recording_of(rows_of({"a": [1], "b": [2]}, domains=L3))))
    assert [(line["name"], line["yaxis"], line["showlegend"]) for line in data] == [
        ("shop/b", "y", True),
        ("shop/a", "y", True),
        ("shop/b", "y2", False),
        ("shop/a", "y2", False),
    ]
    assert [title["text"] for title in layout["annotations"]] == list(L3)
    assert layout["xaxis"]["matches"] == "x2", "one time axis"
    assert layout["height"] >= 2 * 200
    assert sums[0]["y"] == [None, 6]


@pytest.mark.parametrize("domains, title", [(L3, "all domains together"), (L3[:1], L3[0])])
def test_chart_by_namespace_names_its_domains(domains: tuple[str, ...], title: str) -> None:
    _, (_, layout) = charts(page_of(recording_of(rows_of({"a": [1]}, domains=domains))))
    assert [one["text"] for one in layout["annotations"]] == [f"by namespace, {title}"]


def test_twenty_largest_noisy_times_of_a_domain_are_shaded_in_the_color_of_their_pod() -> None:
    others = {f"p{one}": [2.5] * 5 * 22 for one in range(4)}
    bursts = [rate for burst in range(22) for rate in (0, 0, 0, 0, 10 + burst)]
    recording = recording_of([*rows_of({"loud": bursts, **others}, 30), *rows_of({"x": [5]}, 30, domains=L3[1:])])
    (data, layout), (_, sums) = charts(page_of(recording))
    first, second = ([one for one in layout["shapes"] if one["xref"] == axis] for axis in ("x", "x2"))
    assert len(first) == 20
    assert {one["fillcolor"] for one in first} == {colors(data)["shop/loud"]}
    assert len(second) == 1
    assert "shapes" not in sums
    largest = max(noisy(recording), key=lambda one: one.moved)
    assert (first[0]["x0"], first[0]["x1"]) == ("2026-01-01T01:54:30+00:00", "2026-01-01T01:55:00+00:00")
    assert largest.end - largest.start == 30


def test_last_twenty_changes_of_a_domain_are_dotted_lines() -> None:
    rows = rows_of({"a": [1] * 30}, domains=L3)
    limits: list[Row] = [
        {**row, "kind": SCHEMATA, "key": SCHEMATA, "domain": L3[0], "event": "class batch: L3 fff to 00f"}
        for row in rows[2:44:2]
    ]
    limits.append({**limits[0], "domain": L3[1]})
    (_, layout), (_, sums) = charts(page_of(recording_of([*rows, *limits])))
    lines = [one for one in layout["shapes"] if one["type"] == "line"]
    assert [(one["xref"], one["x0"] == one["x1"]) for one in lines] == [("x", True)] * 20 + [("x2", True)]
    assert [lines[at]["x0"][17:19] for at in (0, 19, 20)] == ["02", "21", "01"]
    assert len(sums["shapes"]) == 20


def test_four_pods_with_the_most_slowed_time_have_charts() -> None:
    rows = rows_of({f"p{one}": [1] * 8 for one in range(5)})
    for one in range(5):
        rows += slowdown([2.0] * (one + 2), key=f"p{one}")
    page = page_of(recording_of(rows))
    assert re.findall(r"<h3>(.*?)</h3>", page) == ["shop/p4", "shop/p3", "shop/p2", "shop/p1"]
    assert len(charts(page)) == 2 + 4
    assert page.count("<td>shop/p0</td>") == 1, "the table has all"
    assert page.count("* plotly.js v") == 1, "the library is in the page once"


def test_fifty_fastest_of_the_pods_that_took_turns_have_bars() -> None:
    rows: list[Row] = []
    for one in range(51):
        for row in turns(LEAST_TURNS):
            value = row["mbm_total_bytes"]
            assert value is None or isinstance(value, float)
            more = {"mbm_total_bytes": None if value is None else value * (one + 1) * 1e8}
            rows.append({**row, **more, "key": f"p{one:02}", "pod": f"p{one:02}"})
    page = page_of(recording_of(rows))
    assert page.count("<body>") == 1, "a chart is a part of the page"
    (bars,), layout = charts(page)[-1]
    assert bars["x"] == [f"shop/p{one:02}" for one in range(50, 0, -1)]
    # of turns with 30 and 10 bytes per second, the first of which has no beginning
    assert bars["y"][-1] == pytest.approx(2 * (20 * 7 - 10) / 7 / 10, rel=0.2)
    assert bars["error_y"]["array"][0] > bars["error_y"]["array"][-1] > 0
    assert bars["error_y"]["arrayminus"][0] <= bars["y"][0]
    assert layout["yaxis"]["title"]["text"].startswith("GB/s")


@pytest.mark.parametrize("step, every", [(0.5, "0.5 s"), (300, "300 s"), (3600, "3600 s")])
def test_summary_has_times_samples_and_pods(step: float, every: str) -> None:
    rows = [*rows_of({"a": [1, 1], "b": [1, 1]}, step), *rows_of({"rest": [1, 1]}, step, kind="rest")]
    page = page_of(recording_of(rows))
    assert "<p>2026-01-01 01:00:00 UTC to 2026-01-01 " in page
    assert f": 3 samples, one every {every}; 2 monitored pods. " in page


def test_script_restores_the_layout_that_was_drawn() -> None:
    """On a phone the script moves the legend below the chart; a wide window gets the first layout again."""
    (_, layout), _ = charts(page_of(recording_of(rows_of({"a": [1]}))))
    wide = SCRIPT[SCRIPT.index('"margin.r": wide.right') :]
    drawn = {"margin.l": layout["margin"]["l"], "margin.b": layout["margin"]["b"]}
    drawn |= {f"legend.{axis}": layout["legend"][axis] for axis in "xy"}
    assert {name: float(re.findall(rf'"{name}": ([\d.]+)', wide)[0]) for name in drawn} == drawn
    assert layout["xaxis"]["range"] == ["2026-01-01T01:00:00+00:00", "2026-01-01T01:00:01+00:00"]


@pytest.mark.parametrize(
    "value, text", [(0, "0 s"), (0.12345, "0.123 s"), (999.4, "999 s"), (999.5, "1000 s"), (12345.6, "12346 s")]
)
def test_number_has_three_digits_and_no_exponent(value: float, text: str) -> None:
    assert number(value, "s") == text
