"""The page's style: light and dark, a phone, and print."""

from typing import Final

from resctrl_hooks.observe.inventory.palette import CAPACITY, REST, SERIES

HEAD: Final = (
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark">'
)
_COLORS: Final = {**{f"s{number}": color for number, color in enumerate(SERIES)}}
_BANDS: Final = "".join(
    f".{name} {{ fill: {color}; --color: {color}; }}\n"
    for name, color in (*_COLORS.items(), ("rest", "var(--rest)"), ("outside", "var(--outside)"))
)
STYLE: Final = f"""
:root {{ --text: #1b2430; --ground: #fff; --rule: #dde1e6; --note: #5b6672; --rest: {REST}; --outside: #d5d9de;
  --gutter: 170px; --limit: {CAPACITY}; --mark: #1b2430; }}
* {{ box-sizing: border-box; }}
body {{ font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: var(--ground); }}
body {{ max-width: 1200px; margin: 1.2em auto; padding: 0 1em; overflow-wrap: break-word; }}
h1 {{ font-size: 1em; font-weight: 400; color: var(--note); margin: 0; }}
h2 {{ font-size: 1.15em; margin: 1.3em 0 .3em; }}
h3 {{ font-size: 1em; margin: 1em 0 .2em; }} p {{ margin: .3em 0; }}
.answer {{ font-size: 1.3em; line-height: 1.3; font-weight: 600; margin: .25em 0; }}
.note, small {{ color: var(--note); font-size: .85em; font-weight: 400; }}
.legend {{ position: sticky; top: 0; z-index: 3; background: var(--ground); list-style: none; margin: .5em 0;
  padding: .35em 0; display: flex; flex-wrap: wrap; gap: .1em 1.1em; border-bottom: 1px solid var(--rule);
  font-size: .88em; }}
.legend li {{ white-space: nowrap; max-width: 24em; overflow: hidden; text-overflow: ellipsis; }}
.legend li::before {{ content: ""; display: inline-block; width: .85em; height: .85em; margin-right: .4em;
  border-radius: 2px; vertical-align: -.08em; background: var(--color); print-color-adjust: exact; }}
.legend .limit::before {{ height: 0; border-top: 2px dashed var(--limit); border-radius: 0; vertical-align: .25em;
  background: none; }}
{_BANDS}
.legend .whole::before {{ height: 0; border-top: 2px solid var(--limit); border-radius: 0; vertical-align: .25em;
  background: none; }}
.whole {{ fill: none; stroke: var(--limit); stroke-width: 1.5px; vector-effect: non-scaling-stroke; }}
.limit {{ fill: none; stroke: var(--limit); stroke-width: 2px; stroke-dasharray: 7 5;
  vector-effect: non-scaling-stroke; }}
figure {{ margin: 0 0 .8em; }} figcaption {{ margin: 0 0 .1em var(--gutter); font-weight: 600; font-size: .92em; }}
.row {{ display: flex; }} .gutter {{ width: var(--gutter); flex: none; position: relative; font-size: .8em;
  color: var(--note); }}
.plot {{ flex: 1; min-width: 0; position: relative; border-left: 1px solid var(--rule);
  border-bottom: 1px solid var(--rule); }}
.plot svg {{ display: block; width: 100%; height: 100%; print-color-adjust: exact; }}
.chart .plot {{ height: 170px; }}
.chart .gutter span {{ position: absolute; right: 6px; transform: translateY(50%); white-space: nowrap; }}
.plot hr {{ position: absolute; left: 0; right: 0; margin: 0; border: 0; opacity: .13;
  border-top: 1px solid var(--text); pointer-events: none; }}
.chart .times .plot, .times .plot {{ height: 1.5em; border: 0; font-size: .8em; color: var(--note); }}
.times span {{ position: absolute; transform: translateX(-50%); white-space: nowrap; }}
.times span:first-child[style="left:0.00%"] {{ transform: none; }}
.times span:last-child[style="left:100.00%"] {{ transform: translateX(-100%); }}
.mark {{ position: absolute; top: 0; bottom: 0; width: 0; border-left: 1px dashed var(--mark); opacity: .75;
  pointer-events: none; font-style: normal; }}
.timeline {{ margin-top: .8em; }} .lanes {{ position: relative; padding-top: 1.3em; }}
.lane {{ margin-bottom: 3px; }} .lane .plot {{ height: 34px; }}
.lane .gutter {{ line-height: 1.2; padding-right: 8px; }}
.lane .gutter b {{ display: block; color: var(--text); font-weight: 600; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }}
.head {{ margin: .2em 0; font-size: .9em; }}
.over {{ position: absolute; inset: 0; pointer-events: none; }} .over .plot {{ border: 0; }}
.mark b {{ position: absolute; top: 0; left: 0; transform: translateX(-50%); background: var(--mark);
  color: var(--ground); font-size: .72em; line-height: 1.5; min-width: 1.5em; text-align: center; padding: 0 .3em;
  white-space: nowrap; border-radius: 1em;
  print-color-adjust: exact; }}
.over .mark {{ opacity: 1; }} .chart .mark b {{ top: -1.1em; }}
.head b, .head small, .lane .gutter b, .lane .gutter small {{ position: relative; z-index: 1; }}
.head b, .head small, .lane .gutter small {{ background: var(--ground); }}
.marks {{ margin: .2em 0 0 var(--gutter); padding-left: 1.4em; font-size: .88em; }}
.marks time {{ color: var(--note); }}
.heat .gutter span {{ display: block; height: 16px; line-height: 16px; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; padding-right: 8px; color: var(--text); }}
.heat .gutter i {{ font-style: normal; }}
.heat img {{ position: absolute; top: 0; height: 100%; image-rendering: pixelated; print-color-adjust: exact; }}
details {{ border-top: 1px solid var(--rule); padding: .35em 0; }} summary {{ cursor: pointer; font-weight: 600; }}
table {{ border-collapse: collapse; }} th, td {{ padding: .2em .8em .2em 0; text-align: left; vertical-align: top; }}
th, td {{ border-bottom: 1px solid var(--rule); }} .table {{ overflow-x: auto; font-size: .92em; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
#tip {{ position: fixed; z-index: 9; display: none; pointer-events: none; background: var(--ground); color: var(--text);
  border: 1px solid var(--rule); border-radius: 4px; padding: .4em .6em; font-size: .82em; max-width: 320px;
  box-shadow: 0 2px 8px #0004; }}
#tip p {{ margin: 0; display: flex; gap: 1em; justify-content: space-between; }}
#tip p span {{ overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }}
#tip p span::before {{ content: ""; display: inline-block; width: .7em; height: .7em; margin-right: .4em;
  background: var(--color); border-radius: 2px; }}
@media screen and (prefers-color-scheme: dark) {{
  :root {{ --text: #dde3ea; --ground: #14181d; --rule: #39424d; --note: #9aa5b1; --rest: #6f7781; --outside: #454c55;
    --mark: #dde3ea; --limit: #ff7b6e; }}
}}
@media screen and (max-width: 700px) {{
  :root {{ --gutter: 68px; }} body {{ margin: .7em auto; padding: 0 .7em; }} .answer {{ font-size: 1.08em; }}
  .lane {{ display: block; }} .lane .gutter {{ width: auto; display: flex; gap: .6em; }}
  .lane .plot {{ margin-left: var(--gutter); }} .marks {{ margin-left: 0; }}
  .legend {{ flex-wrap: nowrap; overflow-x: auto; }} .legend li {{ flex: none; }}
  .times span:nth-child(even) {{ display: none; }} .heat .gutter {{ font-size: .7em; }}
  .heat .gutter i {{ display: none; }}
  td:not(.number) {{ min-width: 7em; }}
}}
@media print {{
  body {{ font-size: 9.5pt; max-width: none; margin: 0; }} .legend {{ position: static; }}
  h2, figcaption, summary {{ break-after: avoid; }} figure, tr, .timeline, .lane {{ break-inside: avoid; }}
  .chart .plot {{ height: 120px; }}
}}
"""
