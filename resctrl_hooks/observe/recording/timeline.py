"""The timeline of a page: slowed pods above, the pods that slowed them below, and marks of limits and changes."""

from collections.abc import Sequence
from html import escape
from math import nan
from typing import Final

from resctrl_hooks.observe.node.history.rows import GUARD, LIMIT, POD, UNLIMIT
from resctrl_hooks.observe.node.slowdown.constants import SLOWED

from .analysis import BANDWIDTH, by_name, series
from .axes import TimeAxis, axis_of
from .drawing import Band, Mark, lane, marks_of, peak, time_ticks
from .legend import OTHER, Legend
from .slowdown import SlowedPod
from .texts import SOURCES, event_text, utc
from .tracks import Line, Recording, known

_MOST_LANES: Final = 6
_MOST_MARKS: Final = 12
"""Marks with a number, which are also in the charts."""
_MOST_OTHERS: Final = 100


def marks_of_events(recording: Recording) -> list[Mark]:
    """Return a mark for each change; changes of several domains at once are one.

    Twelve have numbers: limits, then changes of classes, then the guard's. Of the others, the last hundred are marked.
    """
    kinds: dict[tuple[float, str], str] = {}
    for when, row in recording.events:
        kind = str(row["kind"])
        text = f"{SOURCES[kind]}: {event_text(row)}"
        kinds[when, text] = kind
    order = sorted(kinds, key=lambda one: (kinds[one] not in (LIMIT, UNLIMIT), kinds[one] == GUARD, one))[:_MOST_MARKS]
    numbers = {one: number for number, one in enumerate(sorted(order), 1)}
    others = [one for one in kinds if one not in numbers][-_MOST_OTHERS:]
    return [Mark(when, numbers.get((when, text), 0), text) for when, text in sorted([*numbers, *others])]


def timeline(
    recording: Recording,
    slowed: Sequence[SlowedPod],
    culprits: Sequence[str],
    legend: Legend,
    axis: TimeAxis,
    marks: Sequence[Mark],
) -> str:
    """Return the timeline; empty where nothing is to be drawn. ``culprits`` are the names of the pods below."""
    victims = "".join(_victim(pod, recording, legend, axis) for pod in slowed[:_MOST_LANES])
    users = series(recording, BANDWIDTH)
    lines = by_name({user: line for user, line in users.items() if user.kind == POD})
    hosts = {user.name: user.host for user in users}
    below = ""
    for name in [name for name in culprits if name in lines][:_MOST_LANES]:
        values = axis_of(max(known(lines[name])), BANDWIDTH.unit)
        bands, times = [Band(name, legend.style(name), lines[name])], recording.times[hosts[name]]
        below += lane(name, peak(lines[name], BANDWIDTH.unit), bands, times, axis, values)
    if not (victims or below or marks):
        return ""
    heads = (_head("Slowed", "how many times as long work takes") if victims else "") + victims
    heads += (_head("Slowed by" if victims else "Noisy", "memory bandwidth") if below else "") + below
    listed = "".join(
        f"<li><time>{utc(one.moment)}</time> {escape(one.text)}</li>"
        for one in sorted(marks, key=lambda one: one.number)
        if one.number
    )
    over = f'<div class="row over"><div class="gutter"></div><div class="plot">{marks_of(marks, axis)}</div></div>'
    numbers = f'<ol class="marks">{listed}</ol>' if listed else ""
    return (
        f'<section class="timeline"><div class="lanes">{heads}{over if marks else ""}</div>'
        f"{time_ticks(axis)}{numbers}</section>"
    )


def _victim(pod: SlowedPod, recording: Recording, legend: Legend, axis: TimeAxis) -> str:
    """Return the lane of a slowed pod: its ratio above 1, with its colour where it was slowed."""
    times = recording.times[pod.user.host]
    ratios = [pod.ratios.get(when, nan) for when in times.each]
    bands = [
        Band(name, style, Line("d", [max(ratio - 1, 0.0) * (is_slow == (ratio >= SLOWED)) for ratio in ratios]))
        for name, style, is_slow in (("not slowed", OTHER, False), (pod.user.name, legend.style(pod.user.name), True))
    ]
    values = axis_of(pod.most - 1, "times")
    return lane(pod.user.name, f"up to {pod.most:.2f} times", bands, times, axis, values, 1)


def _head(name: str, note: str) -> str:
    return f'<p class="head"><b>{escape(name)}</b> <small>{escape(note)}</small></p>'
