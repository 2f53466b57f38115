"""Drawings as SVG that needs no script: stacked areas on the page's time axis, with ticks and marks as HTML."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import isnan, nan
from typing import Final

from resctrl_hooks.core.inventory.amounts import scaled

from .axes import UNITS, TimeAxis, ValueAxis
from .thinning import places_of
from .times import Times
from .tracks import Line, known

_CLOSE: Final = 0.025
"""Marks that are closer, as a part of the axis, share a number."""
_MOST_MISSING: Final = 2
"""Samples without a value in a line that goes on: a pod in two classes at one sample has no rate at it and the next."""


@dataclass(frozen=True, slots=True)
class Band:
    """A line of a chart, the name in its tooltip, and the class of its style, which has its colour."""

    name: str
    style: str
    line: Line


@dataclass(frozen=True, slots=True)
class Limit:
    """A value with a dashed line, such as a capacity, or a solid one if it varies; with the class of its style."""

    name: str
    line: Line
    style: str = "limit"


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line at a moment; its number is in the list of the timeline, 0 for none."""

    moment: float
    number: int = 0
    text: str = ""


def paths(bands: Sequence[Band], times: Times, axis: TimeAxis, values: ValueAxis, most: int) -> str:
    """Return the bands stacked in their order, the first at the bottom, at about ``most`` samples.

    Each is drawn from the axis to the sum up to it, and covered by those below. There is a gap where the sum has no
    value, and where the recording has no samples.
    """
    sums = stacked([band.line for band in bands])
    places = places_of([band.line for band in bands] + sums[-1:], most) if sums else []
    pieces = _pieces(places, sums[-1], times) if sums else []
    made = []
    for band, upper in reversed([*zip(bands, sums, strict=True)]):
        drawn = "".join(_piece(piece, upper, times, axis, values) for piece in pieces)
        made.append(f'<path class="{band.style}" data-name="{escape(band.name)}" d="{drawn}"/>')
    return "".join(made)


def stacked(lines: Sequence[Line]) -> list[Line]:
    """Return the sum of the lines up to each of them.

    It has no value where all lines have none, and where one misses at most two samples, which is no fall to 0: its pod
    has moved to another group, or its counter started again. A value that is missing for longer counts as 0.
    """
    found: list[Line] = []
    has_value = [any(not isnan(one) for one in values) for values in zip(*lines, strict=True)]
    for at in (at for line in lines for at in _holes(line)):
        has_value[at] = False
    for line in lines:
        before = found[-1] if found else Line("d", [0.0 if one else nan for one in has_value])
        found.append(
            Line("d", [low + (0.0 if isnan(value) else value) for low, value in zip(before, line, strict=True)])
        )
    return found


def _holes(line: Line) -> Iterator[int]:
    """Yield the places of at most two missing values between known ones."""
    last = len(line)
    for at, value in enumerate(line):
        if not isnan(value):
            if at - last <= _MOST_MISSING + 1:
                yield from range(last + 1, at)
            last = at


def _pieces(places: Iterable[int], whole: Line, times: Times) -> list[list[int]]:
    """Return the places between gaps."""
    usual, each, gaps = times.usual, times.each, [0]
    for at in range(1, len(whole)):
        is_gap = isnan(whole[at]) or each[at] - each[at - 1] > 2 * usual
        gaps.append(gaps[-1] + is_gap)
    found: list[list[int]] = []
    last = -1
    for at in places:
        if isnan(whole[at]):
            continue
        if last < 0 or gaps[at] > gaps[last]:
            found.append([])
        found[-1].append(at)
        last = at
    return found


def _piece(places: Sequence[int], line: Line, times: Times, axis: TimeAxis, values: ValueAxis) -> str:
    x = [round(UNITS * axis.part(times.each[at])) for at in places]
    y = [UNITS - round(UNITS * min(line[at] / values.top, 1.0)) for at in places]
    if len(places) == 1:  # a single sample is as wide as the interval before it
        x, y = [max(x[0] - max(round(UNITS * times.usual / ((axis.end - axis.start) or 1)), 20), 0), *x], [*y, *y]
    steps = "".join(
        f"{after - before:+d}{high - low:+d}" for before, after, low, high in zip(x, x[1:], y, y[1:], strict=False)
    )
    return f"M{x[0]} {y[0]}l{steps}V{UNITS}H{x[0]}z"


def limit_path(limit: Limit, times: Times, axis: TimeAxis, values: ValueAxis) -> str:
    """Return the dashed line of a limit."""
    places = [at for at in places_of([limit.line], 400) if not isnan(limit.line[at])]
    points: list[tuple[int, int]] = []
    for at in places:
        x, y = round(UNITS * axis.part(times.each[at])), UNITS - round(UNITS * limit.line[at] / values.top)
        if len(points) > 1 and points[-1][1] == points[-2][1] == y:
            points.pop()
        points.append((x, y))
    if len(points) == 1 or (points and len({y for _, y in points}) == 1):
        points = [(0, points[0][1]), (UNITS, points[0][1])]
    drawn = " ".join(f"{x},{y}" for x, y in points)
    return f'<polyline class="{limit.style}" data-name="{escape(limit.name)}" points="{drawn}"/>' if points else ""


def chart(
    caption: str,
    bands: Sequence[Band],
    times: Times,
    axis: TimeAxis,
    values: ValueAxis,
    *,
    limits: Sequence[Limit] = (),
    marks: Sequence[Mark] = (),
    most: int,
) -> str:
    """Return a chart with its caption, which is HTML."""
    drawn = paths(bands, times, axis, values, most)
    drawn += "".join(limit_path(one, times, axis, values) for one in limits)
    ticks = "".join(f'<span style="bottom:{100 * one.part:.1f}%">{escape(one.text)}</span>' for one in values.ticks)
    rules = "".join(f'<hr style="bottom:{100 * one.part:.1f}%">' for one in values.ticks)
    return (
        f'<figure class="chart"{_data(values, axis)}><figcaption>{caption}</figcaption><div class="row">'
        f'<div class="gutter">{ticks}</div><div class="plot">{_svg(drawn)}{rules}{marks_of(marks, axis)}</div></div>'
        f"{time_ticks(axis)}</figure>"
    )


def lane(
    name: str, note: str, bands: Sequence[Band], times: Times, axis: TimeAxis, values: ValueAxis, base: float = 0.0
) -> str:
    """Return a line of the timeline: a small chart beside its name."""
    drawn = paths(bands, times, axis, values, 1200)
    return (
        f'<div class="row lane"{_data(values, axis)} data-base="{base:g}"><div class="gutter"><b>{escape(name)}</b>'
        f'<small>{escape(note)}</small></div><div class="plot">{_svg(drawn)}</div></div>'
    )


def marks_of(marks: Iterable[Mark], axis: TimeAxis) -> str:
    """Return the marks, in order of time. Those with a number show it; close ones share a badge."""
    found: list[tuple[Mark, list[int]]] = []
    last: tuple[float, list[int]] = (-1.0, [])
    for one in marks:
        numbers = [one.number] if one.number else []
        if numbers and axis.part(one.moment) - last[0] < _CLOSE:
            last[1].append(one.number)
            numbers = []
        elif numbers:
            last = axis.part(one.moment), numbers
        found.append((one, numbers))
    made = ""
    for one, numbers in found:
        badge = f"<b>{'-'.join(str(number) for number in sorted({*numbers[:1], *numbers[-1:]}))}</b>" if numbers else ""
        place = f'style="left:{100 * axis.part(one.moment):.2f}%" title="{escape(one.text)}"'
        made += f'<i class="mark" {place}>{badge}</i>'
    return made


def time_ticks(axis: TimeAxis) -> str:
    """Return the texts below a chart."""
    texts = "".join(f'<span style="left:{100 * one.part:.2f}%">{one.text}</span>' for one in axis.ticks)
    return f'<div class="row times"><div class="gutter"></div><div class="plot">{texts}</div></div>'


def _svg(drawn: str) -> str:
    return f'<svg viewBox="0 0 {UNITS} {UNITS}" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>'


def _data(values: ValueAxis, axis: TimeAxis) -> str:
    binary = ' data-binary="1"' if values.binary else ""
    span = f' data-start="{axis.start:.0f}" data-end="{axis.end:.0f}"'
    return f' data-top="{values.top:.6g}" data-unit="{escape(values.unit)}"{binary}{span}'


def peak(line: Line, unit: str) -> str:
    """Return the largest value of a line as text."""
    values = known(line)
    return f"up to {scaled(max(values), unit)}" if values else ""
