"""Charts of a page as Plotly draws them: below each other, with one legend at the right and one time axis."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from .analysis import BANDWIDTH, Points, by_name
from .noise import Noisy
from .slowdown import SlowedPod

MOST_LINES: Final = 12
GREY: Final = "#999999"
"""The colour of lines without one of their own."""
_DOTTED: Final = {"color": GREY, "dash": "dot", "width": 1}
_MOST_SHADES: Final = 20
HEIGHT: Final = 240
_LEGEND: Final = 300
"""Chart height and legend width: equal everywhere, so that the time axes align."""


class Chart(NamedTuple):
    """One chart: its lines by name, and the times of samples; a line has a gap where it has no value.

    Dotted lines mark the times of ``changes``; the times of ``shaded`` pods have the colour of the pod.
    """

    title: str
    unit: str
    lines: Mapping[str, Points]
    times: Sequence[float]
    scale: float = 1.0
    changes: Sequence[float] = ()
    shaded: Sequence[Noisy] = ()


def stacked(charts: Sequence[Chart], colors: Mapping[str, str]) -> go.Figure:
    """Return the charts; a name of several charts is once in the legend."""
    figure = make_subplots(rows=len(charts), cols=1, shared_xaxes=True, subplot_titles=[one.title for one in charts])
    shown: set[str] = set()
    for row, chart in enumerate(charts, 1):
        when = [_at(seconds) for seconds in chart.times]
        for name, points in chart.lines.items():
            figure.add_scatter(
                x=when,
                y=[points[moment] / chart.scale if moment in points else None for moment in chart.times],
                name=escape(name),
                mode="lines",
                line={"color": colors.get(name, GREY), "width": 1.5},
                connectgaps=False,
                legendgroup=name,
                showlegend=name not in shown,
                row=row,
                col=1,
            )
            shown.add(name)
        for time in chart.shaded[:_MOST_SHADES]:
            color = colors.get(time.user.name, GREY)
            span = {"x0": _at(time.start), "x1": _at(time.end)}
            figure.add_vrect(**span, fillcolor=color, opacity=0.12, line_width=0, row=row, col=1)
        for moment in sorted(set(chart.changes))[-_MOST_SHADES:]:
            figure.add_vline(x=_at(moment), line=_DOTTED, row=row, col=1)
        figure.update_yaxes(title=chart.unit, row=row, col=1)
    figure.update_layout(
        height=len(charts) * HEIGHT + 80,
        margin={"t": 40, "b": 40, "l": 70, "r": _LEGEND},
        legend={"x": 1.02, "y": 1},
        hovermode="x unified",
        template="plotly_white",
    )
    times = sorted(moment for chart in charts for moment in chart.times)
    figure.update_xaxes(range=[_at(times[0]), _at(times[-1])], showticklabels=True)
    figure.update_yaxes(rangemode="tozero")
    return figure


def slowdown_chart(pod: SlowedPod, times: Sequence[float], colors: Mapping[str, str]) -> go.Figure:
    """Return the slowdown of a pod, below it its culprits' traffic and its memory domain's load.

    Args:
        pod: the slowed pod.
        times: those of the recording.
        colors: the colours of the page by name.
    """
    charts = [Chart("times as long as in quiet times", "ratio", {pod.user.name: pod.ratios}, times)]
    culprits = by_name(dict([*pod.culprits.items()][:MOST_LINES]))
    if culprits:
        title = f"{BANDWIDTH.unit} of its culprits in {pod.domain}"
        charts.append(Chart(title, BANDWIDTH.unit, culprits, times, BANDWIDTH.scale))
    if pod.load:
        load = {when: 100 * value for when, value in pod.load.items()}
        charts.append(Chart(f"% load of {pod.domain}", "%", {"load": load}, times))
    figure = stacked(charts, colors)
    figure.add_hline(y=1, line=_DOTTED, row=1, col=1)
    return figure


def _at(moment: float) -> datetime:
    return datetime.fromtimestamp(moment, UTC)
