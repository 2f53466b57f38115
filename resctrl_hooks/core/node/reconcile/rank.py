"""The order in which running containers get RMIDs under sharing rules."""

from ..container.recorded import recorded_workload
from ..sharing.claims import claim_of, now
from ..sharing.priority import priority_of, version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.running import Running
    from ..context import Context
    from ..sharing.decision import Claim


def by_rank(context: "Context", containers: "list[Running]") -> "list[Running]":
    """Return the containers in the order of service."""
    ranks: "dict[str, tuple[int, float]]" = {}
    for container in containers:
        if container.key not in ranks:
            claim = claim_of(container.key, context.ledger.read_pod(container.key))
            ranks[container.key] = (-priority(context, container, claim), claim.since if claim else now())
    return sorted(containers, key=lambda container: (*ranks[container.key], container.key))


def priority(context: "Context", container: "Running", claim: "Claim | None") -> int:
    """Return a container's priority by the active rules: the recorded one if the rules are the same."""
    rules = context.settings.groups.get("priority") or []
    record = context.ledger.read_pod(container.key) if claim is not None else None
    if claim is not None and record is not None and record["claim"]["rules"] == version_of(rules):
        return claim.priority
    if not rules:
        return 0
    return priority_of(recorded_workload(container.id, container.pid, container.record, context.settings), rules)
