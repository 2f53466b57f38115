"""Analysis of a recording: rates over time by user, and missing values.

All results come from counted values; missing values are not interpolated.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import nan
from typing import Final, NamedTuple

from resctrl_hooks.core.node.resctrl.counters import counter_named
from resctrl_hooks.observe.inventory.columns import COLUMNS, LLC, MBM, Column
from resctrl_hooks.observe.inventory.columns import POWER as ENERGY
from resctrl_hooks.observe.inventory.rates import WHOLE, rate_of
from resctrl_hooks.observe.node.history.rows import column_of, counted_column

from .times import Times
from .tracks import Line, Recording, Track, User, known

_WHOLE_SECONDS: Final = 1.0
"""The error of a difference of two numbers of whole seconds."""


class Measure(NamedTuple):
    """A quantity of the page: the column of its values in a recording, and the factor from them to its unit.

    ``seconds`` is the column of the seconds for which it was counted; empty for a gauge. ``adds``: whether the values
    of pods add up.
    """

    title: str
    column: str
    seconds: str
    unit: str
    factor: float
    adds: bool


def _measure(of: Column) -> Measure:
    seconds = counted_column(of.counter) if of.is_rate else ""
    return Measure(of.title, column_of(counter_named(of.counter)), seconds, of.unit, of.factor, of.adds)


BANDWIDTH, OCCUPANCY, POWER = _measure(MBM), _measure(LLC), _measure(ENERGY)
MEASURES = tuple(map(_measure, COLUMNS))


class MissingValue(NamedTuple):
    """Missing values of a user: the column, the kernel's word, and in how many of how many rows."""

    user: User
    column: str
    word: str
    rows: int
    of: int


def domains(recording: Recording, measure: Measure) -> dict[str, dict[User, Line]]:
    """Return a measure of each user by domain. It is computed once: each table and chart of a page asks for it."""
    earlier = recording.measured.get(measure)
    if earlier is not None:
        return earlier
    found: dict[str, dict[User, Line]] = defaultdict(dict)
    for (user, domain), track in recording.tracks.items():
        if measure.column in track.columns:
            line = line_of(track, measure, recording.times[user.host])
            if known(line):
                found[domain][user] = line
    recording.measured[measure] = dict(sorted(found.items()))
    return recording.measured[measure]


def series(recording: Recording, measure: Measure) -> dict[User, Line]:
    """Return a measure of each user, summed over its domains; no value if any of them has none.

    Domains of another resource have empty columns and do not count: an L3 domain has no energy.
    """
    if measure not in recording.summed:
        measured = domains(recording, measure)
        found: dict[User, Line] = {}
        for user, domain in recording.tracks:
            if domain in measured:
                line = measured[domain].get(user) or recording.empty(user.host)
                before = found.get(user)
                found[user] = line if before is None else array("d", map(float.__add__, before, line))
        recording.summed[measure] = {user: line for user, line in found.items() if known(line)}
    return recording.summed[measure]


def together(lines: Iterable[Line]) -> Line:
    """Return the sum of lines of a host at each time at which any of them has a value."""
    total = array("d")
    for line in lines:
        total = _added(total, line) if total else line
    return total


def _added(one: Line, other: Line) -> Line:
    """Return the sum of two lines. It is computed for each pod, so NaN is compared with itself: no call is faster."""
    pairs = zip(one, other, strict=True)
    return array("d", [b if a != a else a if b != b else a + b for a, b in pairs])  # noqa: PLR0124


def by_name(users: Mapping[User, Line]) -> dict[str, Line]:
    """Return the lines by name. A pod that was created again has the same name and another key: they are one line."""
    return _sums((user.name, line) for user, line in users.items())


def by_namespace(users: Mapping[User, Line]) -> dict[str, Line]:
    """Return the sums over each namespace; users without one keep their own name."""
    return _sums((user.namespace or user.name, line) for user, line in users.items())


def _sums(lines: Iterable[tuple[str, Line]]) -> dict[str, Line]:
    found: dict[str, list[Line]] = defaultdict(list)
    for name, line in lines:
        found[name].append(line)
    return {name: together(parts) for name, parts in found.items()}


def missing(recording: Recording) -> list[MissingValue]:
    """Return which values are missing in some rows, and why."""
    found: Counter[tuple[User, str, str]] = Counter()
    counts: Counter[User] = Counter()
    for (user, _), track in recording.tracks.items():
        counts[user] += len(track.at)
        for entry, number in track.missing.items():
            column, _, word = entry.partition(":")
            found[user, column, word] += number
    # After a step of the clock, samples can be left out (`order_of`), but not their marks.
    every = (MissingValue(*key, min(number, of), of) for key, number in found.items() if (of := counts[key[0]]))
    return sorted(every, key=lambda one: (-one.rows / one.of, one.user.name, one.column))


def line_of(track: Track, measure: Measure, times: Times) -> Line:
    """Return values, or rates at the end of each interval.

    A counter that decreased was restarted: no rate. Nor is there one where the clock was set back by an unknown time.
    """
    line = array("d", [nan]) * len(times.each)
    values = track.column(measure.column)
    if not measure.seconds:
        for place, value in zip(track.at, values, strict=True):
            line[place] = measure.factor * value
        return line
    counted = track.column(measure.seconds)
    samples = zip(track.at, values, counted, strict=True)
    for (earlier, before, start), (place, value, end) in pairwise(samples):
        if place <= earlier or not value >= before:  # also if one is NaN
            continue
        interval, seconds = times.between(earlier, place), end - start
        if seconds < 0:
            seconds = _since_restart(track.restarts.get((measure.seconds, place), 0.0), interval)
        if interval <= 0:
            continue
        if seconds < WHOLE * interval:
            rate = rate_of((value - before, seconds), interval)
            line[place] = nan if rate is None else measure.factor * rate
        else:  # also if one is NaN: counted all the time
            line[place] = measure.factor * (value - before) / interval
    return line


def _since_restart(seconds: float, interval: float) -> float:
    """Return the counted seconds up to the first sample of a new process, of which the recording has whole ones."""
    return interval if interval > 1 + _WHOLE_SECONDS and seconds > interval - _WHOLE_SECONDS else seconds
