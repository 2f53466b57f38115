"""The guard's rule for the traffic of memory domains, applied to two snapshots."""

from ..host.topology_sysfs import find_topology
from ..resctrl.layouts import L3, domain_folder
from ..snapshot.growth import LOCAL, TOTAL
from .load import ClassCounts, memory_domains, traffic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..context import Context
    from ..resctrl.counters import Raw, Reading, Slot
    from ..snapshot.snapshot import Snapshot
    from .load import Traffic

    Domains = Sequence[tuple[int, ...]]
else:
    Domains = object
# Domains: memory domains, each a set of L3 domains.


def l3_folder(number: int) -> str:
    """Return the folder of an L3 domain in ``mon_data``."""
    return domain_folder(L3, number)


def domains_of(context: "Context", snapshot: "Snapshot") -> "Domains":
    """Return the node's memory domains."""
    return domains_of_slots(context, snapshot.slots.values())


def domains_of_slots(context: "Context", slots: "Iterable[Slot | Reading]") -> "list[tuple[int, ...]]":
    """Return the node's memory domains from its counters."""
    l3 = {slot.domain.id for slot in slots if slot.counter.name == TOTAL and _is_l3(slot)}
    return memory_domains(l3, find_topology(context.settings.sys_path), context.settings.monitoring["memoryDomains"])


def counts_of(
    when: float, classes: "Mapping[str, Mapping[str, Raw]]", slots: "Mapping[str, Slot]", domains: "Domains"
) -> ClassCounts:
    """Return each class's counters by path, as the rule expects them."""
    places = {
        (slot.counter.name, slot.domain.id): path
        for path, slot in slots.items()
        if slot.counter.name in (TOTAL, LOCAL) and _is_l3(slot)
    }

    def number(values: "Mapping[str, Raw]", counter: str, domain: int) -> "int | None":
        value = values.get(places.get((counter, domain), ""))
        return int(value) if isinstance(value, (int, float)) else None

    l3 = [one for domain in domains for one in domain]
    return ClassCounts(
        when,
        {name: {one: (number(of, TOTAL, one), number(of, LOCAL, one)) for one in l3} for name, of in classes.items()},
    )


def traffic_of(before: "Snapshot", now: "Snapshot", domains: "Domains") -> "list[Traffic]":
    """Return each memory domain's traffic between two snapshots."""

    def counts(one: "Snapshot") -> ClassCounts:
        return counts_of(one.when, {name: of.whole for name, of in one.classes.items()}, one.slots, domains)

    return traffic(counts(before), counts(now), domains)


def _is_l3(slot: "Slot | Reading") -> bool:
    return slot.domain.resource == L3 and slot.domain.node is None
