"""Assignment of bandwidth counters to pods on processors with fewer counters than RMIDs, by the settings.

The kernel gives each new group the remaining counters, so that one pod may have two and the next none. This module
gives every pod its first event before any pod its second.
"""

from ..errors import LedgerError, LockTimeoutError, ResctrlError
from ..flags import set_flag
from ..log import INFO, WARNING
from ..resctrl.assignment import Assignments
from ..resctrl.counter_share import LOCK, OURS, holders_of, rearrange, share
from .released_counters import Released

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..context import Context
    from ..resctrl.counter_share import Change

KEEP = "keep"
SHORT = "short-of-counters"
"""The flag file in the state directory for a pod without a counter for its first event."""


class Balance:
    """The changes, and by key the domains of a resource in which its first event has no counter afterwards."""

    __slots__ = ("changes", "event", "resource", "uncounted")

    def __init__(self, changes: "list[Change]", resource: str, event: str, uncounted: "dict[str, list[int]]") -> None:
        self.changes = changes
        self.resource = resource
        self.event = event
        self.uncounted = uncounted


def events_of(context: "Context", known: "Iterable[str]") -> "tuple[str, ...]":
    """Return the configured events that the kernel counts, the most important first; all ``known`` ones if none is."""
    known = tuple(dict.fromkeys(known))
    configured = tuple(context.settings.monitoring["events"])
    return tuple(event for event in configured if event in known) or known or configured


def balance(context: "Context", *, dry_run: bool = False, in_turns: bool = False) -> "Balance | None":
    """Assign the counters; return None if the kernel assigns none. Equal pods may take turns.

    Raises:
        HookError: resctrl or the state directory is unusable.
    """
    monitor = context.monitor
    assignments = Assignments(monitor.resctrl)
    if not assignments.enabled():
        return None
    keep = context.settings.monitoring["classCounters"] == KEEP
    with context.ledger.lock_named(LOCK, monitor.patience):
        capacity = assignments.capacity()
        holders = holders_of(monitor)
        events = events_of(context, (event for holder in holders for event in holder.states))
        if in_turns and not dry_run and context.settings.monitoring.get("share") is not None:
            from .counter_turns import set_turns

            set_turns(monitor, context.settings, holders, events[0])
        changes = share(holders, capacity, events, keep_ungrouped=keep)
        if not dry_run:
            released = Released(monitor)
            released.extend(changes)
            changes = rearrange(monitor, changes)
            released.reduce(changes)
        uncounted = {}
        for holder in holders:
            missing = [domain for domain in capacity if not holder.has(events[0], domain)]
            if missing and holder.kind == OURS:
                uncounted[holder.key] = missing
        if not dry_run:
            set_flag(context.ledger, SHORT, on=bool(uncounted))
    return Balance(changes, assignments.resource, events[0], uncounted)


def ensure_counted(context: "Context", key: str) -> None:
    """Assign a counter to a pod whose group got none from the kernel; log if none is free.

    An error does not fail the pod's monitoring: reconcile tries again.
    """
    try:
        found = balance(context)
    except (LedgerError, LockTimeoutError, ResctrlError) as error:
        context.log(
            WARNING,
            f"cannot assign a bandwidth counter to {key}: {error}",
            key=key,
            reason=error.reason,
        )
        return
    if found is None:
        return
    if key not in found.uncounted:
        context.log(INFO, f"{key} got a counter for {found.event} from groups of lower priority", key=key)
        return
    domains = ", ".join(str(domain) for domain in found.uncounted[key])
    context.log(
        WARNING,
        f"all bandwidth counters are in use: {found.event} of {key} is not counted in {found.resource} domain "
        f"{domains}; reconcile assigns one when it becomes free",
        key=key,
        reason="no-counters",
    )
