"""Bandwidth of NUMA nodes or of arrays of memory modules, shared out to memory domains by their CPUs. Pure."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ....core.node.host.topology import Topology
    from ....core.node.resctrl.bandwidth import Bandwidth


def cpus_of(domains: "Sequence[tuple[int, ...]]", bandwidth: "Bandwidth", topology: "Topology") -> "dict[int, int]":
    """Return the CPUs of each memory domain as a set, by its lowest id; 0: it has none."""
    places = {node.id: node.cpus for node in topology.nodes} if bandwidth.at_memory else topology.l3
    found = {}
    for domain in domains:
        cpus = 0
        for number in domain:
            cpus |= places.get(number, 0)
        found[domain[0]] = cpus
    return found


def by_node(cpus: "Mapping[int, int]", topology: "Topology", rates: "Mapping[int, float]") -> "dict[int, float]":
    """Return bytes per second of the memory domains whose NUMA nodes all have a rate.

    Domains on the CPUs of one node have equal parts of its rate. Nodes without CPUs belong to no domain.

    Args:
        cpus: the CPUs of each domain.
        topology: the machine.
        rates: bytes per second by NUMA node.
    """
    found = {}
    for domain, own in cpus.items():
        near = [node for node in topology.nodes if node.cpus & own]
        if near and all(node.id in rates for node in near):
            found[domain] = sum(rates[node.id] / sum(bool(node.cpus & of) for of in cpus.values()) for node in near)
    return found


def by_array(
    domains: "Sequence[tuple[int, ...]]",
    cpus: "Mapping[int, int]",
    topology: "Topology | None",
    rates: "Mapping[int, float]",
) -> "dict[int, float]":
    """Return bytes per second of each memory domain with CPUs.

    Where each package has the same number of arrays, these belong to the packages in the order of their handles, as
    firmwares write them; otherwise all domains have equal parts.

    Args:
        domains: the memory domains.
        cpus: the CPUs of each one, by its lowest id; ignored without a topology.
        topology: the machine; None if unknown.
        rates: bytes per second by the handle of the array.
    """
    if not rates:
        return {}
    with_cpus = [domain[0] for domain in domains if topology is None or cpus[domain[0]]]
    packages = sorted(topology.packages) if topology else []
    each, rest = divmod(len(rates), len(packages) or 1)
    if topology is not None and each and not rest:
        handles = sorted(rates)
        found: "dict[int, float]" = {}
        for place, package in enumerate(packages):
            own = [domain for domain in with_cpus if cpus[domain] & topology.packages[package]]
            for domain in own:
                rate = sum(rates[handle] for handle in handles[place * each : (place + 1) * each]) / len(own)
                found[domain] = found.get(domain, 0.0) + rate
        return found
    return {domain: sum(rates.values()) / len(with_cpus) for domain in with_cpus}
