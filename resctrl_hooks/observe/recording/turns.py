"""Time-sharing pods in a recording: the mean rate of each, and its interval from the spread of its turns."""

from math import isnan, nan

from resctrl_hooks.core.inventory.interval import Interval, interval_of
from resctrl_hooks.observe.node.history.rows import POD

from .analysis import BANDWIDTH
from .tracks import Recording, Track, User, known


def turn_rates(recording: Recording) -> dict[User, Interval]:
    """Return the memory traffic of each time-sharing pod over its domains; pods with too few turns are left out."""
    domains: dict[User, list[list[tuple[float, float]]]] = {}
    for (user, _), track in recording.tracks.items():
        if user.kind == POD:
            turns = _turns(track)
            if len(turns) > 1:
                domains.setdefault(user, []).append(turns)
    found = {}
    for user, parts in domains.items():
        if len({len(turns) for turns in parts}) == 1:
            together = [
                (max(time for time, _ in turn), sum(moved for _, moved in turn)) for turn in zip(*parts, strict=True)
            ]
            interval = interval_of(together)
            if interval is not None:
                found[user] = interval
    return found


def _turns(track: Track) -> list[tuple[float, float]]:
    """Return seconds and bytes of each turn: the difference between the ends of two runs of rows with a value."""
    values, counted = track.column(BANDWIDTH.column), track.column(BANDWIDTH.seconds)
    if len(known(values)) == len(values):
        return []  # counted all the time
    found: list[tuple[float, float]] = []
    end: tuple[float, float] | None = None
    last: tuple[float, float] | None = None
    for seconds, value in [*zip(counted, values, strict=True), (nan, nan)]:
        if not isnan(seconds) and not isnan(value):
            last = seconds, value
            end = end or last
        elif last is not None and end is not None:
            if last[0] > end[0] and last[1] >= end[1]:
                found.append((last[0] - end[0], last[1] - end[1]))
            end, last = last, None
    return found
