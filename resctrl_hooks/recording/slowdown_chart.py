"""The chart of a slowed pod: its slowdown, below it its culprits' traffic and its memory domain's load."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from .analysis import BANDWIDTH, Points, by_name
from .slowdown import SlowedPod
from .style import lay_out

_RATIO = "times as long as in quiet times"


def chart_of(
    pod: SlowedPod, times: Sequence[float], colors: Mapping[str, str], others: str, most: int, height: int, legend: int
) -> go.Figure:
    """Return up to three charts with one time axis; a line has a gap where it has no value.

    Args:
        pod: the slowed pod.
        times: those of the recording.
        colors: the colours of the page by name.
        others: the colour of all other lines.
        most: how many culprits have a line.
        height: of each chart, in pixels.
        legend: the width of the legend, in pixels.
    """
    titles = {_RATIO: {pod.user.name: pod.ratios}}
    culprits = by_name(dict([*pod.culprits.items()][:most]))
    if culprits:
        title = f"{BANDWIDTH.unit} of its culprits in {pod.domain}"
        titles[title] = {
            name: {when: value / BANDWIDTH.scale for when, value in points.items()} for name, points in culprits.items()
        }
    if pod.load:
        titles[f"% load of {pod.domain}"] = {"load": {when: 100 * value for when, value in pod.load.items()}}
    figure = make_subplots(rows=len(titles), cols=1, shared_xaxes=True, subplot_titles=list(titles))
    when = [datetime.fromtimestamp(moment, UTC) for moment in times]
    for row, (title, lines) in enumerate(titles.items(), 1):
        for name, points in lines.items():
            figure.add_scatter(
                x=when,
                y=_values(points, times),
                name=escape(name),
                mode="lines",
                line={"color": colors.get(name, others), "width": 1.5},
                connectgaps=False,
                legendgroup=name,
                row=row,
                col=1,
            )
        figure.update_yaxes(title=title.split()[0] if title != _RATIO else "ratio", row=row, col=1)
    figure.add_hline(y=1, line={"color": others, "dash": "dot", "width": 1}, row=1, col=1)
    lay_out(figure, len(titles) * height, legend, when)
    figure.update_yaxes(rangemode="tozero")
    return figure


def _values(points: Points, times: Sequence[float]) -> list[float | None]:
    return [points.get(moment) for moment in times]
