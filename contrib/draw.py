"""Drawing of a Grafana dashboard as SVG without Grafana: its panels, with its queries answered by a Prometheus.

    python contrib/draw.py http://127.0.0.1:9090 docs/dashboard.svg [MINUTES [DASHBOARD [NODE]]]

It makes the pictures in the documents. It supports the dashboards' panels: lines, single numbers, tables.
"""

import json
import re
import sys
import time
import urllib.parse
import urllib.request
from html import escape
from pathlib import Path
from typing import Any

from resctrl_hooks.core.inventory.amounts import scaled
from resctrl_hooks.observe.inventory.palette import SERIES

DASHBOARD = Path(__file__).parent / "grafana/resctrl-hooks.json"
WIDTH, CELL, GAP, TOP = 1240, 38, 8, 26
STEPS = 90
EVERYTHING = ".*"
UNITS = {"bytes": "B", "Bps": "B/s", "watt": "W", "ops": "/s", "s": "s", "short": ""}

Series = tuple[str, list[tuple[float, float]], str]
"""Name, points, and a colour of its own."""


def ask(url: str, path: str, **asked: str | float) -> list[dict[str, Any]]:
    """Return Prometheus' answer."""
    query = urllib.parse.urlencode(asked)
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{query}", timeout=30) as answer:  # noqa: S310  # as it was typed
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


class Source:
    """A Prometheus, and the selected time and nodes."""

    def __init__(self, url: str, minutes: float, node: str) -> None:
        self._url = url
        self._end = time.time()
        self._seconds = minutes * 60
        self._chosen = {
            "$node": node, "$namespace": EVERYTHING, "$pod": EVERYTHING, "$__range": f"{minutes * 60:.0f}s"
        }  # fmt: skip

    def _expression(self, target: dict[str, Any]) -> str:
        text: str = target["expr"]
        for name, value in self._chosen.items():
            text = text.replace(name, value)
        return text

    def now(self, target: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the answer to an instant query."""
        return ask(self._url, "query", query=self._expression(target), time=self._end)

    def over_time(self, target: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the answer to a query over the selected time."""
        times = {"start": self._end - self._seconds, "end": self._end, "step": self._seconds / STEPS}
        return ask(self._url, "query_range", query=self._expression(target), **times)


def legend(target: dict[str, Any], labels: dict[str, str]) -> str:
    """Return a series' name."""
    text: str = target.get("legendFormat", "")
    for part in text.split("{{")[1:]:
        name = part.partition("}}")[0]
        text = text.replace(f"{{{{{name}}}}}", labels.get(name, ""))
    return re.sub("(^|: )/", r"\1", " ".join(text.split()))


def color_of(panel: dict[str, Any], target: dict[str, Any], name: str) -> str:
    """Return the colour that a panel gives a query, or one of its series; empty if it gives none."""
    matchers = {"id": "byFrameRefID", "options": target["refId"]}, {"id": "byName", "options": name}
    for one in panel["fieldConfig"]["overrides"]:
        if one["matcher"] in matchers:
            found: str = one["properties"][0]["value"]["fixedColor"]
            return found
    return ""


def number(value: float, unit: str) -> str:
    """Return a value as displayed."""
    if unit == "percentunit":
        return f"{value:.0%}"
    if 0 < abs(value) < 1:
        return f"{value:.3g} {UNITS[unit]}".strip()
    return scaled(value, UNITS[unit], binary=unit == "bytes")


def text(x: float, y: float, said: str, *, size: int = 11, color: str = "#ccccdc", anchor: str = "start") -> str:
    """Return a line of text."""
    style = f'font-size="{size}" fill="{color}" text-anchor="{anchor}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(said)}</text>'


def lines(panel: dict[str, Any], series: list[Series], box: tuple[float, float, float, float]) -> list[str]:
    """Return a panel's lines with a legend below, the largest first."""
    x, y, width, height = box
    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    stacked = panel["fieldConfig"]["defaults"].get("custom", {}).get("stacking", {}).get("mode") == "normal"
    series = sorted(series, key=lambda one: -one[1][-1][1])[:10]
    shown = series[: int((height - 120) // 14) + 3]
    plot = height - 34 - 14 * len(shown)
    times = sorted({when for _, points, _ in series for when, _ in points})
    if not times:
        return [text(x + width / 2, y + height / 2, "no data", anchor="middle", color="#8e8e9a")]
    base = dict.fromkeys(times, 0.0)
    drawn = []
    colors = [color or SERIES[place] for place, (*_, color) in enumerate(series)]
    for place, (_, points, _) in enumerate(series):
        if stacked:
            for when, value in points:
                base[when] += value
        drawn.append((place, [(when, base[when] if stacked else value) for when, value in points]))
    top = max((value for _, points in drawn for _, value in points), default=0) * 1.1 or 1
    span = max(times[-1] - times[0], 1)
    out = [
        f'<line x1="{x + 60:.0f}" x2="{x + width - 10:.0f}" y1="{at:.0f}" y2="{at:.0f}" stroke="#2c3235"/>'
        + text(x + 55, at + 4, number(top * (1 - share), unit), size=10, color="#8e8e9a", anchor="end")
        for share in (0.0, 0.5, 1.0)
        for at in [y + TOP + share * (plot - TOP)]
    ]
    for place, points in drawn:
        spots = " ".join(
            f"{x + 60 + (when - times[0]) / span * (width - 70):.1f},{y + TOP + (1 - value / top) * (plot - TOP):.1f}"
            for when, value in points
        )
        out.append(f'<polyline points="{spots}" fill="none" stroke="{colors[place]}" stroke-width="1.5"/>')
    for place, (name, points, _) in enumerate(shown):
        at = y + plot + 20 + 14 * place
        out.append(f'<rect x="{x + 12:.0f}" y="{at - 8:.0f}" width="10" height="3" fill="{colors[place]}"/>')
        out += [text(x + 28, at - 3, name), text(x + width - 12, at - 3, number(points[-1][1], unit), anchor="end")]
    return out


def table(panel: dict[str, Any], source: Source, box: tuple[float, float, float, float]) -> list[str]:
    """Return a table in the panel's order."""
    x, y, width, height = box
    options = {one["id"]: one["options"] for one in panel["transformations"]}
    headings: dict[str, str] = options["organize"]["renameByName"]
    units = {
        one["matcher"]["options"]: property_["value"]
        for one in panel["fieldConfig"]["overrides"]
        for property_ in one["properties"]
        if property_["id"] == "unit"
    }
    labels = [name for name in headings if not name.startswith("Value")]
    names = [heading for name, heading in headings.items() if name not in labels]
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for target in panel["targets"]:
        for found in source.now(target):
            key = tuple(found["metric"].get(name, "") for name in labels)
            rows.setdefault(key, {})[target["legendFormat"]] = float(found["value"][1])
    heads = [*(headings[name] for name in labels), *names]
    step = (width - 24) / len(heads)
    out = [text(x + 12 + step * place, y + 44, head, color="#8e8e9a") for place, head in enumerate(heads)]
    sort = options["sortBy"]["sort"][0]
    ordered = sorted(rows.items(), key=lambda row: (row[1].get(sort["field"], 0) * (-1 if sort["desc"] else 1), row[0]))
    for line, (key, values) in enumerate(ordered[: int((height - 56) // 22)]):
        cells = [*key, *(number(values[name], units[name]) if name in values else "" for name in names)]
        out += [text(x + 12 + step * place, y + 66 + 22 * line, cell) for place, cell in enumerate(cells)]
    return out


def draw(url: str, minutes: float, dashboard: Path, node: str) -> str:
    """Return the page."""
    source = Source(url, minutes, node)
    out, bottom = [], 0.0
    for panel in json.loads(dashboard.read_text())["panels"]:
        place = panel["gridPos"]
        unit_width = (WIDTH - GAP) / 24
        x, y = GAP + place["x"] * unit_width, GAP + place["y"] * CELL
        width, height = place["w"] * unit_width - GAP, place["h"] * CELL - GAP
        bottom = max(bottom, y + height + GAP)
        if panel["type"] == "row":
            out.append(text(x, y + 20, panel["title"], size=15))
            continue
        out.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" fill="#181b1f" rx="3"/>')
        out.append(text(x + 10, y + 17, panel["title"], size=12))
        if panel["type"] == "table":
            out += table(panel, source, (x, y, width, height))
            continue
        series: list[Series] = []
        for target in panel["targets"]:
            for found in source.over_time(target):
                points = [(float(when), float(value)) for when, value in found["values"] if value != "NaN"]
                if points:
                    name = legend(target, found["metric"])
                    series.append((name, points, color_of(panel, target, name)))
        if panel["type"] == "stat":
            said = number(series[0][1][-1][1], panel["fieldConfig"]["defaults"]["unit"]) if series else "no data"
            out.append(text(x + width / 2, y + height / 2 + 18, said, size=26, anchor="middle"))
        else:
            out += lines(panel, series, (x, y, width, height))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom:.0f}" font-family="sans-serif">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{bottom:.0f}" fill="#111217"/>', *out, "</svg>", ""])


def main() -> None:
    """Draw the requested dashboard."""
    url, target, *more = sys.argv[1:]
    minutes, dashboard, node = [*more, *("60", str(DASHBOARD), EVERYTHING)[len(more) :]]
    Path(target).write_text(draw(url.rstrip("/"), float(minutes), Path(dashboard), node))


if __name__ == "__main__":
    main()
