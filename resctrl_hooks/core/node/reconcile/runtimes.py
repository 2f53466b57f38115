"""Container runtimes come first: their groups are counted, and pods' groups give way to the next ones."""

from ..ledger import RUNTIMES, WAITING
from ..log import INFO
from ..resctrl.counter_totals import read_counters
from ..resctrl.group import SHARED
from ..resctrl.rmids import free_rmids, groups_by_class, rmids_of_each_class
from ..sharing.claims import begin_to_wait, holders
from ..sharing.decision import Claim, yielding
from ..sharing.handover import give_up, possible_givers
from ..sharing.runtimes import note, reserved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..container.running import Running
    from ..context import Context
    from ..resctrl.filesystem import Resctrl
    from .report import Report

_ALL = 1 << 30  # above every priority


def put_runtimes_first(context: "Context", containers: "Sequence[Running]", report: "Report") -> None:
    """Count the groups of runtimes, and free as many RMIDs as are reserved for them.

    Nothing is read from resctrl on a node without a container that has ``linux.intelRdt``, and without a reserve.
    """
    if report.dry_run:
        return
    with report.catching(context, "runtimes"):
        asking = {container.key for container in containers if container.asks and container.recorded}
        if asking:  # a runtime's group ends with its container, and its last counts with it
            read_counters(context.monitor, sorted(asking))
        _count(context, containers)
        reserve = reserved(context)
        resctrl = context.monitor.resctrl
        for rdt_class in _circles(resctrl) if reserve else ():
            free = free_rmids(resctrl, rdt_class)
            _free(context, rdt_class, 0 if free is None else reserve - free, report)


def _count(context: "Context", containers: "Iterable[Running]") -> None:
    asking = {container.id for container in containers if container.record.get("intelRdt")}
    if asking or context.ledger.flagged(RUNTIMES):
        held = _held(context, asking) if asking else []
        note(context.ledger, sum(held) if asking else None, max(held, default=0))


def _circles(resctrl: "Resctrl") -> "Sequence[str]":
    """Return one class of each set of classes that share their RMIDs."""
    return ("", *resctrl.classes()) if rmids_of_each_class(resctrl) else ("",)


def _free(context: "Context", rdt_class: str, missing: int, report: "Report") -> None:
    """Free so many RMIDs: the latest pods of the lowest priority give way."""
    claims = yielding(_holders(context), _ALL) if missing > 0 else []
    for claim in possible_givers(claims, rdt_class, context.monitor):
        if missing <= 0:
            return
        with report.catching(context, claim.key):
            missing -= _give_way(context, claim.key)


def _held(context: "Context", ids: "set[str]") -> "list[int]":
    """Return how many groups and classes have the name of each container."""
    found = groups_by_class(context.monitor.resctrl)
    names = [*found, *(name for groups in found.values() for name in groups)]
    return [names.count(id_) for id_ in ids]


def _holders(context: "Context") -> "list[Claim]":
    """Return the pods with groups of ours; without sharing rules, all have the same priority."""
    if context.settings.shares_rmids:
        return holders(context.ledger)
    found = []
    for key in context.ledger.keys():  # noqa: SIM118  # it is no dictionary
        record = context.ledger.read_pod(key) or {}
        if record.get("groups") and record.get("boot") == context.monitor.boot:
            found.append(Claim(key, 0, max(record.get("since", {}).values(), default=0.0)))
    return found


def _give_way(context: "Context", key: str) -> int:
    """Remove a pod's groups, and return how many there were; the pod waits."""
    with context.monitor.hold(key) as locked:
        number = sum(origin != SHARED for origin in locked.origins.values())
        if not give_up(locked, context.monitor, context.log):
            return 0
        if context.settings.shares_rmids:
            begin_to_wait(locked, context.ledger)
        else:
            context.ledger.mark(WAITING, key)
    what = f"the RMID of {key} was freed for groups of container runtimes (monitoring.reserve.runtimes)"
    context.log(INFO, what, stage="reconcile", key=key)
    return number
