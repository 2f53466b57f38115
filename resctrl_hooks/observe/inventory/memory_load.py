"""The load of each memory domain between two snapshots, and its largest pods, by the guard's rule."""

from collections.abc import Mapping

from resctrl_hooks.core.node.resctrl.bandwidth import bandwidth_of
from resctrl_hooks.observe.node.capacity.capacity import Capacities
from resctrl_hooks.observe.node.guard.load import Traffic, to_memories
from resctrl_hooks.observe.node.guard.snapshots import Domains, traffic_of
from resctrl_hooks.observe.node.snapshot.growth import growths
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot

from .columns import LOCAL, MBM
from .pod_rates import PodMemory
from .rates import rate_of
from .usage_models import MemoryShare, MemoryUsage

_SHOWN = 3


def memory_usage(
    before: Snapshot, now: Snapshot, domains: Domains, capacities: Capacities, names: Mapping[str, str]
) -> list[MemoryUsage]:
    """Return the load of each memory domain and its largest pods.

    Args:
        before: the earlier snapshot.
        now: the later one.
        domains: the node's memory domains.
        capacities: those of the domains.
        names: the names of pods by key.
    """
    traffic = traffic_of(before, now, domains)
    users = {key: _User(of, traffic) for key in now.pods if (of := _rates_of(before, now, key, domains))}
    found = []
    for one in traffic:
        capacity = capacities.of(one.domain[0])
        known = {key: user.known[one.domain[0]] for key, user in users.items()} if one.rate else {}
        largest = sorted((key for key in known if known[key] > 0), key=lambda key: -known[key])
        pods = [
            MemoryShare(
                name=names.get(key, key),
                memory_bandwidth_bytes_per_second=users[key].rates[one.domain[0]],
                share_percent=_percent(known[key], one.rate) or 0.0,
            )
            for key in largest[:_SHOWN]
        ]
        found.append(
            MemoryUsage(
                domain=one.domain[0],
                l3=[*one.domain],
                memory_bandwidth_bytes_per_second=one.rate,
                capacity_bytes_per_second=capacity.rate if capacity else None,
                capacity_source=capacity.source if capacity else None,
                load_percent=_percent(capacity.load(one.rate) if capacity else None),
                estimated=one.estimated,
                pods=pods,
            )
        )
    return found


def pod_memory(before: Snapshot, now: Snapshot, domains: Domains, capacities: Capacities, key: str) -> list[PodMemory]:
    """Return a pod's part of the traffic of each memory domain; the arguments are those of `memory_usage`."""
    traffic = traffic_of(before, now, domains)
    of = _rates_of(before, now, key, domains) if key in now.pods else None
    user = _User(of or {}, traffic)
    return [
        PodMemory(
            domain=one.domain[0],
            memory_bandwidth_bytes_per_second=user.rates.get(one.domain[0]),
            share_percent=_percent(user.known.get(one.domain[0]), one.rate),
            load_percent=_percent(one.load(capacities.reliable(one.domain[0]))),
            estimated=one.estimated,
        )
        for one in traffic
    ]


class _User:
    """A pod's traffic to each memory domain.

    ``known`` has no traffic of L3 domains with an unknown total, which the domain's own rate does not include either.
    """

    def __init__(self, of: dict[int, tuple[float, float | None]], traffic: list[Traffic]) -> None:
        domains = [one.domain for one in traffic] if of else []
        self.rates = to_memories(of, domains)
        self.known = to_memories(of, domains, [one.domain for one in traffic if one.rate is not None] if of else [])


def _percent(part: float | None, whole: float | None = 1.0) -> float | None:
    return round(part / whole * 100, 1) if part is not None and whole else None


def _rates_of(
    before: Snapshot, now: Snapshot, key: str, domains: Domains
) -> dict[int, tuple[float, float | None]] | None:
    """Return a pod's total and local bytes per second by L3 domain; None if a total is unknown."""
    interval = now.when - before.when
    grown = {place: rate_of(growth, interval) for place, growth in growths(before, now, key).items()}
    bandwidth = bandwidth_of(now.slots.values())
    found: dict[int, tuple[float, float | None]] = {}
    for number in (one for domain in domains for one in domain):
        folder = bandwidth.folder(number)
        total = grown.get((MBM.counter, folder))
        if total is None:
            return None
        found[number] = (total, None if bandwidth.at_memory else grown.get((LOCAL.counter, folder)))
    return found
