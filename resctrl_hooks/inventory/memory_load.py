"""The load of each memory domain between two snapshots, and its largest pods, by the guard's rule."""

from collections.abc import Mapping, Sequence

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.guard.load import Look, Traffic, memory_domains, to_memory, traffic
from resctrl_hooks.node.host.topology_sysfs import TopologyError, read_topology
from resctrl_hooks.node.resctrl.bandwidth_unit import capacity_of
from resctrl_hooks.node.resctrl.counters import L3, Slot

from .models import MemoryShare, MemoryUsage, PodMemory
from .rates import LOCAL, TOTAL, growths, rate_of
from .snapshot import Raw, Snapshot

_SHOWN = 3
Domains = Sequence[tuple[int, ...]]
"""Memory domains, each a set of L3 domains."""


def l3_folder(number: int) -> str:
    """Return the folder of an L3 domain in ``mon_data``."""
    return f"mon_L3_{number:02d}"


def domains_of(context: Context, snapshot: Snapshot) -> Domains:
    """Return the node's memory domains."""
    l3 = {slot.domain.id for slot in snapshot.slots.values() if slot.counter.name == TOTAL and _is_l3(slot)}
    try:
        topology = read_topology(context.settings.sys_path)
    except TopologyError:
        topology = None
    return memory_domains(l3, topology, context.settings.monitoring["memoryDomains"])


def look_of(when: float, classes: Mapping[str, Mapping[str, Raw]], slots: Mapping[str, Slot], domains: Domains) -> Look:
    """Return each class's counters by path, as the rule expects them."""
    places = {
        (slot.counter.name, slot.domain.id): path
        for path, slot in slots.items()
        if slot.counter.name in (TOTAL, LOCAL) and _is_l3(slot)
    }

    def number(values: Mapping[str, Raw], counter: str, domain: int) -> int | None:
        value = values.get(places.get((counter, domain), ""))
        return int(value) if isinstance(value, (int, float)) else None

    l3 = [one for domain in domains for one in domain]
    return Look(
        when,
        {name: {one: (number(of, TOTAL, one), number(of, LOCAL, one)) for one in l3} for name, of in classes.items()},
    )


def traffic_of(before: Snapshot, now: Snapshot, domains: Domains) -> list[Traffic]:
    """Return each memory domain's traffic between two snapshots."""

    def look(one: Snapshot) -> Look:
        return look_of(one.when, {name: of.whole for name, of in one.classes.items()}, one.slots, domains)

    return traffic(look(before), look(now), domains)


def memory_usage(
    before: Snapshot, now: Snapshot, domains: Domains, capacity: dict[str, float], names: Mapping[str, str]
) -> list[MemoryUsage]:
    """Return the load of each memory domain and its largest pods.

    Args:
        before: the earlier snapshot.
        now: the later one.
        domains: the node's memory domains.
        capacity: the compiled ``monitoring.capacity``.
        names: the names of pods by key.
    """
    rates = {key: rates for key in now.pods if (rates := _rates_of(before, now, key, domains))}
    found = []
    for one in traffic_of(before, now, domains):
        moved = {key: _part(of, one.domain, domains) for key, of in rates.items()} if one.rate else {}
        largest = sorted((key for key in moved if moved[key] > 0), key=lambda key: -moved[key])
        pods = [
            MemoryShare(
                name=names.get(key, key),
                memory_bandwidth_bytes_per_second=moved[key],
                share_percent=_percent(moved[key], one.rate) or 0.0,
            )
            for key in largest[:_SHOWN]
        ]
        found.append(
            MemoryUsage(
                domain=one.domain[0],
                l3=[*one.domain],
                memory_bandwidth_bytes_per_second=one.rate,
                capacity_bytes_per_second=capacity_of(capacity, one.domain[0]) or None,
                load_percent=_percent(one.load(capacity)),
                estimated=one.estimated,
                pods=pods,
            )
        )
    return found


def pod_memory(
    before: Snapshot, now: Snapshot, domains: Domains, capacity: dict[str, float], key: str
) -> list[PodMemory]:
    """Return a pod's part of the traffic of each memory domain; the arguments are those of `memory_usage`."""
    of = _rates_of(before, now, key, domains) if key in now.pods else None
    parts = [(one, _part(of, one.domain, domains) if of else None) for one in traffic_of(before, now, domains)]
    return [
        PodMemory(
            domain=one.domain[0],
            memory_bandwidth_bytes_per_second=rate,
            share_percent=_percent(rate, one.rate),
            load_percent=_percent(one.load(capacity)),
            estimated=one.estimated,
        )
        for one, rate in parts
    ]


def _percent(part: float | None, whole: float | None = 1.0) -> float | None:
    return round(part / whole * 100, 1) if part is not None and whole else None


def _part(of: dict[int, tuple[float, float | None]], domain: tuple[int, ...], domains: Domains) -> float:
    if any(local is None for _, local in of.values()):
        return sum(of[number][0] for number in domain)
    return to_memory(of, domain, domains)


def _rates_of(
    before: Snapshot, now: Snapshot, key: str, domains: Domains
) -> dict[int, tuple[float, float | None]] | None:
    """Return a pod's total and local bytes per second by L3 domain; None if a total is unknown."""
    interval = now.when - before.when
    grown = {place: rate_of(growth, interval) for place, growth in growths(before, now, key).items()}
    found: dict[int, tuple[float, float | None]] = {}
    for number in (one for domain in domains for one in domain):
        folder = l3_folder(number)
        total = grown.get((TOTAL, folder))
        if total is None:
            return None
        found[number] = (total, grown.get((LOCAL, folder)))
    return found


def _is_l3(slot: Slot) -> bool:
    return slot.domain.resource == L3 and slot.domain.node is None
