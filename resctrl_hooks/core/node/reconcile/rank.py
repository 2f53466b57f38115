"""The order in which running containers get RMIDs under sharing rules."""

from ..sharing.claims import claim_of, now
from ..sharing.priority import priority_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.running import Running
    from ..context import Context


def by_rank(context: "Context", containers: "list[Running]") -> "list[Running]":
    """Return the containers in the order of service."""
    ranks: "dict[str, tuple[int, float]]" = {}
    for container in containers:
        if container.key not in ranks:
            record = context.ledger.read_pod(container.key)
            claim = claim_of(container.key, record)
            ranks[container.key] = (-priority_in(context, container, record), claim.since if claim else now())
    return sorted(containers, key=lambda container: (*ranks[container.key], container.key))
