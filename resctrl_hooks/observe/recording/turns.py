"""Time-sharing pods in a recording: the mean rate of each, and its interval from the spread of its turns."""

from resctrl_hooks.core.inventory.interval import Interval, interval_of
from resctrl_hooks.observe.node.history.rows import POD, Row

from .analysis import BANDWIDTH, Recording, User


def turn_rates(recording: Recording) -> dict[User, Interval]:
    """Return the memory traffic of each time-sharing pod over its domains; pods with too few turns are left out."""
    domains: dict[User, list[list[tuple[float, float]]]] = {}
    for (user, _), rows in recording.rows.items():
        if user.kind == POD:
            turns = _turns([row for _, row in rows])
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


def _turns(rows: list[Row]) -> list[tuple[float, float]]:
    """Return seconds and bytes of each turn: the difference between the ends of two runs of rows with a value."""
    found: list[tuple[float, float]] = []
    end: tuple[float, float] | None = None
    last: tuple[float, float] | None = None
    for row in [*rows, {}]:
        value, seconds = row.get(BANDWIDTH.column), row.get(BANDWIDTH.seconds)
        if value is not None and seconds is not None:
            last = float(seconds), float(value)
            end = end or last
        elif last is not None and end is not None:
            if last[0] > end[0] and last[1] >= end[1]:
                found.append((last[0] - end[0], last[1] - end[1]))
            end, last = last, None
    return found
