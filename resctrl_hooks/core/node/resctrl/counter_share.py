"""Assignment of the assignable counters: a decision about all groups at once, and its execution with totals kept.

`share` decides without effects. `rearrange` executes: it reads a counter before releasing it, so that the key's totals
include everything, and afterwards, so that they stop.
"""

import time

from .assignment import Assignments
from .group import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .assignment import States
    from .monitor import Monitor

LOCK = "assignments"

OURS = "ours"
UNGROUPED = "ungrouped"
FOREIGN = "foreign"


class Holder:
    """A group that has counters or could have some.

    Args:
        folder: the group's.
        states: its counters, as `Assignments.of` returns them.
        kind: ``ours``, the group of a key; ``ungrouped``, the own group of a class (also the root's), which counts
            ungrouped tasks; ``foreign``, a foreign group, which is left unchanged.
        key: the key of a group of ours.
        priority: the priority of a group of ours; the highest is served first.
        turn: its place among equals in a round of turns; the lowest is served first. None: a holder keeps its counter.
    """

    __slots__ = ("folder", "key", "kind", "priority", "states", "turn")

    def __init__(
        self,
        folder: str,
        states: "States",
        kind: str,
        key: str = "",
        priority: int = 0,
        turn: "tuple[int, float] | None" = None,
    ) -> None:
        self.folder = folder
        self.states = states
        self.kind = kind
        self.key = key
        self.priority = priority
        self.turn = turn

    def has(self, event: str, domain: int) -> bool:
        """Return whether an event is counted in a domain."""
        return self.states.get(event, {}).get(domain, False)


class Change:
    """A counter to release from a holder, or to assign to it."""

    __slots__ = ("domain", "event", "give", "holder")

    def __init__(self, holder: Holder, event: str, domain: int, *, give: bool) -> None:
        self.holder = holder
        self.event = event
        self.domain = domain
        self.give = give


def share(
    holders: "Sequence[Holder]", capacity: "dict[int, int]", events: "Sequence[str]", *, keep_ungrouped: bool = False
) -> "list[Change]":
    """Return the changes to the desired assignment, releases first.

    In each domain every group of ours gets a counter for the first event, then every group one for the second. The
    highest priority is served first. Among equals, holders keep their counters; in a round of turns (`Holder.turn`)
    its order applies, otherwise the order of ``holders``. The remaining counters go to the classes' own groups, or
    with ``keep_ungrouped`` the classes' own groups are served first. Foreign groups keep their counters.
    """
    ours = [holder for holder in holders if holder.kind == OURS]
    ungrouped = [holder for holder in holders if holder.kind == UNGROUPED]
    foreign = [holder for holder in holders if holder.kind == FOREIGN]
    takes: "list[Change]" = []
    gives: "list[Change]" = []
    for domain, number in capacity.items():
        left = number - sum(one.has(event, domain) for one in foreign for event in one.states)
        desired: "set[tuple[str, str]]" = set()
        for group in (ungrouped, ours) if keep_ungrouped else (ours, ungrouped):
            for event in events:
                for holder in sorted(group, key=lambda one: _rank(one, event, domain)):  # used at once
                    if left > 0:
                        desired.add((holder.folder, event))
                        left -= 1
        for holder in (*ours, *ungrouped):
            for event in {*holder.states, *events}:
                assign = (holder.folder, event) in desired
                if assign != holder.has(event, domain):
                    (gives if assign else takes).append(Change(holder, event, domain, give=assign))
    return takes + gives


def _rank(holder: Holder, event: str, domain: int) -> "tuple[int, tuple[int, float]]":
    place = (0 if holder.has(event, domain) else 1, 0.0) if holder.turn is None else holder.turn
    return (-holder.priority, place)


def holders_of(monitor: "Monitor") -> "list[Holder]":
    """Return every group of the mount with its counters, ours in the order of their keys' first records.

    Raises:
        NotMountedError, LedgerError: see these types.
    """
    assignments = Assignments(monitor.resctrl)
    resctrl = monitor.resctrl
    every = {key: monitor.ledger.read_pod(key) or {} for key in monitor.ledger.keys()}  # noqa: SIM118
    records = {key: record for key, record in every.items() if record.get("boot") == monitor.boot}
    found: "list[Holder]" = []
    for rdt_class in ["", *sorted(resctrl.classes())]:
        folder = resctrl.class_folder(rdt_class)
        found.append(Holder(folder, assignments.of(folder), UNGROUPED))
        keys = {name_of(record, rdt_class, monitor.group_prefix + key): key for key, record in records.items()}
        for name in resctrl.groups(rdt_class):
            key = keys.get(name, "")
            folder = resctrl.group_folder(rdt_class, name)
            if key:
                priority = records[key].get("claim", {}).get("priority", 0)
                found.append(Holder(folder, assignments.of(folder), OURS, key, priority))
            else:
                found.append(Holder(folder, assignments.of(folder), FOREIGN))
    found.sort(key=lambda holder: (float(records.get(holder.key, {}).get("born", 0.0)), holder.key))
    return found


def rearrange(monitor: "Monitor", changes: "Sequence[Change]") -> "list[Change]":
    """Apply the changes, keep the totals of the affected keys, and return the successful changes.

    If another group got a counter meanwhile, the next `share` considers it.

    Raises:
        LedgerError, NotMountedError: the totals cannot be kept; nothing is changed then.
    """
    from ..errors import ResctrlError
    from .counter_totals import read_counters

    keys = sorted({change.holder.key for change in changes if change.holder.key})
    assignments = Assignments(monitor.resctrl)
    if keys:
        read_counters(monitor, keys)
    done = []
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    for change in changes:
        try:
            assignments.set(change.holder.folder, change.event, change.domain, counted=change.give)
        except ResctrlError:
            continue
        change.holder.states.setdefault(change.event, {})[change.domain] = change.give
        done.append(change)
    if keys:
        read_counters(monitor, keys, began=began)
    return done
