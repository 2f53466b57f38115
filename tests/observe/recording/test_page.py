"""The page of a recording in a browser: light and dark, on a desk and on a phone."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from resctrl_hooks.observe.node.history.rows import GUARD, SCHEMATA, Row
from resctrl_hooks.observe.recording.analysis import recording_of
from resctrl_hooks.observe.recording.page import page_of
from resctrl_hooks.observe.recording.tables import events_table

from .rows import L3, row_of, rows_of

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


def _rows() -> list[Row]:
    """Return a recording of two domains, of pods with long names, in which the guard acted on one domain."""
    pods = {f"a-pod-with-a-very-long-name-{number}": [number + 1.0] * 29 for number in range(5)}
    event = "lower batch to 50 " + "and more " * 20
    rows = [
        *rows_of(pods, domains=L3),
        row_of(12, GUARD, "lower", rdt_class="batch", event=event),
        row_of(20, SCHEMATA, rdt_class="batch", event="class batch: L3 fff to 00f"),
    ]
    return [{**row, "host": "worker-3.example.com"} for row in rows]


def _measured(folder: Path, width: int, *options: str) -> dict[str, str]:
    (folder / "page.html").write_text(page_of(recording_of(_rows())))
    (folder / "measure.html").write_text(MEASURE.replace("WIDTH", str(width)))
    browser = shutil.which("chromium")
    assert browser
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", *options]
    command += ["--allow-file-access-from-files", f"--user-data-dir={folder}/profile", "--window-size=1400,2100"]
    command += ["--virtual-time-budget=20000", "--dump-dom", f"file://{folder}/measure.html"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found, done.stdout[-2000:]
    return dict(pair.split("=", 1) for pair in found[1].split(";"))


def test_page_has_the_rules_of_dark_style_phone_and_print() -> None:
    page = page_of(recording_of(_rows()))
    assert '<meta name="viewport" content="width=device-width' in page
    for rule in ("screen and (prefers-color-scheme: dark)", "screen and (max-width: 700px)", "@media print"):
        assert rule in page
    assert page.index('class="answer"') < page.index('class="chart"')


@pytest.mark.browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_page_fits_its_width_and_follows_the_style(tmp_path: Path, width: int, dark: bool) -> None:
    found = _measured(tmp_path, width, *(["--blink-settings=preferredColorScheme=0"] if dark else []))
    room = float(found["room"])
    assert float(found["width"]) <= room, "the page scrolls sideways"
    assert float(found["charts"]) <= room
    assert float(found["over"]) <= 0, "a chart covers the next one"
    assert float(found["plot"]) > room / 2, "the legend leaves no room for the lines"
    assert found["ground"] == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
    assert found["ink"] == ("rgb(221, 227, 234)" if dark else "rgb(27, 36, 48)")
    assert float(found["answer"]) < 700, "the answer is on a phone's first screen"


@pytest.mark.browser
def test_changes_of_classes_are_lines_in_the_charts_of_their_domain(tmp_path: Path) -> None:
    assert _measured(tmp_path, 1280)["marks"] == "4", "two changes in the domain's chart and in the namespaces' chart"


def test_table_has_the_source_of_each_change() -> None:
    table = events_table(recording_of(_rows()))
    assert table.index("bandwidth guard (experimental)") < table.index("class batch: L3 fff to 00f")
