"""Use between two snapshots: a line per pod, per foreign group, for ungrouped tasks, and the total."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from resctrl_hooks.core.inventory.amounts import displayed
from resctrl_hooks.core.inventory.base import group_name
from resctrl_hooks.core.inventory.coverage import is_partial
from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.resctrl.counters import AVAILABLE, Reading
from resctrl_hooks.observe.node.snapshot.growth import of_class, total_of
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot

from .columns import BY_KEY, COLUMNS, CPU, GAUGES, MBM, RATES
from .rates import FOREIGN, POD, TOTAL, UNGROUPED, Line, added, of_foreign, of_pod, of_values
from .slowdown import SORT as SLOW
from .slowdown import as_displayed

USERS = (POD, FOREIGN)
"""The kinds of lines that have a user of their own."""
FOREIGN_GROUPS = "(foreign groups)"
_NO_GROUP = "(no group)"
NO_NAMESPACE = "(no namespace)"

GROUPINGS: dict[str, Callable[[Line], str]] = {
    "pod": lambda line: line.name,
    "namespace": lambda line: line.namespace or NO_NAMESPACE,
    "class": lambda line: _NO_GROUP if line.rdt_class is None else line.rdt_class or "/",
}


class Users:
    """The names of keys, including Podman's, and their classes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._names = PodNames(context)

    def learn(self, keys: Iterable[str]) -> None:
        """Update the names for the existing keys."""
        self._names.learn(keys)

    def name(self, key: str) -> str:
        """Return the displayed name of a key that was learnt."""
        return self._names.of(key).whole

    def line(self, key: str, used: Line, readings: list[Reading]) -> Line:
        """Return the line of a pod."""
        name = self._names.of(key)
        record = self._context.ledger.read_pod(key) or {}
        groups = record.get("groups") or {}
        return replace(
            used,
            name=name.whole,
            key=key,
            namespace=name.namespace,
            pod=name.pod,
            rdt_class=next(iter(groups)) if len(groups) == 1 else None,
            partial=any(is_partial(reading, record) for reading in readings),
            uncounted=int(is_uncounted(readings)),
        )


def is_uncounted(readings: Iterable[Reading]) -> bool:
    """Return whether a pod's memory traffic, or a part of it, is not counted now."""
    return any(reading.counter.name == MBM.counter and reading.state != AVAILABLE for reading in readings)


def usage(before: Snapshot, now: Snapshot, users: Users | None = None, domain: str = "") -> list[Line]:
    """Return the unsorted lines: pods, foreign groups, ungrouped tasks, and last the node's total.

    Without ``users``, pods have their keys as names, and no record is read: enough for sums. With ``domain``, such as
    ``mon_L3_01``, the lines are those of a node that has no other.
    """
    seconds = now.when - before.when
    if users is not None:
        users.learn(now.pods)
    lines = [_pod(before, now, key, users, domain) for key in now.pods]
    for rdt_class, name in now.foreign:
        found = of_foreign(before, now, rdt_class, name, domain)
        lines.append(replace(found, kind=FOREIGN, name=group_name(rdt_class, name)))
    ungrouped = []
    for rdt_class, of in now.classes.items():
        was = before.classes.get(rdt_class)
        values = was.ungrouped if was is not None and was.identity == of.identity else None
        ungrouped.append(of_values(values, of.ungrouped, now, seconds, is_new=False, domain=domain))
    lines.append(added(ungrouped, UNGROUPED, "(ungrouped)"))
    whole = total(lines, now, seconds, domain)
    pods = [cpus for line in lines if line.kind == POD and (cpus := line[CPU]) is not None]
    if pods and now.busy is not None and before.busy is not None and not domain:
        busy = whole.values[CPU.key] = max(now.busy - before.busy, 0.0) / seconds
        lines[-1].values[CPU.key] = max(busy - sum(pods), 0.0)
    return [*lines, whole]


def _pod(before: Snapshot, now: Snapshot, key: str, users: Users | None, domain: str) -> Line:
    """Return the line of a pod, with its share of each class that it has or had a group in."""
    readings = [one for one in now.pods[key] if not domain or one.domain.folder.partition("/")[0] == domain]

    def used(rdt_class: str | None = None) -> Line:
        found = of_pod(before, now, key, rdt_class, domain)
        return users.line(key, found, readings) if users else replace(found, name=key, key=key)

    line = used()
    classes = sorted(before.held.get(key, set()) | now.held.get(key, set()))
    if len(classes) == 1:
        line.rdt_class = classes[0]
    elif classes:
        line.rdt_class = None
        line.shares = [
            replace(used(one), rdt_class=one, uncounted=int(is_uncounted(of_class(readings, one)))) for one in classes
        ]
    return line


def total(lines: list[Line], now: Snapshot, seconds: float, domain: str = "") -> Line:
    """Return the total of the node, or of one domain, from the lines of all users; None if any part is unknown."""
    sums: dict[str, float | None] = {}
    parts = [one for one in lines if one.kind != TOTAL]
    pods = [one for one in parts if one.kind == POD]
    for column in COLUMNS:
        if column.of_cgroup and pods and not domain:
            sums[column.key] = column.joined(one[column] for one in pods)
    for column in RATES:
        if column.of_cgroup:
            continue
        place = column.counter, domain
        moved = [one.by_domain[place] for one in parts if place in one.by_domain]
        if not domain:
            moved = [one.moved[column.counter] for one in parts if column.counter in one.moved]
        amount = total_of(moved) if moved else None
        sums[column.key] = amount / seconds if amount is not None and seconds > 0 else None
    for column in GAUGES:
        if column.of_cgroup:
            continue
        slots = {path: slot for path, slot in now.slots.items() if slot.counter.name == column.counter}
        values = [
            value if isinstance(value, (int, float)) else None
            for found in now.classes.values()
            for path, value in found.whole.items()
            if path in slots and slots[path].domain.node is None and domain in ("", slots[path].domain.folder)
        ]
        sums[column.key] = total_of(values) if values else None
    return Line(TOTAL, "TOTAL", "", sums, members=len(parts), uncounted=sum(one.uncounted for one in parts))


def with_total(lines: list[Line]) -> list[Line]:
    """Return the lines followed by their sum: a total is that of the lines above it."""
    users = [line for line in lines if line.kind != TOTAL]
    return [*users, added(users, TOTAL, "TOTAL")]


def grouped(lines: list[Line], by: str) -> list[Line]:
    """Return the pods' sums by ``namespace`` or ``class``, and one line for all foreign groups.

    By ``pod`` the lines are returned unchanged. A pod in several classes counts in each with its share.
    """
    if by == "pod":
        return lines
    foreign = [line for line in lines if line.kind == FOREIGN]
    parts: dict[str, list[Line]] = {}
    for line in lines:
        if line.kind == POD:
            for one in (by == "class" and line.shares) or [line]:
                parts.setdefault(GROUPINGS[by](one), []).append(one)
    sums = [
        added(
            of,
            POD,
            name,
            key=name,
            namespace="" if by == "class" else of[0].namespace,
            slowdown=max((line.slowdown for line in of if line.slowdown is not None), default=None),
        )
        for name, of in parts.items()
    ]
    if foreign:
        sums.append(added(foreign, FOREIGN, FOREIGN_GROUPS))
    return [*sums, *(line for line in lines if line.kind not in USERS)]


def ordered(lines: list[Line], sort: str, *, reverse: bool = False, exact: bool = False) -> list[Line]:
    """Return pods and foreign groups by their largest use, or by name; ungrouped tasks and the total stay last.

    Lines are in the order of the displayed values, or with ``exact`` of the values themselves. Lines of the same value
    are ordered by name, so that they keep their places between two samples.
    """
    users = sorted((line for line in lines if line.kind in USERS), key=lambda line: line.name)
    rest = [line for line in lines if line.kind not in USERS]
    if sort == "name":
        return [*(users[::-1] if reverse else users), *rest]

    def value(line: Line) -> float:
        known = line.slowdown if sort == SLOW else line[BY_KEY[sort]]
        if known is None:
            return -1.0
        if exact:
            return known
        return as_displayed(known) if sort == SLOW else displayed(known, binary=not BY_KEY[sort].is_rate)

    return [*sorted(users, key=value, reverse=not reverse), *rest]
