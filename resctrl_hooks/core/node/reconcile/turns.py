"""Service of pods that wait for an RMID under sharing rules: in the order of the queue, and in turns."""

from ..errors import NoRMIDsError
from ..host.files import read_file, write_file
from ..ledger import RMIDS, WAITING
from ..resctrl.rmids import rmids_of_each_class
from ..sharing.claims import begin_to_hold, chance, claim_of, entry_of, holders, now
from ..sharing.counter_turns import times_of
from ..sharing.decision import Claim, gap, spread, turns
from ..sharing.handover import give_back, hand_on, possible_givers
from ..sharing.limits import check_limit
from ..sharing.priority import priority_in, version_of
from .bring_in import take_in
from .change import Change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.running import Running
    from ..context import Context
    from .report import Report

_LAST = "turn"  # a file of the state directory: the boot, the time of the last round and its duration
_PATIENCE = 0.5


def refresh(context: "Context", containers: "list[Running]", report: "Report") -> None:
    """Rank the holders of RMIDs by the active rules, and make the index agree with the records."""
    version = version_of(context.settings.groups.get("priority") or [])
    index = {entry_of(claim): claim.key for claim in holders(context.ledger)}
    for container in {container.key: container for container in containers if container.monitored}.values():
        with report.catching(context, container.key):
            record = context.ledger.read_pod(container.key) or {}
            claim = record.get("claim")
            if not record.get("groups") or (claim and claim["rules"] == version and claim["entry"] in index):
                continue
            with context.monitor.hold(container.key) as locked:
                if locked.groups() and any(origin != "shared" for origin in locked.origins.values()):
                    old = claim_of(locked.key, locked.record)
                    priority = priority_in(context, container, locked.record)
                    begin_to_hold(locked, context.ledger, priority, version, old.since if old else None)
                    locked.save()
    for entry, key in index.items():
        record = context.ledger.read_pod(key) or {}
        if record.get("claim", {}).get("entry") != entry:
            with report.catching(context, key), context.monitor.hold(key) as locked:
                if locked.record.get("claim", {}).get("entry") != entry:
                    context.ledger.unmark(RMIDS, entry)


def by_rank(context: "Context", containers: "list[Running]") -> "list[Running]":
    """Return the containers in the order of service."""
    ranks: "dict[str, tuple[int, float]]" = {}
    for container in containers:
        if container.key not in ranks:
            record = context.ledger.read_pod(container.key)
            claim = claim_of(container.key, record)
            ranks[container.key] = (-priority_in(context, container, record), claim.since if claim else now())
    return sorted(containers, key=lambda container: (*ranks[container.key], container.key))


def take_turns(context: "Context", containers: "list[Running]", report: "Report") -> None:
    """Run one round if it is due: equal waiting pods get the RMIDs of the longest holders."""
    if context.settings.groups.get("share") is None:
        return
    interval, at_least = times_of(context.settings)
    living: "dict[str, list[Running]]" = {}
    for container in containers:
        if container.monitored:
            living.setdefault(container.key, []).append(container)
    waiting = []
    for key in context.ledger.marked(WAITING):
        record = context.ledger.read_pod(key)
        claim = claim_of(key, record)
        waits = claim is not None and key in living and record is not None and not record["groups"]
        if claim is not None and waits and _may_hold(key, living[key][0].namespace, context):
            waiting.append(claim)
    holding = holders(context.ledger)
    last, lasts = _last_round(context, interval)
    shuffled = spread(interval, len(holding), len(waiting))
    pairs = [
        pair
        for givers, takers in _circles(context, holding, waiting, living)
        for pair in turns(
            givers, takers, now(), last=last, interval=lasts, at_least=at_least, delay=lambda: shuffled * chance()
        )
    ]
    for giver, taker in pairs:
        with report.catching(context, taker.key):
            # Checked again: another pod of its namespace may have got one just now.
            if _may_hold(taker.key, living[taker.key][0].namespace, context) and _hand_on(
                context, giver, taker, living, report
            ):
                report.add("handover", taker.key)
    if pairs:
        write_file(
            f"{context.ledger.folder}/{_LAST}", f"{context.monitor.boot} {now()} {gap(interval, chance())}".encode()
        )


def _may_hold(key: str, namespace: str, context: "Context") -> bool:
    """Return whether a pod's namespace may hold another RMID."""
    try:
        check_limit(key, namespace, context)
    except NoRMIDsError:
        return False
    return True


def _circles(
    context: "Context", holding: "list[Claim]", waiting: "list[Claim]", living: "dict[str, list[Running]]"
) -> "list[tuple[list[Claim], list[Claim]]]":
    """Return the sets of holders and waiting pods that take turns: all pods, or those of each class."""
    if not rmids_of_each_class(context.monitor.resctrl):
        return [(holding, waiting)]
    takers: "dict[str, list[Claim]]" = {}
    for claim in waiting:
        takers.setdefault(living[claim.key][0].rdt_class, []).append(claim)
    return [
        (possible_givers(holding, rdt_class, context.monitor), claims) for rdt_class, claims in sorted(takers.items())
    ]


def _last_round(context: "Context", interval: float) -> "tuple[float, float]":
    """Return the time of the last round, and its duration: at most the longest of today's ``interval``."""
    try:
        words = read_file(f"{context.ledger.folder}/{_LAST}", 128).decode("ascii", "replace").split()
        boot, time, lasts = (*words, str(interval))[:3]
        longest = gap(interval, 1.0)
        return (float(time), min(float(lasts), longest)) if boot == context.monitor.boot else (float("-inf"), interval)
    except (OSError, ValueError):
        return float("-inf"), interval


def _hand_on(
    context: "Context", giver: "Claim", taker: "Claim", living: "dict[str, list[Running]]", report: "Report"
) -> bool:
    """Hand the giver's RMID over to the taker; return whether that succeeded. ``living`` has all pods' containers."""
    monitor = context.monitor
    first, second = sorted((giver.key, taker.key))
    with monitor.hold(first) as one, monitor.hold_beside(one, second, _PATIENCE) as other:
        locked = {one.key: one, other.key: other}
        gives, takes = locked[giver.key], locked[taker.key]
        if claim_of(giver.key, gives.record) != giver or claim_of(taker.key, takes.record) != taker:
            return False  # a hook or another reconcile was faster
        alive = [container for container in living[taker.key] if container.revalidate(context.proc)]
        if not alive:
            return False
        handed = hand_on(gives, takes, alive[0].rdt_class, monitor, context.log, thorough=True)
        if not handed and not give_back(gives, monitor, context.log):
            return False
    if giver.key in living:  # otherwise all its containers have ended, and the next one begins to wait
        report.add("queued", giver.key, why="its turn is over")
    if handed:
        report.events["queued"].pop(taker.key, None)
        for container in alive:
            take_in(context, Change(container), report)
    return True
