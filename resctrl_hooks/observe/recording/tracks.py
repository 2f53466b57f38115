"""A recording in memory: its samples as columns of numbers, because a day of 300 pods has millions of rows."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise, repeat
from math import nan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resctrl_hooks.core.inventory.base import group_name
from resctrl_hooks.core.node.resctrl.counters import COUNTERS
from resctrl_hooks.observe.node.history.rows import (
    EVENTS,
    GROUP,
    L3_SIZE,
    LOST,
    MEMORY,
    PACKAGE,
    PACKAGE_ENERGY,
    POD,
    RATIO,
    SLOWED,
    Row,
    Value,
    column_of,
    counted_column,
)
from resctrl_hooks.observe.node.slowdown.constants import SLOWED as SLOWED_FROM

if TYPE_CHECKING:
    Line = array[float]
    """A value for each sample of a host; NaN where there is none."""
else:
    Line = array  # Python 3.11 has no parameters for it
_NUMBERS: Final = frozenset(
    (*map(column_of, COUNTERS.values()), *map(counted_column, COUNTERS), PACKAGE_ENERGY, L3_SIZE)
)


class User(NamedTuple):
    """A user of a resource: its displayed name, and its namespace."""

    name: str
    namespace: str
    kind: str
    key: str
    host: str = ""


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
    def lengths(self) -> list[float]:
        """The seconds from the sample before each sample to it; 0 for the first."""
        return [0.0, *(after - before for before, after in pairwise(self.each))][: len(self.each)]

    @property
    def gaps(self) -> list[tuple[float, float]]:
        """Gaps of more than twice the usual interval."""
        usual = self.usual
        return [(before, after) for before, after in pairwise(self.each) if after - before > 2 * usual]


class Track:
    """The numbers of a user in a domain, in columns; ``at`` has their places among the times of the host."""

    __slots__ = ("at", "columns", "missing")

    def __init__(self) -> None:
        self.at = array("I")
        self.columns: dict[str, Line] = {}
        self.missing: Counter[str] = Counter()

    def add(self, place: int, row: Row) -> None:
        """Add a row."""
        number = len(self.at)
        self.at.append(place)
        for name, value in row.items():
            if value is not None and not isinstance(value, str) and name in _NUMBERS:
                column = self.columns.get(name)
                if column is None:
                    column = self.columns[name] = array("d")
                if len(column) < number:
                    column.extend(repeat(nan, number - len(column)))
                column.append(value)
        if row.get("missing"):
            self.missing.update(str(row["missing"]).split())

    def column(self, name: str) -> Line:
        """Return the values of a column, one for each row."""
        found = self.columns.get(name, array("d"))
        return found + array("d", [nan]) * (len(self.at) - len(found))

    def values(self, name: str) -> list[float]:
        """Return the values of a column without unknown ones."""
        return known(self.columns.get(name, ()))

    def move(self, places: list[int]) -> None:
        """Give each row another place, and sort them."""
        order = sorted(range(len(self.at)), key=lambda one: places[self.at[one]])
        self.columns = {name: array("d", map(self.column(name).__getitem__, order)) for name in self.columns}
        self.at = array("I", (places[self.at[one]] for one in order))


class Why(NamedTuple):
    """What a sample has about a slowed pod: the domain, its causes, and the keys of the pods that cause it."""

    domain: str
    causes: tuple[str, ...]
    culprits: tuple[str, ...]


@dataclass(slots=True)
class Verdicts:
    """The ratios of a judged pod at the places ``at``, and why by place for those of a slowed one."""

    at: "array[int]" = field(default_factory=lambda: array("I"))
    ratios: Line = field(default_factory=lambda: array("d"))
    why: dict[int, Why] = field(default_factory=dict)


@dataclass(slots=True)
class Recording:
    """A recording as read from its file.

    ``times`` are by host, ``tracks`` by user and domain, ``slowed`` by judged pod. ``memory`` are the rows of memory
    domains, ``events`` those of the guard, of changed schemata and of limits, ``lost`` those of lost time.
    """

    times: dict[str, Times]
    tracks: dict[tuple[User, str], Track] = field(default_factory=dict)
    memory: list[tuple[float, Row]] = field(default_factory=list)
    events: list[tuple[float, Row]] = field(default_factory=list)
    lost: list[tuple[float, Row]] = field(default_factory=list)
    slowed: dict[User, Verdicts] = field(default_factory=dict)
    measured: dict[Any, dict[str, dict[User, Line]]] = field(default_factory=dict, repr=False, compare=False)
    """The results of `analysis.domains`, which are computed once."""
    summed: dict[Any, dict[User, Line]] = field(default_factory=dict, repr=False, compare=False)
    """Those of `analysis.series`."""

    @property
    def users(self) -> list[User]:
        """All users in it."""
        return list(dict.fromkeys(user for user, _ in self.tracks))

    def empty(self, host: str) -> Line:
        """Return a line of a host without a value."""
        return array("d", [nan]) * len(self.times[host].each)


def known(line: Iterable[float]) -> list[float]:
    """Return the values of a line."""
    return [value for value in line if value == value]  # noqa: PLR0124  # NaN is not equal to itself


class _Reader:
    """The rows read so far, with names as if there were one host."""

    def __init__(self) -> None:
        self.places: dict[str, dict[float, int]] = defaultdict(dict)
        self.tracks: dict[tuple[User, str], Track] = {}
        self.by_labels: dict[tuple[object, ...], Track] = {}
        self.slowed: dict[User, Verdicts] = {}
        self.others: dict[str, list[tuple[float, Row]]] = {kind: [] for kind in (MEMORY, LOST, *EVENTS)}
        self._texts: dict[object, float] = {}

    def add(self, row: Row) -> None:
        get = row.get
        text, kind, host = row["time"], row["kind"], get("host") or ""
        when = self._texts.get(text)
        if when is None:
            when = self._texts[text] = datetime.fromisoformat(str(text)).timestamp()
        of = self.places[str(host)]
        place = of.setdefault(when, len(of))
        other = self.others.get(str(kind))
        if other is not None:
            other.append((when, row))
        elif kind == SLOWED:
            self._judge(place, row)
        else:
            labels = (host, kind, get("key"), row["domain"], get("rdt_class"), get("namespace"), get("pod"))
            track = self.by_labels.get(labels)
            if track is None:
                track = self.tracks.setdefault((user_of(row, several=False), str(row["domain"])), Track())
                self.by_labels[labels] = track
            track.add(place, row)

    def _judge(self, place: int, row: Row) -> None:
        if (ratio := row.get(RATIO)) is None:
            return
        of = self.slowed.setdefault(user_of({**row, "kind": POD}, several=False), Verdicts())
        of.at.append(place)
        of.ratios.append(float(ratio))
        if float(ratio) >= SLOWED_FROM:
            causes = filter(None, str(row.get("event") or "").split(", "))
            of.why[place] = Why(str(row["domain"]), tuple(causes), tuple(str(row.get("culprits") or "").split()))


def recording_of(rows: Iterable[Row]) -> Recording:
    """Return the rows as a recording. With several hosts, names of users and domains begin with theirs."""
    found = _Reader()
    for row in rows:
        found.add(row)
    hosts = sorted(found.places)
    several = len(hosts) > 1
    for host in hosts:
        _sort(found, host)
    named = {user: _on_host(user) if several else user for user, _ in found.tracks}
    others = {
        kind: sorted(((when, _with_host(row) if several else row) for when, row in of), key=lambda one: one[0])
        for kind, of in found.others.items()
    }
    return Recording(
        {host: Times(sorted(found.places[host])) for host in hosts},
        {(named[user], f"{user.host}/{at}" if several and at else at): of for (user, at), of in found.tracks.items()},
        others[MEMORY],
        sorted((one for kind in EVENTS for one in others[kind]), key=lambda one: one[0]),
        others[LOST],
        {_on_host(user) if several else user: of for user, of in found.slowed.items()},
    )


def _sort(found: _Reader, host: str) -> None:
    """Order the samples of a host whose rows were not in order of time."""
    of = found.places[host]
    times = sorted(of)
    if times == [*of]:
        return
    places = [0] * len(of)
    for place, when in enumerate(times):
        places[of[when]] = place
    for (user, _), track in found.tracks.items():
        if user.host == host:
            track.move(places)
    for user, verdicts in found.slowed.items():
        if user.host == host:
            order = sorted(range(len(verdicts.at)), key=lambda one: places[verdicts.at[one]])  # used at once
            verdicts.ratios = array("d", map(verdicts.ratios.__getitem__, order))
            verdicts.at = array("I", (places[verdicts.at[one]] for one in order))
            verdicts.why = {places[old]: why for old, why in verdicts.why.items()}


def _on_host(user: User) -> User:
    return user._replace(
        name=f"{user.host}: {user.name}", namespace=f"{user.host}: {user.namespace}" if user.namespace else ""
    )


def _with_host(row: Row) -> Row:
    """Return a row whose domain has its host's name, and the L3 domains of a memory domain too."""
    host = str(row.get("host") or "")
    found: dict[str, Value] = {**row, "domain": f"{host}/{row['domain']}" if row["domain"] else ""}
    if row["kind"] == MEMORY:
        found["key"] = " ".join(f"{host}/{name}" for name in str(row.get("key") or "").split())
    return found


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
    found = User(name, namespace, kind, key, str(row.get("host") or ""))
    return _on_host(found) if several else found
