"""A recording as one self-contained HTML page: plots, noisy users, missing values."""

from collections.abc import Mapping, Sequence
from html import escape

import plotly.graph_objects as go
from plotly.io import to_html

from resctrl_hooks import __version__
from resctrl_hooks.core.inventory.interval import Interval

from .analysis import (
    BANDWIDTH,
    MEASURES,
    OTHERS,
    Measure,
    Points,
    Recording,
    User,
    by_name,
    by_namespace,
    domains,
    largest,
    series,
)
from .charts import GREY, HEIGHT, MOST_LINES, Chart, slowdown_chart, stacked
from .noise import Noisy, answer, noisy
from .slowdown import lost_time, slowed_pods
from .style import HEAD, SCRIPT, STYLE
from .tables import energy_table, events_table, full_table, gaps_table, lost_table, noisy_table, slowed_table
from .texts import number, utc
from .turns import turn_rates

_COLORS = (
    *("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"),
    *("#8c564b", "#e377c2", "#bcbd22", "#b8860b", "#7a5195", "#00a36c"),
)
"""One for each line; the sum of the others is grey."""
_MOST_ROWS = 50
_MOST_SLOWED = 4
"""Slowed pods with a chart of their own; the table has all."""


def page_of(
    recording: Recording, grams_per_kwh: float | None = None, capacity: Mapping[str, float] | None = None
) -> str:
    """Return the page as text, with CO2 if ``grams_per_kwh`` is given; ``capacity`` replaces the recorded one."""
    title = f"resctrl recording of {', '.join(filter(None, recording.times)) or 'a node'}"
    conclusion = f'<p class="answer">{escape(answer(recording))}</p>'
    parts: list[str | go.Figure] = [f"<h1>{escape(title)}</h1>", conclusion, _summary(recording)]
    times = noisy(recording)
    colors = _colors(recording)
    for measure in MEASURES:
        if not domains(recording, measure):
            continue
        parts += [f"<h2>{escape(measure.title)}</h2>", _by_domain(measure, recording, colors, times)]
        parts.append(_by_namespace(measure, recording, colors))
    slowed = slowed_pods(recording, capacity or {})
    parts.append(slowed_table(slowed, recording))
    for pod in slowed[:_MOST_SLOWED]:
        parts.append(f"<h3>{escape(pod.user.name)}</h3>")
        parts.append(slowdown_chart(pod, recording.times[pod.user.host].each, colors))
    parts.append(lost_table(lost_time(recording)))
    in_turns = turn_rates(recording)
    if in_turns:
        parts += ["<h2>Pods that took turns</h2>", _in_turns(in_turns)]
    parts += [energy_table(recording, grams_per_kwh), noisy_table(times), full_table(recording, capacity or {})]
    parts += [events_table(recording), gaps_table(recording), f"<script>{SCRIPT}</script>"]
    head = f"{HEAD}<title>{escape(title)}</title><style>{STYLE}</style>"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{_drawn(parts)}</body></html>\n'


def _drawn(parts: Sequence[str | go.Figure]) -> str:
    """Return the parts as text; the first chart imports the plotting library."""
    first = next((part for part in parts if not isinstance(part, str)), None)
    return "".join(
        part
        if isinstance(part, str)
        else f'<div class="chart">{to_html(part, full_html=False, include_plotlyjs=part is first)}</div>'
        for part in parts
    )


def _by_domain(measure: Measure, recording: Recording, colors: Mapping[str, str], times: Sequence[Noisy]) -> go.Figure:
    """Return the pods of each domain, a chart for each, with their noisy times."""
    charts = []
    for domain, users in domains(recording, measure).items():
        shaded = [time for time in times if time.domain == domain]
        charts.append(_chart(domain, measure, recording, by_name(users), [domain], next(iter(users)).host, shaded))
    return stacked(charts, _chosen(charts, colors))


def _by_namespace(measure: Measure, recording: Recording, colors: Mapping[str, str]) -> go.Figure:
    """Return the sums of each namespace over all domains, a chart for each host."""
    charts = []
    for host in recording.times:
        of = [domain for domain, users in domains(recording, measure).items() if next(iter(users)).host == host]
        if of:
            all_of = "all domains together" if len(of) > 1 else of[0]
            title = f"by namespace, {f'{host}, ' if len(recording.times) > 1 and len(of) > 1 else ''}{all_of}"
            users = {user: points for user, points in series(recording, measure).items() if user.host == host}
            charts.append(_chart(title, measure, recording, by_namespace(users), of, host))
    return stacked(charts, _chosen(charts, colors))


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
    figure.update_layout(height=HEIGHT + 80, margin={"t": 40, "b": 40}, template="plotly_white")
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


def _chart(
    title: str,
    measure: Measure,
    recording: Recording,
    lines: dict[str, Points],
    domains_of: Sequence[str],
    host: str,
    shaded: Sequence[Noisy] = (),
) -> Chart:
    """Return a chart of some domains of a host, with their changes."""
    changes = [at for at, row in recording.events if row["domain"] in domains_of]
    times = recording.times[host].each
    return Chart(title, measure.unit, largest(lines, MOST_LINES), times, measure.scale, changes, shaded)


def _chosen(charts: Sequence[Chart], colors: Mapping[str, str]) -> dict[str, str]:
    """Return the colours of all lines: those of the page, and its other ones for further names."""
    names = dict.fromkeys(name for chart in charts for name in chart.lines)
    free = [color for color in _COLORS if color not in {colors[name] for name in names if name in colors}]
    return {name: GREY if name == OTHERS else colors.get(name) or (free.pop(0) if free else GREY) for name in names}
