"""The order in which running containers get RMIDs under sharing rules, and the admission of one of them."""

from ..container.recorded import recorded_workload
from ..sharing.admission import ensure_for
from ..sharing.claims import claim_of, now
from ..sharing.priority import priority_of, version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.running import Running
    from ..context import Context
    from ..resctrl.locked_key import LockedKey
    from ..sharing.decision import Claim

ALL = 1 << 20  # reconcile moves any number of groups and tasks


def by_rank(context: "Context", containers: "list[Running]") -> "list[Running]":
    """Return the containers in the order of service."""
    ranks: "dict[str, tuple[int, float]]" = {}
    for container in containers:
        if container.key not in ranks:
            claim = claim_of(container.key, context.ledger.read_pod(container.key))
            ranks[container.key] = (-priority(context, container, claim), claim.since if claim else now())
    return sorted(containers, key=lambda container: (*ranks[container.key], container.key))


def ensure_ranked(locked: "LockedKey", context: "Context", container: "Running") -> None:
    """Give a running container's pod its group: with a free RMID, or by preemption of a lower priority.

    Raises:
        NoRMIDsError: no RMID is available, or none at the moment.
    """
    rank = priority(context, container, claim_of(locked.key, locked.record))
    ensure_for(locked, rank, container.rdt_class, context, most=ALL, most_tasks=ALL, remove=True)


def priority(context: "Context", container: "Running", claim: "Claim | None") -> int:
    """Return a container's priority by the active rules: the recorded one if the rules are the same."""
    rules = context.settings.groups.get("priority") or []
    record = context.ledger.read_pod(container.key) if claim is not None else None
    if claim is not None and record is not None and record["claim"]["rules"] == version_of(rules):
        return claim.priority
    if not rules:
        return 0
    return priority_of(recorded_workload(container.id, container.pid, container.details(), context.settings), rules)
