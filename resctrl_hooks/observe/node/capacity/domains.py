"""The memory domains of a node: which of the domains that count bandwidth share one memory. Pure."""

from ....core.node.resctrl.layouts import L3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ....core.node.host.topology import Topology
    from ....core.node.resctrl.bandwidth import Bandwidth

BY_MEMORY, BY_PACKAGE, BY_L3 = "node", "package", "l3"
AUTO = "auto"


def domains_of_bandwidth(
    bandwidth: "Bandwidth", topology: "Topology | None", by: str = AUTO
) -> "list[tuple[int, ...]]":
    """Return the memory domains of the domains that count bandwidth: only L3 domains can share a memory."""
    return memory_domains(bandwidth.numbers, topology if bandwidth.resource == L3 else None, by)


def memory_domains(l3: "Iterable[int]", topology: "Topology | None", by: str = AUTO) -> "list[tuple[int, ...]]":
    """Return the L3 domains grouped by the memory that they share.

    Args:
        l3: the domain ids of ``schemata``; they have gaps on some processors.
        topology: the machine; None if unknown, then each L3 domain is its own.
        by: ``node`` groups L3 domains whose processors are of one NUMA node, ``package`` those of one package, ``l3``
            none. ``auto`` is ``node``, but ``package`` where each of a package's several L3 domains is declared as a
            NUMA node of its own (AMD's "ACPI SRAT L3 Cache as NUMA Domain"): their memory is still one.
    """
    numbers = sorted(l3)
    if topology is None or by == BY_L3:
        return [(number,) for number in numbers]
    if by == AUTO:
        by = BY_PACKAGE if _is_l3_as_numa(numbers, topology) else BY_MEMORY
    places = topology.packages if by == BY_PACKAGE else {node.id: node.cpus for node in topology.nodes}
    found: "dict[tuple[int, ...], list[int]]" = {}
    for number in numbers:
        cpus = topology.l3.get(number, 0)
        near = tuple(id_ for id_, of in places.items() if of & cpus)
        found.setdefault(near or (-1, number), []).append(number)
    return [tuple(numbers) for numbers in found.values()]


def _is_l3_as_numa(numbers: "list[int]", topology: "Topology") -> bool:
    """Return whether a package has several L3 domains, and each of them is exactly one NUMA node."""
    nodes = {node.cpus for node in topology.nodes}
    own = [topology.l3.get(number, 0) for number in numbers]
    return len(own) > len(topology.packages) and all(cpus and cpus in nodes for cpus in own)
