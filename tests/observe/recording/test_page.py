"""A page: its words and tables as a whole text, its charts as Plotly gets them; and the page in a browser."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from golden import Golden

from resctrl_hooks.core.inventory.interval import LEAST_TURNS
from resctrl_hooks.observe.node.history.rows import GUARD, PACKAGE, SCHEMATA, Row
from resctrl_hooks.observe.recording import tables
from resctrl_hooks.observe.recording.analysis import recording_of
from resctrl_hooks.observe.recording.energy import Share
from resctrl_hooks.observe.recording.noise import noisy
from resctrl_hooks.observe.recording.page import page_of
from resctrl_hooks.observe.recording.slowdown import slowed_pods
from resctrl_hooks.observe.recording.style import SCRIPT
from resctrl_hooks.observe.recording.tables import (
    energy_table,
    events_table,
    full_table,
    gaps_table,
    noisy_table,
    slowed_table,
)
from resctrl_hooks.observe.recording.texts import number

from .rows import L3, lost, memory, on, row_of, rows_of, slowdown, turns


def words(page: str) -> str:
    """Return the texts of a page without its scripts and styles, a line for each block or row."""
    page = re.sub(r"(?s)<(script|style).*?</\1>|<!--.*?-->", "", page)
    page = re.sub(r"<t[dh][^>]*>", "", re.sub(r"</t[dh]>", " | ", re.sub(r"\s+", " ", page)))
    return "\n".join(line.strip() for line in re.sub(r"<[^>]*>", "\n", page).split("\n") if line.strip())


def test_page_of_a_night_has_all_answers_and_tables(golden: Golden) -> None:
    """A noisy pod fills the memory and slows another; limits change, samples are missing, energy is counted."""
    moved = {"etl": [1.0, *[80.0] * 3, *[1.0] * 6], "web": [5.0, *[3.0] * 3, *[5.0] * 6], "0-job": [2.0] * 10}
    rows: list[Row] = [
        *(row for row in rows_of(moved, domains=L3) if str(row["time"])[17:19] not in ("07", "08", "09")),
        *memory([8, 86, 86, 86, 8, 8]),
        *slowdown([1.0, 1.6, 1.7, 1.6, 1.0]),
        *lost("shop", "batch", [5.0, 5.4, 6.1]),
        *lost("", "shop", [0.0, 0.4]),
        row_of(2, GUARD, "lower", rdt_class="batch", event="lower <batch> to 50"),
        row_of(3, SCHEMATA, rdt_class="batch", event="class batch: L3 fff to 00f"),
        row_of(4, "rest", "", domain=L3[1], mbm_total_bytes=None, missing="mbm_total_bytes:Unavailable"),
    ]
    for second in (0, 10):
        rows += [
            row_of(second, key=key, domain="mon_PERF_PKG_00", core_energy_joules=1800.0 * second * factor)
            for key, factor in (("etl", 2), ("web", 1))
        ]
        rows.append(row_of(second, "rest", "", domain="mon_PERF_PKG_00", core_energy_joules=500.0 * second))
        rows.append(row_of(second, PACKAGE, "package-0", domain="package-0", package_energy_joules=9000.0 * second))
    golden(words(page_of(recording_of(rows), 500)), "night")
    golden(words(page_of(recording_of(turns(20)))), "turns")
    quiet = page_of(recording_of([*rows_of({"web": [1.0] * 3}), *slowdown([1.0, 1.0])]))
    golden(words(quiet), "quiet")


def test_page_has_the_rules_of_dark_style_phone_and_print() -> None:
    page = page_of(recording_of(rows_of({"web": [1.0] * 3})))
    assert '<meta name="viewport" content="width=device-width' in page
    for rule in ("screen and (prefers-color-scheme: dark)", "screen and (max-width: 700px)", "@media print"):
        assert rule in page
    assert page.index('class="answer"') < page.index('class="chart"')


def test_only_numbers_with_a_unit_are_right_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{**row, "pod": "0-web"} for row in rows_of({"uid": [0, 6]})]
    table = noisy_table(noisy(recording_of(rows)))
    assert [cell.split(">")[1] for cell in re.findall(r'<td class="number">[^<]*', table)] == ["1 s", "6 GB/s", "100 %"]
    for value, cell in ((None, "<td>-</td>"), (0.5, '<td class="number">0.5 J</td>'), (1800.4, ">1800 J</td>")):
        monkeypatch.setattr(tables, "shares", lambda _, value=value: [Share("node", "", "packages", value)])
        assert cell in energy_table(recording_of([]), None)


def test_table_has_at_most_fifty_rows_and_says_how_many_more() -> None:
    event = row_of(0, SCHEMATA, event="class batch")
    for count, note in ((50, ""), (53, '<p class="note">and 3 more.</p>')):
        table = events_table(recording_of([event] * count))
        assert (table.count("<td>class batch</td>"), table[table.index("</table></div>") + 14 :]) == (50, note)


def test_full_table_has_the_five_users_with_the_most_traffic() -> None:
    found = recording_of(rows_of({f"p{one}": [one + 10] * 20 for one in range(7)}))
    names = [f"shop/p{one} {(one + 10) * 20} GB ({(one + 10) / 91:.0%})" for one in (6, 5, 4, 3, 2)]
    assert f"<td>{', '.join(names)}</td>" in full_table(found, {"*": 100e9})
    assert "The load is estimated" in full_table(found, {"*": 100e9})
    huge = recording_of(rows_of({"web": [1000] * 20}))
    assert "<td>shop/web 20000 GB (100%)</td>" in full_table(huge, {"*": 1e12})


def test_empty_tables_say_so() -> None:
    calm = recording_of([*rows_of({"web": [1]}), *slowdown([1.0, 1.0])])
    assert "No noisy pods by this rule." in noisy_table([])
    assert "No domain was full." in full_table(calm, {"*": 1e12})
    assert full_table(calm, {}) == ""
    assert "No pod was slowed." in slowed_table(slowed_pods(calm, {}), calm)
    assert "Every counter had a value" in gaps_table(calm)
    bare = [{**row, "event": "", "culprits": ""} for row in slowdown([1.0, 1.5])]
    found = recording_of([*rows_of({"web": [1] * 2}), *bare])
    assert ">1.5 times</td><td>unknown</td><td>-</td>" in slowed_table(slowed_pods(found, {}), found)


def charts(page: str) -> list[Any]:
    """Return data and layout of each chart."""
    decode = json.JSONDecoder().raw_decode
    found = []
    for start in re.finditer(r'Plotly\.newPlot\(\s*"[0-9a-f-]{36}",\s*', page):
        data, end = decode(page, start.end())
        layout, _ = decode(page, re.compile(r",\s*").match(page, end).end())  # type: ignore[union-attr]
        found.append((data, layout))
    return found


def drawn(rows: Sequence[Row]) -> str:
    """Return the charts of a recording as text: titles, lines with their colors, marks; times without their date."""
    lines = []
    for data, layout in charts(page_of(recording_of(rows))):
        axes = sorted(name for name in layout if name.startswith(("xaxis", "yaxis")))
        titles = [layout[name].get("title", {}).get("text", "") for name in axes if name.startswith("y")]
        lines.append(f"chart {[one['text'] for one in layout.get('annotations', [])]}, {titles}")
        lines.append(f"  {layout.get('height')} high, x axes {[layout[name].get('range') for name in axes][:1]}")
        for of in data:
            color = of.get("line", {}).get("color", "")
            values = [value if value is None else round(value, 3) for value in of["y"]]
            shown = values if len(values) < 12 else [*values[:4], "...", *values[-2:]]
            legend = "" if of.get("showlegend", True) else " (no legend)"
            lines.append(f"  {of['type']} {of.get('name')} {of.get('yaxis')} {color}{legend} {shown} {of['x'][:2]}")
            assert not of.get("connectgaps")
        for mark in layout.get("shapes", []):
            where = (mark["xref"], mark.get("yref"), mark["x0"], mark["x1"])
            lines.append(f"  {mark['type']} {where} {mark.get('fillcolor', mark.get('line', {}).get('dash'))}")
    return re.sub(r"2026-01-01T|\+00:00", "", "\n".join(lines))


def change(second: float, domain: str, **more: Any) -> Row:
    return row_of(second, SCHEMATA, SCHEMATA, domain=domain, event="class batch: L3 fff to 00f", **more)


def fourteen() -> list[Row]:
    """Return 14 pods with traffic, of which the largest occupies no cache."""
    rows = rows_of({f"p{one:02}": [one + 1] * 2 for one in range(14)})
    size = {f"p{one:02}": (one + 1) << 20 for one in range(13)}
    return [{**row, **({"llc_occupancy_bytes": size[str(row["key"])]} if row["key"] in size else {})} for row in rows]


def noisy_times() -> list[Row]:
    """Return 22 bursts in one domain, and one in another."""
    others = {f"p{one}": [2.5] * 5 * 22 for one in range(4)}
    bursts = [rate for burst in range(22) for rate in (0, 0, 0, 0, 10 + burst)]
    return [*rows_of({"loud": bursts, **others}, 30), *rows_of({"x": [5]}, 30, domains=L3[1:])]


def taken_turns(pods: int) -> list[Row]:
    rows: list[Row] = []
    for one in range(pods):
        for row in turns(LEAST_TURNS):
            value: Any = row["mbm_total_bytes"]
            more = {"mbm_total_bytes": value and value * (one + 1) * 1e8}
            rows.append({**row, **more, "key": f"p{one:02}", "pod": f"p{one:02}"})
    return rows


TWO = rows_of({"a": [1, 1]})
RECORDINGS: dict[str, list[Row]] = {
    "fourteen pods": fourteen(),
    "pod created again": [
        {**row, "pod": "web"} for row in [*rows_of({"old": [1, 1]}), *rows_of({"new": [3]}, start=3)]
    ],
    "two domains": rows_of({"a": [1], "b": [2]}, domains=L3),
    "noisy times": noisy_times(),
    "changes": [*rows_of({"a": [1] * 30}, domains=L3), *(change(s, L3[0]) for s in range(1, 22)), change(1, L3[1])],
    "slowed": [
        *rows_of({"etl": [1.0, 80.0, 80.0], "web": [5.0, 3.0, 3.0]}), *memory([6, 83, 83]), *slowdown([1.0, 1.6, 1.7]),
    ],
    "turns": taken_turns(3),
    "two hosts": [
        *rows_of({"loud": [8] * 10}), *on("n2", rows_of({f"p{one}": [6] * 10 for one in range(4)}, start=0.4)),
    ],
    "two domains of a host": [*rows_of({"a": [1]}, domains=L3), *on("n2", rows_of({"a": [2]}))],
    "change on a host": [*TWO, *on("n2", TWO), *on("n2", [change(1, L3[0])])],
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDINGS)
def test_charts(golden: Golden, name: str) -> None:
    golden(drawn(RECORDINGS[name]))


def test_four_most_slowed_and_fifty_fastest_pods_have_charts_and_all_have_rows() -> None:
    rows = rows_of({f"p{one}": [1] * 8 for one in range(5)})
    for one in range(5):
        rows += slowdown([2.0] * (one + 2), key=f"p{one}")
    page = page_of(recording_of(rows))
    assert re.findall(r"<h3>(.*?)</h3>", page) == ["shop/p4", "shop/p3", "shop/p2", "shop/p1"]
    assert page.count("<td>shop/p0</td>") == 1, "the table has all"
    assert page.count("* plotly.js v") == 1, "the library is in the page once"
    assert page.count("<body>") == 1, "a chart is a part of the page"
    (bars,), _ = charts(page_of(recording_of(taken_turns(51))))[-1]
    assert bars["x"] == [f"shop/p{one:02}" for one in range(50, 0, -1)]


def test_script_restores_the_layout_that_was_drawn() -> None:
    """On a phone the script moves the legend below the chart; a wide window gets the first layout again."""
    (_, layout), _ = charts(page_of(recording_of(rows_of({"a": [1]}))))
    wide = SCRIPT[SCRIPT.index('"margin.r": wide.right') :]
    drawn = {"margin.l": layout["margin"]["l"], "margin.b": layout["margin"]["b"]}
    drawn |= {f"legend.{axis}": layout["legend"][axis] for axis in "xy"}
    assert {name: float(re.findall(rf'"{name}": ([\d.]+)', wide)[0]) for name in drawn} == drawn


@pytest.mark.parametrize(
    "value, text", [(0, "0 s"), (0.12345, "0.123 s"), (999.4, "999 s"), (999.5, "1000 s"), (12345.6, "12346 s")]
)
def test_number_has_three_digits_and_no_exponent(value: float, text: str) -> None:
    assert number(value, "s") == text


MEASURE = """<!DOCTYPE html><body><iframe id="page" src="page.html" style="width: WIDTHpx; height: 2000px"></iframe>
<script>
const found = {};
document.getElementById("page").onload = () => setTimeout(() => { try {
  const inner = document.getElementById("page").contentWindow, page = inner.document, root = page.documentElement;
  const charts = [...page.querySelectorAll(".js-plotly-plot .main-svg:first-child")];
  found.room = inner.innerWidth;
  found.width = root.scrollWidth;
  found.charts = Math.max(...charts.map(one => one.getBoundingClientRect().right));
  const end = one => one.getBoundingClientRect().bottom;
  found.over = Math.max(...charts.map(one => end(one) - end(one.closest(".chart"))));
  found.plot = Math.min(...[...page.querySelectorAll(".js-plotly-plot")].map(one => one._fullLayout._size.w));
  found.ground = inner.getComputedStyle(page.body).backgroundColor;
  found.ink = page.querySelector(".ytitle").style.fill;
  found.answer = page.querySelector(".answer").getBoundingClientRect().bottom;
  found.marks = page.querySelectorAll(".shapelayer path[style*=dasharray]").length;
  document.body.dataset.found = Object.entries(found).map(([name, value]) => name + "=" + value).join(";");
} catch (error) { document.body.dataset.found = "error=" + error; } }, 500);
</script>"""


@pytest.mark.ci
@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_page_fits_its_width_and_follows_the_style(tmp_path: Path, width: int, dark: bool) -> None:
    """A recording of two domains, of pods with long names, in which the guard acted on one domain."""
    pods = {f"a-pod-with-a-very-long-name-{number}": [number + 1.0] * 29 for number in range(5)}
    event = "lower batch to 50 " + "and more " * 20
    rows = [*rows_of(pods, domains=L3), row_of(12, GUARD, "lower", rdt_class="batch", event=event), change(20, L3[0])]
    (tmp_path / "page.html").write_text(page_of(recording_of(on("worker-3.example.com", rows))))
    (tmp_path / "measure.html").write_text(MEASURE.replace("WIDTH", str(width)))
    browser = shutil.which("chromium")
    assert browser
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += [*(["--blink-settings=preferredColorScheme=0"] if dark else []), "--allow-file-access-from-files"]
    command += [f"--user-data-dir={tmp_path}/profile", "--window-size=1400,2100", "--virtual-time-budget=20000"]
    command += ["--dump-dom", f"file://{tmp_path}/measure.html"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    data = re.search(r'data-found="([^"]*)"', done.stdout)
    assert data, done.stdout[-2000:]
    found = dict(pair.split("=", 1) for pair in data[1].split(";"))
    room = float(found["room"])
    assert float(found["width"]) <= room, "the page scrolls sideways"
    assert float(found["charts"]) <= room
    assert float(found["over"]) <= 0, "a chart covers the next one"
    assert float(found["plot"]) > room / 2, "the legend leaves no room for the lines"
    assert found["ground"] == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
    assert found["ink"] == ("rgb(221, 227, 234)" if dark else "rgb(27, 36, 48)")
    assert float(found["answer"]) < 700, "the answer is on a phone's first screen"
    assert found["marks"] == "4", "two changes in the domain's chart and in the namespaces' chart"
