"""A recording as one self-contained HTML page: plots, noisy users, missing values."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape

import plotly.graph_objects as go
from plotly.io import to_html
from plotly.subplots import make_subplots

from resctrl_hooks import __version__
from resctrl_hooks.inventory.interval import Interval

from .analysis import (
    BANDWIDTH,
    MEASURES,
    OTHERS,
    Measure,
    Points,
    Recording,
    Times,
    User,
    by_name,
    by_namespace,
    domains,
    largest,
    series,
)
from .noise import Noisy, answer, noisy
from .slowdown import SlowedPod, slowed_pods
from .slowdown_chart import chart_of
from .style import HEAD, SCRIPT, STYLE, lay_out
from .tables import energy_table, events_table, full_table, noisy_table, slowed_table, uncovered_table
from .texts import number, utc
from .turns import turn_rates

_MOST_LINES = 12
_MOST_SHADES = 20
_COLORS = (
    *("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"),
    *("#8c564b", "#e377c2", "#bcbd22", "#b8860b", "#7a5195", "#00a36c"),
)
"""One for each line; the sum of the others is grey."""
_GREY = "#999999"
_HEIGHT, _LEGEND = 240, 300
"""Chart height and legend width: equal everywhere, so that the time axes align."""
_MOST_ROWS = 50
_MOST_SLOWED = 4
"""Slowed pods with a chart of their own; the table has all."""


def page_of(
    recording: Recording, grams_per_kwh: float | None = None, capacity: Mapping[str, float] | None = None
) -> str:
    """Return the page as text, with CO2 if ``grams_per_kwh`` is given; ``capacity`` replaces the recorded one."""
    title = f"resctrl recording of {', '.join(filter(None, recording.times)) or 'a node'}"
    said = f'<p class="answer">{escape(answer(recording))}</p>'
    parts = [f"<h1>{escape(title)}</h1>", said, _summary(recording)]
    times = noisy(recording)
    colors = _colors(recording)
    first = True  # imports the plotting library
    for measure in MEASURES:
        by_domain = domains(recording, measure)
        if not by_domain:
            continue
        parts.append(f"<h2>{escape(measure.title)}</h2>")
        charts = {domain: by_name(users) for domain, users in by_domain.items()}
        changes = {domain: [at for at, row in recording.events if row["domain"] == domain] for domain in by_domain}
        moments = {domain: recording.times[next(iter(users)).host] for domain, users in by_domain.items()}
        pods = _figure(measure, charts, moments, colors, times, changes)
        for figure in (pods, _by_namespace(measure, recording, by_domain, colors, changes)):
            drawn = to_html(figure, full_html=False, include_plotlyjs=first)
            first = False
            parts.append(f'<div class="chart">{drawn}</div>')
    slowed = slowed_pods(recording, capacity or {})
    parts.append(slowed_table(slowed, recording))
    for pod in slowed[:_MOST_SLOWED]:
        drawn = to_html(_slowed(pod, recording, colors), full_html=False, include_plotlyjs=first)
        first = False
        parts.append(f'<h3>{escape(pod.user.name)}</h3><div class="chart">{drawn}</div>')
    in_turns = turn_rates(recording)
    if in_turns:
        drawn = to_html(_in_turns(in_turns), full_html=False, include_plotlyjs=first)
        parts.append(f'<h2>Pods that took turns</h2><div class="chart">{drawn}</div>')
    parts += [energy_table(recording, grams_per_kwh), noisy_table(times), full_table(recording, capacity or {})]
    parts += [events_table(recording), uncovered_table(recording)]
    head = f"{HEAD}<title>{escape(title)}</title><style>{STYLE}</style>"
    parts.append(f"<script>{SCRIPT}</script>")
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{"".join(parts)}</body></html>\n'


def _by_namespace(
    measure: Measure,
    recording: Recording,
    by_domain: Mapping[str, Mapping[User, Points]],
    colors: Mapping[str, str],
    changes: Mapping[str, Sequence[float]],
) -> go.Figure:
    """Return the sums of each namespace over all domains, a chart for each host."""
    charts, moments, marks = {}, {}, {}
    for host, times in recording.times.items():
        domains_of = [domain for domain, users in by_domain.items() if next(iter(users)).host == host]
        if domains_of:
            all_of = "all domains together" if len(domains_of) > 1 else domains_of[0]
            title = f"by namespace, {f'{host}, ' if len(recording.times) > 1 and len(domains_of) > 1 else ''}{all_of}"
            users = {user: points for user, points in series(recording, measure).items() if user.host == host}
            charts[title], moments[title] = by_namespace(users), times
            marks[title] = [at for domain in domains_of for at in changes[domain]]
    return _figure(measure, charts, moments, colors, (), marks)


def _slowed(pod: SlowedPod, recording: Recording, colors: Mapping[str, str]) -> go.Figure:
    return chart_of(pod, recording.times[pod.user.host].each, colors, _GREY, _MOST_LINES, _HEIGHT, _LEGEND)


def _in_turns(rates: Mapping[User, Interval]) -> go.Figure:
    """Return a chart of the mean bandwidth of each time-sharing pod, with the interval as error bars."""
    most = sorted(rates, key=lambda user: -rates[user].rate)[:_MOST_ROWS]
    found = [rates[user] for user in most]
    bars = {
        "array": [one.half / BANDWIDTH.scale for one in found],
        "arrayminus": [(one.rate - one.low) / BANDWIDTH.scale for one in found],
    }
    figure = go.Figure()
    figure.add_bar(
        x=[escape(user.name) for user in most], y=[one.rate / BANDWIDTH.scale for one in found], error_y=bars
    )
    figure.update_layout(height=_HEIGHT + 80, margin={"t": 40, "b": 40}, template="plotly_white")
    figure.update_yaxes(title=f"{BANDWIDTH.unit}, with 95 % confidence intervals", rangemode="tozero")
    return figure


def _summary(recording: Recording) -> str:
    times = max((of.each for of in recording.times.values()), key=len)
    start, end, samples = times[0], times[-1], len(times)
    every = f", one every {number((end - start) / (samples - 1), 's')}" if samples > 1 else ""
    pods = sum(user.kind == "pod" for user in recording.users)
    return (
        f"<p>{utc(start)} to {utc(end)}: {samples} samples{every}; {pods} monitored pods. "
        f'<span class="note">Made by resctrl-hooks {escape(__version__)}.</span></p>'
    )


def _colors(recording: Recording) -> dict[str, str]:
    """Return a colour for each of the names with the largest bandwidth, the same in every chart."""
    users = series(recording, BANDWIDTH)
    sums = {name: sum(points.values()) for name, points in {**by_name(users), **by_namespace(users)}.items()}
    order = sorted(sums, key=lambda name: -sums[name])
    return dict(zip(order, _COLORS, strict=False))


def _figure(
    measure: Measure,
    charts: Mapping[str, dict[str, Points]],
    times: Mapping[str, Times],
    colors: Mapping[str, str],
    shaded: Sequence[Noisy],
    changes: Mapping[str, Sequence[float]],
) -> go.Figure:
    """Return stacked charts, one per domain, with the same time axis. A line has a gap where it has no value.

    ``times`` are those of samples, by chart. Dotted lines mark the times of ``changes``, by chart.
    """
    figure = make_subplots(rows=len(charts), cols=1, shared_xaxes=True, subplot_titles=list(charts))
    when = {chart: [datetime.fromtimestamp(moment, UTC) for moment in of.each] for chart, of in times.items()}
    drawn = {domain: largest(lines, _MOST_LINES) for domain, lines in charts.items()}
    names = list(dict.fromkeys(name for lines in drawn.values() for name in lines))
    free = [color for color in _COLORS if color not in {colors[name] for name in names if name in colors}]
    chosen = {name: _GREY if name == OTHERS else colors.get(name) or (free.pop(0) if free else _GREY) for name in names}
    shown: set[str] = set()
    for row, (domain, lines) in enumerate(drawn.items(), 1):
        for name, points in lines.items():
            values = [points[moment] / measure.scale if moment in points else None for moment in times[domain].each]
            line = {"color": chosen[name], "width": 1.5}
            figure.add_scatter(
                x=when[domain],
                y=values,
                name=escape(name),
                mode="lines",
                line=line,
                connectgaps=False,
                legendgroup=name,
                showlegend=name not in shown,
                row=row,
                col=1,
            )
            shown.add(name)
        for time in [time for time in shaded if time.domain == domain][:_MOST_SHADES]:
            start, end = (datetime.fromtimestamp(moment, UTC) for moment in (time.start, time.end))
            color = chosen.get(time.user.name, _GREY)
            figure.add_vrect(x0=start, x1=end, fillcolor=color, opacity=0.12, line_width=0, row=row, col=1)
        for moment in sorted(set(changes[domain]))[-_MOST_SHADES:]:
            at = datetime.fromtimestamp(moment, UTC)
            figure.add_vline(x=at, line={"color": _GREY, "dash": "dot", "width": 1}, row=row, col=1)
    lay_out(figure, len(charts) * _HEIGHT, _LEGEND, sorted(moment for moments in when.values() for moment in moments))
    figure.update_yaxes(title=measure.unit, rangemode="tozero")
    return figure
