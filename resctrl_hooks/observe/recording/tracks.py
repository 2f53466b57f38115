"""A recording in memory: its samples as columns of numbers, because a day of 300 pods has millions of rows."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from math import nan
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from resctrl_hooks.core.inventory.base import group_name
from resctrl_hooks.core.node.resctrl.counters import COUNTERS
from resctrl_hooks.observe.node.history.rows import (
    GROUP,
    L3_SIZE,
    PACKAGE,
    PACKAGE_ENERGY,
    POD,
    Row,
    column_of,
    counted_column,
    earlier_column,
)

from .times import Times, sorted_rows

if TYPE_CHECKING:
    Line = array[float]
    """A value for each sample of a host; NaN where there is none."""
else:
    Line = array  # Python 3.11 has no parameters for it
_NUMBERS: Final = frozenset(
    (*map(column_of, COUNTERS.values()), *map(counted_column, COUNTERS), PACKAGE_ENERGY, L3_SIZE)
)

_COUNTED: Final = {counted_column(counter): earlier_column(counter) for counter in COUNTERS}


class User(NamedTuple):
    """A user of a resource: its displayed name, and its namespace."""

    name: str
    namespace: str
    kind: str
    key: str
    host: str = ""


class Track:
    """The numbers of a user in a domain, in columns; ``at`` has their places among the times of the host.

    ``restarts`` has the counted seconds, known to a second, up to the first row of a new process, by column and place.
    """

    __slots__ = ("_last", "at", "columns", "missing", "restarts")

    def __init__(self) -> None:
        self.at = array("I")
        self.restarts: dict[tuple[str, int], float] = {}
        self._last: Row = {}
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
        last, self._last = self._last, row
        for name, earlier in _COUNTED.items():
            column = self.columns.get(name)
            if column is None or len(column) <= number or not number or column[number] >= column[number - 1]:
                continue
            known, added = last.get(earlier), row.get(earlier)
            if known is not None and added is not None:
                self.restarts[name, place] = column[number] + float(added) - column[number - 1] - float(known)

    def column(self, name: str) -> Line:
        """Return the values of a column, one for each row."""
        found = self.columns.get(name, array("d"))
        return found + array("d", [nan]) * (len(self.at) - len(found))

    def values(self, name: str) -> list[float]:
        """Return the values of a column without unknown ones."""
        return known(self.columns.get(name, ()))

    def move(self, places: Sequence[int | None]) -> None:
        """Give each row another place, and sort them; leave out those without one."""
        order = sorted_rows(self.at, places)
        self.columns = {name: array("d", map(self.column(name).__getitem__, order)) for name in self.columns}
        self.at = array("I", (places[self.at[one]] or 0 for one in order))
        self.restarts = {
            (name, new): seconds for (name, at), seconds in self.restarts.items() if (new := places[at]) is not None
        }


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
    return on_host(found) if several else found


def on_host(user: User) -> User:
    """Return a user whose names begin with those of its host."""
    return user._replace(
        name=f"{user.host}: {user.name}", namespace=f"{user.host}: {user.namespace}" if user.namespace else ""
    )
