"""The guard's rule for the traffic of memory domains, applied to two snapshots."""

from ....core.node.host.topology_sysfs import find_topology
from ....core.node.resctrl.bandwidth import LOCAL, TOTAL, bandwidth_of, is_at_memory, is_bandwidth, resource_of
from ..capacity.domains import domains_of_bandwidth
from .load import ClassCounts, traffic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ....core.node.context import Context
    from ....core.node.resctrl.counters import Raw, Reading, Slot
    from ..snapshot.snapshot import Snapshot
    from .load import Traffic

    Domains = Sequence[tuple[int, ...]]
else:
    Domains = object
# Domains: memory domains, each a set of L3 domains, or of one domain that counts at the memory itself.


def domains_of(context: "Context", snapshot: "Snapshot") -> "Domains":
    """Return the node's memory domains."""
    return domains_of_slots(context, snapshot.slots.values())


def domains_of_slots(context: "Context", slots: "Iterable[Slot | Reading]") -> "list[tuple[int, ...]]":
    """Return the node's memory domains from its counters."""
    topology = find_topology(context.settings.sys_path)
    return domains_of_bandwidth(bandwidth_of(slots), topology, context.settings.monitoring["memoryDomains"])


def counts_of(
    when: float, classes: "Mapping[str, Mapping[str, Raw]]", slots: "Mapping[str, Slot]", domains: "Domains"
) -> ClassCounts:
    """Return each class's counters by path, as the rule expects them."""
    resource = resource_of(slots.values())
    at_memory = is_at_memory(resource)
    counters = (TOTAL,) if at_memory else (TOTAL, LOCAL)  # a memory has no local part
    places = {
        (counter, slot.domain.id): path
        for path, slot in slots.items()
        for counter in counters
        if is_bandwidth(slot, resource, counter)
    }

    def number(values: "Mapping[str, Raw]", counter: str, domain: int) -> "int | None":
        value = values.get(places.get((counter, domain), ""))
        return int(value) if isinstance(value, (int, float)) else None

    l3 = [one for domain in domains for one in domain]
    return ClassCounts(
        when,
        {name: {one: (number(of, TOTAL, one), number(of, LOCAL, one)) for one in l3} for name, of in classes.items()},
        at_memory=at_memory,
    )


def traffic_of(before: "Snapshot", now: "Snapshot", domains: "Domains") -> "list[Traffic]":
    """Return each memory domain's traffic between two snapshots."""

    def counts(one: "Snapshot") -> ClassCounts:
        return counts_of(one.when, {name: of.whole for name, of in one.classes.items()}, one.slots, domains)

    return traffic(counts(before), counts(now), domains)
