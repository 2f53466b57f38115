"""The page's style: light and dark, one column on a phone, and print; the charts follow it by a script.

Plotly writes colours and sizes into its drawings, where no rule of a style sheet reaches. So a script sets them, and
again after a change of the style or the width.
"""

from typing import Final

HEAD: Final = (
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark">'
)
STYLE: Final = """
:root { --text: #1b2430; --ground: #fff; --rule: #ddd; --note: #666; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--ground); }
body { max-width: 1150px; margin: 2em auto; padding: 0 1em; overflow-wrap: break-word; }
table { border-collapse: collapse; } th, td { padding: .25em .8em; text-align: left; }
th, td { border-bottom: 1px solid var(--rule); } .table { overflow-x: auto; }
td.number { text-align: right; font-variant-numeric: tabular-nums; } .note { color: var(--note); }
.chart > div, .chart .plotly-graph-div { height: auto !important; }
.answer { font-size: 1.3em; font-weight: 600; margin: .3em 0; } h2 { margin-top: 2em; }
@media screen and (prefers-color-scheme: dark) {
  :root { --text: #dde3ea; --ground: #14181d; --rule: #39424d; --note: #9aa5b1; }
}
@media screen and (max-width: 700px) {
  body { margin: 1em auto; padding: 0 .7em; } h1 { font-size: 1.3em; margin: .3em 0; } h2 { font-size: 1.15em; }
  th, td { padding: .25em .5em; } td:not(.number) { min-width: 9em; } .answer { font-size: 1.15em; }
  .modebar-container { display: none !important; }
}
@media print {
  body { font-size: 10pt; max-width: none; margin: 0; } h2 { break-after: avoid; margin-top: 1em; }
  .chart, tr { break-inside: avoid; } .modebar-container { display: none !important; }
}
"""
SCRIPT: Final = """
const dark = matchMedia("screen and (prefers-color-scheme: dark)"), phone = matchMedia("screen and (max-width: 700px)");
const drawn = new Map();
function adapt() {
  for (const chart of document.querySelectorAll(".js-plotly-plot")) {
    const names = chart.data.filter(one => one.showlegend !== false).length;
    if (!drawn.has(chart)) drawn.set(chart, { height: chart.layout.height, right: chart.layout.margin.r });
    const wide = drawn.get(chart), below = wide.right === undefined ? 0 : 24 * names;
    const change = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      "font.color": dark.matches ? "#dde3ea" : "#1b2430",
      "hoverlabel.bgcolor": dark.matches ? "#14181d" : "#fff",
      "modebar.bgcolor": "rgba(0,0,0,0)", "modebar.color": "#8d96a0", "modebar.activecolor": "#8d96a0",
      width: chart.parentElement.clientWidth,
      height: wide.height + (phone.matches ? below : 0)
    };
    if (wide.right !== undefined) Object.assign(change, phone.matches
      ? { "margin.r": 10, "margin.l": 50, "margin.b": 40 + below, "legend.x": 0, "legend.y": 0,
          "legend.yref": "container", "legend.yanchor": "bottom" }
      : { "margin.r": wide.right, "margin.l": 70, "margin.b": 40, "legend.x": 1.02, "legend.y": 1,
          "legend.yref": "paper", "legend.yanchor": "top" });
    for (const axis of Object.keys(chart.layout).filter(key => /^[xy]axis/.test(key))) {
      change[axis + ".gridcolor"] = change[axis + ".linecolor"] = dark.matches ? "#39424d" : "#e5e9ee";
      change[axis + ".zerolinecolor"] = dark.matches ? "#39424d" : "#e5e9ee";
      if (axis[0] === "x") change[axis + ".nticks"] = phone.matches ? 4 : 0;
    }
    Plotly.relayout(chart, change);
  }
}
addEventListener("load", adapt);
addEventListener("resize", adapt);
dark.addEventListener("change", adapt);
phone.addEventListener("change", adapt);
addEventListener("beforeprint", adapt);
addEventListener("afterprint", adapt);
"""
"""The charts with a right margin have a legend there; a phone has it below, a line for each name."""
