"""A page: its words as a text, its drawings as numbers, its size, and the page in a browser."""

import re
import shutil
import subprocess
import zlib
from math import isnan, nan
from pathlib import Path
from random import Random

import pytest
from conftest import examples
from golden import Golden
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.observe.node.history.rows import EVENTS, GUARD, LIMIT, PACKAGE, SCHEMATA, Row
from resctrl_hooks.observe.recording import page as page_module
from resctrl_hooks.observe.recording import tables
from resctrl_hooks.observe.recording.analysis import BANDWIDTH, domains, together
from resctrl_hooks.observe.recording.axes import UNITS, TimeAxis, axis_of
from resctrl_hooks.observe.recording.drawing import Band, paths, stacked
from resctrl_hooks.observe.recording.energy import Share
from resctrl_hooks.observe.recording.heat import levels, png
from resctrl_hooks.observe.recording.legend import legend_of
from resctrl_hooks.observe.recording.noise import noisy
from resctrl_hooks.observe.recording.page import page_of
from resctrl_hooks.observe.recording.reading import recording_of
from resctrl_hooks.observe.recording.slowdown import slowed_pods
from resctrl_hooks.observe.recording.texts import number
from resctrl_hooks.observe.recording.thinning import places_of
from resctrl_hooks.observe.recording.timeline import marks_of_events
from resctrl_hooks.observe.recording.times import Times
from resctrl_hooks.observe.recording.tracks import Line

from .rows import L3, lost, memory, on, row_of, rows_of, slowdown, turns


def words(page: str) -> str:
    """Return the texts of a page without scripts, styles and ticks, a line for each block or row."""
    page = re.sub(r'(?s)<(script|style|title).*?</\1>|<div class="row times">.*?</div></div>', "", page)
    page = re.sub(r'<span style="bottom.*?</span>|<b>\d+</b>', "", page)
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
    golden(words(page_of(recording_of(rows), 500)))


def test_page_of_a_quiet_recording_has_its_time_and_the_rules_of_each_style() -> None:
    rows = rows_of({"web": [1.0] * 3})
    for more, answer in (
        (slowdown([1.0, 1.0]), "No pod was slowed in 3s, 01:00:00 to 01:00:03 UTC; 1 pod judged."),
        ([], "No pod was judged in 3s, 01:00:00 to 01:00:03 UTC: the recording has no ratios, which need slowdown."),
    ):
        page = page_of(recording_of([*rows, *more]))
        (found,) = re.findall(r'class="answer">(.*?)<', page)
        assert found.startswith(answer)
    assert "Pods that took turns" in page_of(recording_of(turns(20)))
    assert '<meta name="viewport" content="width=device-width' in page
    for rule in ("screen and (prefers-color-scheme: dark)", "screen and (max-width: 700px)", "@media print"):
        assert rule in page
    assert page.index('class="answer"') < page.index('class="chart"')
    assert "http" not in page, "the page needs no network"


NASTY = "</script><script>document.title='forged'</script>"


def test_each_name_is_escaped() -> None:
    events = [{**row_of(second, kind, NASTY), "event": NASTY} for kind in EVENTS for second in (1, 2)]
    rows: list[Row] = [*rows_of({NASTY: [0.0, 90.0, 90.0], "web": [1.0] * 3}), *events]
    rows += slowdown([1.0, 1.6, 1.6], key=NASTY)
    places = dict.fromkeys(("rdt_class", "namespace", "culprits", "host"), NASTY)
    forged: list[Row] = [{**row, **places} for row in rows]
    forged += on("n2", [{**row, "domain": NASTY} for row in rows])
    page = page_of(recording_of([*forged, row_of(1, "rest", NASTY, rdt_class=NASTY, mbm_total_bytes=1, missing=NASTY)]))
    assert page.count("<script") == page.count("</script") == 1
    assert "&lt;/script&gt;&lt;script&gt;" in page


KNOWN = st.floats(0, 1e11)
LINES = st.integers(1, 60).flatmap(
    lambda number: st.lists(
        st.lists(st.one_of(st.just(nan), KNOWN), min_size=number, max_size=number), min_size=1, max_size=4
    )
).map(lambda lines: [Line("d", line) for line in lines])  # fmt: skip


@settings(max_examples=examples(60))
@given(LINES, st.integers(1, 40))
def test_thinning_keeps_the_extremes_and_the_ends(lines: list[Line], most: int) -> None:
    places = places_of(lines, most)
    assert places == sorted({*places})
    assert len(places) <= max(most, 2 * len(lines)) + 2
    assert {0, len(lines[0]) - 1} <= {*places}
    for line in lines:
        known, kept = ([line[at] for at in of if not isnan(line[at])] for of in (range(len(line)), places))
        assert (min(known, default=0), max(known, default=0)) == (min(kept, default=0), max(kept, default=0))


@settings(max_examples=examples(60))
@given(LINES)
def test_drawn_areas_add_up_to_the_total_and_have_its_gaps(lines: list[Line]) -> None:
    total, times = together(lines), Times([float(at) for at in range(len(lines[0]))])
    known = ["".join(" x"[not isnan(one)] for one in line) for line in lines]
    for at in {at for one in known for hole in re.finditer("(?<=x) {1,2}(?=x)", one) for at in range(*hole.span())}:
        total[at] = nan
    assert [*stacked(lines)[-1]] == pytest.approx([*total], nan_ok=True)
    axis, values = TimeAxis(0, times.each[-1]), axis_of(max([0, *(one for one in total if not isnan(one))]), "B/s")
    drawn = paths([Band("x", "s0", line) for line in lines], times, axis, values, 10_000)
    found: dict[int, int] = {}
    for piece in re.findall(r"M(.*?)V", re.findall(r' d="(.*?)"', drawn)[0]):
        x, y, *steps = (int(one) for one in re.findall(r"[+-]?\d+", piece))
        found[x] = y
        for right, down in zip(steps[::2], steps[1::2], strict=True):
            x, y = x + right, y + down
            found[x] = y
    for at, value in enumerate(total):
        place = round(UNITS * axis.part(at))
        if isnan(value):  # a single sample is as wide as the interval before it
            assert place not in found or not isnan(total[at + 1])
        else:
            assert found[place] == pytest.approx(UNITS - UNITS * value / values.top, abs=1)


def test_legend_has_the_ten_largest_and_the_bands_of_a_domain_are_its_total() -> None:
    rows = rows_of({f"p{one:02}": [one + 1.0] * 3 for one in range(14)}, domains=L3)
    found = recording_of([*rows, *rows_of({"": [2.0] * 3}, kind="rest")])
    legend = legend_of(found, ["shop/p00"])
    assert [*legend.styles] == [f"shop/p{one:02}" for one in (*range(13, 4, -1), 0)]
    assert legend.others == "4 other pods"
    users = domains(found, BANDWIDTH)[L3[0]]
    bands = legend.bands(users)
    assert [band.style for band in bands] == [*legend.styles.values(), "rest", "outside"]
    assert [*stacked([band.line for band in bands])[-1]][1:] == pytest.approx([*together(users.values())][1:])


def test_caches_of_one_memory_are_one_chart_with_its_capacity() -> None:
    rows = rows_of({"web": [1.0] * 3}, domains=[*L3, "mon_L3_02"])
    page = page_of(recording_of([*rows, *({**row, "key": " ".join(L3)} for row in memory([2, 2, 2]))]))
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    assert captions == ["memory of L3 0, L3 1 <small>capacity 100 GB/s</small>", "L3 2"]


def test_changes_of_several_domains_at_once_are_one_mark_and_limits_come_first() -> None:
    row: Row = row_of(2, SCHEMATA, SCHEMATA, rdt_class="batch", event="class batch: MB 100 to 30")
    limit = row_of(3, LIMIT, "web", domain="", event="cpu.weight 100 -> 10")
    many = [row_of(second, GUARD, "lower", event=f"step {second}") for second in range(10, 40)]
    found = marks_of_events(recording_of([*rows_of({"web": [1]}), row, {**row, "domain": L3[1]}, limit, *many]))
    assert [one.number for one in found] == [*range(1, 13), *[0] * 20]
    assert found[1].text == "limit: shop/web: cpu.weight 100 -> 10"


@settings(max_examples=examples(60))
@given(st.floats(1e-3, 1e15), st.sampled_from(["B", "B/s", "times", ""]), st.floats(0, 1e9), st.floats(0.1, 1e8))
def test_axes_have_a_few_ticks_in_order(most: float, unit: str, start: float, length: float) -> None:
    for ticks, least, limit in ((axis_of(most, unit).ticks, 1, 6), (TimeAxis(start, start + length).ticks, 0, 10)):
        assert least <= len(ticks) <= limit
        assert [*ticks] == sorted({*ticks})
        assert all(0 <= one.part <= 1 for one in ticks)


@given(LINES)
def test_map_has_each_value_and_the_largest_of_each_part(lines: list[Line]) -> None:
    most = max([1.0, *(value for line in lines for value in line if not isnan(value))])
    columns = max(len(lines[0]) // 2, 1)
    found = levels(lines, most, columns)
    for line, row in zip(lines, found, strict=True):
        assert len(row) == columns
        assert any(row) == any(value > 0 for value in line)
        assert max(row) == pytest.approx(255 * (max([0, *(one for one in line if one > 0)]) / most) ** 0.5, abs=1)
    picture = png(found, "#0479fe")
    data = picture[picture.index(b"IDAT") + 4 : picture.index(b"IEND") - 8]
    assert zlib.decompress(data) == b"".join(b"\0" + bytes(row) for row in found)


def test_page_of_any_length_is_below_five_megabytes() -> None:
    """Noise needs the most bytes: up to ten for a point. Tables, names and maps need less than the rest."""
    random, bands = Random(1), 12
    lines = [Line("d", [random.uniform(0, 1e10) for _ in range(20_000)]) for _ in range(bands)]
    times, most = Times([float(at) for at in range(20_000)]), page_module._MOST_SAMPLES
    drawn = paths([Band("", "s0", line) for line in lines], times, TimeAxis(0, 20_000), axis_of(1.2e11, ""), most)
    assert len(drawn) / (most * bands) < 10
    assert page_module._POINTS * 10 <= 4_000_000


def test_only_numbers_with_a_unit_are_right_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{**row, "pod": "0-web"} for row in rows_of({"uid": [0, 6]})]
    table = tables.noisy_table(noisy(recording_of(rows)), recording_of(rows))
    cells = [cell.split(">")[1] for cell in re.findall(r'<td class="number">[^<]*', table)]
    assert cells == ["1 s", "6.00 GB/s", "100 %"]
    for value, cell in ((None, "<td>-</td>"), (0.5, '<td class="number">0.5 J</td>'), (1800.4, ">1800 J</td>")):
        monkeypatch.setattr(tables, "shares", lambda _, value=value: [Share("node", "", "packages", value)])
        assert cell in tables.energy_table(recording_of([]), None)


def test_full_table_has_the_five_users_with_the_most_traffic() -> None:
    found = recording_of(rows_of({f"p{one}": [one + 10] * 20 for one in range(7)}))
    names = [f"shop/p{one} {(one + 10) * 20} GB ({(one + 10) / 91:.0%})" for one in (6, 5, 4, 3, 2)]
    assert f"<td>{', '.join(names)}</td>" in tables.full_table(found, {"*": 100e9})
    assert "The load is estimated" in tables.full_table(found, {"*": 100e9})
    huge = recording_of(rows_of({"web": [1000] * 20}))
    assert "<td>shop/web 20.0 TB (100%)</td>" in tables.full_table(huge, {"*": 1e12})


def test_tables_say_that_they_are_empty_or_how_many_more_rows_there_are() -> None:
    calm = recording_of([*rows_of({"web": [1]}), *slowdown([1.0, 1.0])])
    assert "No noisy pods by this rule." in tables.noisy_table([], calm)
    assert "No domain was full." in tables.full_table(calm, {"*": 1e12})
    assert tables.full_table(calm, {}) == ""
    assert "No pod was slowed." in tables.slowed_table(slowed_pods(calm), calm)
    assert "Every counter had a value" in tables.gaps_table(calm)
    bare = [{**row, "event": "", "culprits": ""} for row in slowdown([1.0, 1.5])]
    found = recording_of([*rows_of({"web": [1] * 2}), *bare])
    assert ">1.5 times</td><td>unknown</td><td>-</td>" in tables.slowed_table(slowed_pods(found), found)
    event = row_of(0, SCHEMATA, event="class batch")
    for count, note in ((50, ""), (53, '<p class="note">and 3 more.</p>')):
        table = tables.events_table(recording_of([event] * count))
        assert (table.count("<td>class batch</td>"), table[table.index("</table></div>") + 14 : -10]) == (50, note)


def test_number_has_three_digits_and_no_exponent() -> None:
    texts = {0: "0 s", 0.12345: "0.123 s", 999.4: "999 s", 999.5: "1000 s", 12345.6: "12346 s"}
    assert {value: number(value, "s") for value in texts} == texts


MEASURE = """<!DOCTYPE html><body><iframe id="page" src="page.html" style="width: WIDTHpx; height: 2000px"></iframe>
<script>
const found = {};
document.getElementById("page").onload = () => setTimeout(() => { try {
  const inner = document.getElementById("page").contentWindow, page = inner.document, root = page.documentElement;
  const charts = [...page.querySelectorAll(".plot")];
  found.room = inner.innerWidth;
  found.width = root.scrollWidth;
  found.charts = Math.max(...charts.map(one => one.getBoundingClientRect().right));
  found.plot = Math.min(...charts.map(one => one.getBoundingClientRect().width));
  found.ground = inner.getComputedStyle(page.body).backgroundColor;
  found.ink = inner.getComputedStyle(page.querySelector("h2")).color;
  found.answer = page.querySelector(".answer").getBoundingClientRect().bottom;
  found.marks = page.querySelectorAll(".chart .mark").length;
  const plot = page.querySelector(".chart .plot"), place = plot.getBoundingClientRect();
  plot.dispatchEvent(new PointerEvent("pointermove",
    { bubbles: true, clientX: place.left + place.width / 2, clientY: place.top + 5 }));
  found.tip = page.getElementById("tip").innerText.replaceAll("\\n", " ");
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
    changes = [row_of(12, GUARD, "lower", event=event)]
    changes.append(row_of(20, SCHEMATA, SCHEMATA, event="class batch: MB 100 to 30"))
    rows = [*rows_of(pods, domains=L3), *changes]
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
    assert "error" not in found, found
    room = float(found["room"])
    assert float(found["width"]) <= room, "the page scrolls sideways"
    assert float(found["charts"]) <= room
    assert float(found["plot"]) > room / 2, "the names leave no room for the lines"
    assert found["ground"] == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
    assert found["ink"] == ("rgb(221, 227, 234)" if dark else "rgb(27, 36, 48)")
    assert float(found["answer"]) < 700, "the answer is on a phone's first screen"
    assert found["marks"] == "4", "two changes in the charts of two domains"
    assert found["tip"].startswith("2026-01-01 01:00:1")
    assert "all 15.0 GB/s" in found["tip"]
    assert "shop/a-pod-with-a-very-long-name-4 5.00 GB/s" in found["tip"]
