"""Analysis of a recording: rates over time by user, and missing values.

All results come from counted values; missing values are not interpolated.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Final, NamedTuple

from resctrl_hooks.core.inventory.base import group_name
from resctrl_hooks.core.node.resctrl.counters import counter_named
from resctrl_hooks.observe.inventory.columns import COLUMNS, MBM, Column
from resctrl_hooks.observe.inventory.rates import WHOLE, rate_of
from resctrl_hooks.observe.node.history.rows import (
    EVENTS,
    GROUP,
    LOST,
    MEMORY,
    PACKAGE,
    POD,
    SLOWED,
    Row,
    Value,
    column_of,
    counted_column,
)

OTHERS: Final = "all others"


class Measure(NamedTuple):
    """A plotted quantity: the column of its values in a recording, with their unit and scale in a chart.

    ``seconds`` is the column of the seconds for which it was counted; empty for a gauge.
    """

    title: str
    column: str
    seconds: str
    unit: str
    scale: float


def _measure(of: Column) -> Measure:
    seconds = counted_column(of.counter) if of.is_rate else ""
    return Measure(of.title, column_of(counter_named(of.counter)), seconds, *of.chart)


BANDWIDTH = _measure(MBM)
MEASURES = tuple(_measure(column) for column in sorted(COLUMNS, key=lambda one: not one.is_rate))
"""Rates first: bandwidth is what most readers look for."""


class User(NamedTuple):
    """A user of a resource: its displayed name, and its namespace."""

    name: str
    namespace: str
    kind: str
    key: str
    host: str = ""


Points = dict[float, float]
"""Values by time, in seconds since 1970."""


class MissingValue(NamedTuple):
    """Missing values of a user: the column, the kernel's word, and in how many of how many rows."""

    user: User
    column: str
    word: str
    rows: int
    of: int


@dataclass(frozen=True, slots=True)
class Times:
    """The times of a host's samples, in order: other hosts have others."""

    each: list[float]

    @property
    def usual(self) -> float:
        """The usual seconds between two samples."""
        steps = sorted(after - before for before, after in pairwise(self.each))
        return steps[len(steps) // 2] if steps else 0.0

    @property
    def before(self) -> dict[float, float]:
        """The time of the sample before each sample but the first."""
        return dict(zip(self.each[1:], self.each, strict=False))

    @property
    def gaps(self) -> list[tuple[float, float]]:
        """Gaps of more than twice the usual interval."""
        return [(before, after) for before, after in pairwise(self.each) if after - before > 2 * self.usual]


@dataclass(slots=True)
class Recording:
    """A recording as read from its file: its rows by user and domain, in order of time.

    ``times`` are by host. ``memory`` are the rows of memory domains, ``events`` those of the guard and of changed
    schemata, ``slowed`` those of judged pods, ``lost`` those of lost time.
    """

    times: dict[str, Times]
    rows: dict[tuple[User, str], list[tuple[float, Row]]] = field(default_factory=dict)
    memory: list[tuple[float, Row]] = field(default_factory=list)
    events: list[tuple[float, Row]] = field(default_factory=list)
    slowed: list[tuple[float, Row]] = field(default_factory=list)
    lost: list[tuple[float, Row]] = field(default_factory=list)
    measured: dict[Measure, dict[str, dict[User, Points]]] = field(default_factory=dict, repr=False, compare=False)
    """The results of `domains`, which are computed once."""

    @property
    def users(self) -> list[User]:
        """All users in it."""
        return list(dict.fromkeys(user for user, _ in self.rows))


def recording_of(rows: Iterable[Row]) -> Recording:
    """Return the rows, sorted by user and domain. With several hosts, names of users and domains begin with theirs."""
    rows = list(rows)
    times: dict[str, set[float]] = defaultdict(set)
    for row in rows:
        times[_host(row)].add(_seconds(row))
    several = len(times) > 1
    found = Recording({host: Times(sorted(times[host])) for host in sorted(times)})
    others = {MEMORY: found.memory, SLOWED: found.slowed, LOST: found.lost, **dict.fromkeys(EVENTS, found.events)}
    for row in map(_with_host, rows) if several else rows:
        other = others.get(str(row["kind"]))
        if other is not None:
            other.append((_seconds(row), row))
            continue
        user = user_of(row, several=several)
        found.rows.setdefault((user, str(row["domain"])), []).append((_seconds(row), row))
    return found


def domains(recording: Recording, measure: Measure) -> dict[str, dict[User, Points]]:
    """Return a measure of each user by domain. It is computed once: each table and chart of a page asks for it."""
    known = recording.measured.get(measure)
    if known is not None:
        return known
    found: dict[str, dict[User, Points]] = defaultdict(dict)
    for (user, domain), rows in recording.rows.items():
        points = points_of(rows, measure) if any(measure.column in row for _, row in rows) else {}
        if points:
            found[domain][user] = points
    recording.measured[measure] = dict(sorted(found.items()))
    return recording.measured[measure]


def series(recording: Recording, measure: Measure) -> dict[User, Points]:
    """Return a measure of each user, summed over its domains; no value if any of them has none.

    Domains of another resource have empty columns and do not count: an L3 domain has no energy.
    """
    parts: dict[User, list[Points]] = defaultdict(list)
    measured = domains(recording, measure)
    for user, domain in recording.rows:
        if domain in measured:
            parts[user].append(measured[domain].get(user, {}))
    found: dict[User, Points] = {}
    for user, of_domains in parts.items():
        moments = sorted(set.intersection(*map(set, of_domains)))
        if moments:
            found[user] = {moment: sum(points[moment] for points in of_domains) for moment in moments}
    return found


def together(lines: Iterable[Points]) -> Points:
    """Return the sum of the lines at each time at which any of them has a value."""
    found: Points = defaultdict(float)
    for points in lines:
        for moment, value in points.items():
            found[moment] += value
    return dict(found)


def by_name(users: Mapping[User, Points]) -> dict[str, Points]:
    """Return the lines by name. A pod that was created again has the same name and another key: they are one line."""
    return _sums((user.name, points) for user, points in users.items())


def by_namespace(users: Mapping[User, Points]) -> dict[str, Points]:
    """Return the sums over each namespace; users without one keep their own name."""
    return _sums((user.namespace or user.name, points) for user, points in users.items())


def _sums(lines: Iterable[tuple[str, Points]]) -> dict[str, Points]:
    found: dict[str, list[Points]] = defaultdict(list)
    for name, points in lines:
        found[name].append(points)
    return {name: together(parts) for name, parts in found.items()}


def largest(lines: dict[str, Points], most: int) -> dict[str, Points]:
    """Return the lines with the largest sums over time, the others as one."""
    order = sorted(lines, key=lambda name: -sum(lines[name].values()))
    rest = together(lines[name] for name in order[most:])
    return {name: lines[name] for name in order[:most]} | ({OTHERS: rest} if rest else {})


def missing(recording: Recording) -> list[MissingValue]:
    """Return which values are missing in some rows, and why."""
    found: Counter[tuple[User, str, str]] = Counter()
    counts: Counter[User] = Counter()
    for (user, _), rows in recording.rows.items():
        counts[user] += len(rows)
        for _, row in rows:
            for entry in str(row.get("missing") or "").split():
                column, _, word = entry.partition(":")
                found[user, column, word] += 1
    every = (MissingValue(*key, number, counts[key[0]]) for key, number in found.items())
    return sorted(every, key=lambda one: (-one.rows / one.of, one.user.name, one.column))


def points_of(rows: Sequence[tuple[float, Row]], measure: Measure) -> Points:
    """Return values, or rates at the end of each interval. A counter that decreased was restarted: no rate."""
    if not measure.seconds:
        return {when: float(value) for when, row in rows if (value := row.get(measure.column)) is not None}
    found: Points = {}
    for (earlier, old), (when, new) in pairwise(rows):
        before, value = old.get(measure.column), new.get(measure.column)
        if before is None or value is None or when <= earlier or float(value) < float(before):
            continue
        seconds = _counted(old, new, measure.seconds, when - earlier)
        rate = rate_of((float(value) - float(before), seconds), when - earlier)
        if rate is not None:
            found[when] = rate
    return found


def _counted(before: Row, now: Row, column: str, interval: float) -> float:
    """Return for how long a user was counted in an interval: all of it unless the recording has another value."""
    start, end = before.get(column), now.get(column)
    if start is None or end is None:
        return interval
    counted = float(end) - float(start)
    return interval if counted >= WHOLE * interval else counted


def _with_host(row: Row) -> Row:
    """Return a row whose domain has its host's name, and the L3 domains of a memory domain too."""
    host = _host(row)
    found: dict[str, Value] = {**row, "domain": f"{host}/{row['domain']}" if row["domain"] else ""}
    if row["kind"] == MEMORY:
        found["key"] = " ".join(f"{host}/{name}" for name in str(row.get("key") or "").split())
    return found


def _host(row: Row) -> str:
    return str(row.get("host") or "")


def _seconds(row: Row) -> float:
    return datetime.fromisoformat(str(row["time"])).timestamp()


def user_of(row: Row, *, several: bool) -> User:
    """Return the user of a row; with ``several`` hosts, its names begin with the host's."""
    kind, key = str(row["kind"]), str(row.get("key") or "")
    namespace, rdt_class = str(row.get("namespace") or ""), str(row.get("rdt_class") or "")
    if kind == POD:
        pod = str(row.get("pod") or key)
        name = f"{namespace}/{pod}" if namespace else pod
    elif kind == GROUP:
        name = group_name(rdt_class, key)
    elif kind == PACKAGE:
        name = "(package)"
    else:
        name = f"(ungrouped{f', class {rdt_class}' if rdt_class else ''})"
    host = f"{_host(row)}: " if several else ""
    return User(host + name, host + namespace if namespace else "", kind, key, _host(row))
