"""A recording as one HTML page that needs nothing else: plots, who was noisy when, what was not covered."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

import plotly.graph_objects as go
from plotly.io import to_html

from resctrl_hooks import __version__

from .analysis import (
    BUSY_SHARE,
    MEASURES,
    NOISY_SHARE,
    Measure,
    Points,
    Recording,
    by_namespace,
    largest,
    noisy,
    series,
    uncovered,
)

_MOST_LINES = 12
_MOST_ROWS = 50
_LARGE = 1000
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1100px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; } th, td { padding: .25em .8em; text-align: left; border-bottom: 1px solid #ddd; }
td.number { text-align: right; font-variant-numeric: tabular-nums; } .note { color: #666; }
"""


def page_of(recording: Recording) -> str:
    """The page, as text."""
    title = f"resctrl recording of {', '.join(recording.hosts) or 'a node'}"
    parts = [f"<h1>{escape(title)}</h1>", _summary(recording)]
    first = True
    for measure in MEASURES:
        users = series(recording, measure)
        if not users:
            continue
        lines = {user.name: points for user, points in users.items()}
        parts.append(f"<h2>{escape(measure.title)}</h2>")
        for by, found in (("pod", lines), ("namespace", by_namespace(users))):
            figure = _figure(measure, largest(found, _MOST_LINES), recording.times, f"{measure.unit} by {by}")
            parts.append(to_html(figure, full_html=False, include_plotlyjs=first))
            first = False
    parts += [_noisy(recording), _uncovered(recording)]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{"".join(parts)}</body></html>\n'


def _summary(recording: Recording) -> str:
    start, end = recording.times[0], recording.times[-1]
    looks = len(recording.times)
    every = f", one every {(end - start) / (looks - 1):.2g} s" if looks > 1 else ""
    pods = sum(user.kind == "pod" for user in recording.users)
    return (
        f"<p>{_time(start)} to {_time(end)}: {looks} looks{every}; {pods} monitored pods. "
        f'<span class="note">Made by resctrl-hooks {escape(__version__)}.</span></p>'
    )


def _figure(measure: Measure, lines: dict[str, Points], times: Sequence[float], title: str) -> go.Figure:
    """The lines; one is interrupted where it has no number."""
    figure = go.Figure()
    when = [datetime.fromtimestamp(moment, UTC) for moment in times]
    for name, points in lines.items():
        values = [points[moment] / measure.scale if moment in points else None for moment in times]
        figure.add_scatter(x=when, y=values, name=escape(name), mode="lines", connectgaps=False)
    figure.update_layout(
        title=title, height=360, margin={"t": 50, "b": 40}, hovermode="x unified", template="plotly_white"
    )
    figure.update_yaxes(title=measure.unit, rangemode="tozero")
    return figure


def _noisy(recording: Recording) -> str:
    found = noisy(recording)
    rule = (
        f"A pod is listed while it moves more than {NOISY_SHARE:.0%} of what its L3 domain moves, and the domain moves "
        f"more than {BUSY_SHARE:.0%} of its peak in this recording."
    )
    rows = [
        (
            time.user.name,
            time.domain,
            _time(time.start),
            _number(time.end - time.start, "s"),
            _number(time.moved / 1e9 / max(time.end - time.start, 1e-9), "GB/s"),
            _number(100 * time.moved / time.of, "%"),
        )
        for time in found
    ]
    heads = ("Pod", "L3 domain", "From", "For", "Bandwidth", "Share of the domain")
    nobody = "Nobody was noisy by this rule."
    return f'<h2>Who was noisy when</h2><p class="note">{escape(rule)}</p>{_table(heads, rows, nobody)}'


def _uncovered(recording: Recording) -> str:
    rows = [
        (one.user.name, one.column, one.word, _number(100 * one.rows / one.of, "%")) for one in uncovered(recording)
    ]
    rows += [("(all)", "no look", _time(start), _number(end - start, "s")) for start, end in recording.gaps]
    heads = ("Pod", "Counter", "What the kernel said", "Of its rows")
    return f"<h2>What was not covered</h2>{_table(heads, rows, 'Every counter had a number in every look.')}"


def _table(heads: Iterable[str], rows: Sequence[Iterable[str]], nothing: str) -> str:
    if not rows:
        return f"<p>{escape(nothing)}</p>"
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:_MOST_ROWS])
    more = f'<p class="note">and {len(rows) - _MOST_ROWS} more.</p>' if len(rows) > _MOST_ROWS else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"


def _cell(text: str) -> str:
    number = text[:1].isdigit() and " " in text and "-" not in text
    kind = ' class="number"' if number else ""
    return f"<td{kind}>{escape(text)}</td>"


def _number(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}" if abs(value) < _LARGE else f"{value:.0f} {unit}"


def _time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
