"""How the pods of a simulated node slow each other: CPUs, cache and memory are shared by what is left. Pure.

An open queue: the latency of memory rises with its load, and a pod that loses cache moves more bytes by operation.
Demand and latency depend on each other, so the rates are their fixed point. The tests of verdicts use this model, too.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

CYCLES = 3e9
"""Cycles of a busy CPU by second."""
LINE_CYCLES = 1.2
"""Cycles by byte that is read from memory without load."""
_STEPS, _STEP = 200, 0.05
_LEAST_LEFT = 0.2
_WITHOUT_CACHE = 4.0
"""How many times more bytes an operation moves without any cache, beyond those with all of it."""


class Work(NamedTuple):
    """What a pod does."""

    cpus: float = 1.0
    """CPUs that its tasks use."""
    cycles: float = 1.0
    """By operation, without waiting for memory."""
    bytes: float = 0.0
    """To and from memory by operation, with all of the cache that it needs."""
    held: float = 0.0
    """Bytes of the cache that it fills."""
    reuses: bool = False
    """Whether it reads its cache again. Such a pod gets the cache that others leave."""


class Pace(NamedTuple):
    """How fast a pod works."""

    cpus: float
    price: float
    """Cycles by operation, with those of waiting."""
    moved: float
    """Bytes by operation."""
    held: float
    """Bytes of the cache."""

    @property
    def operations(self) -> float:
        """Operations by second."""
        return self.cpus * CYCLES / self.price

    @property
    def rate(self) -> float:
        """Bytes by second to and from memory."""
        return self.operations * self.moved


def latency(load: float) -> float:
    """Return the latency of a memory as a multiple of that without load (an open queue, bounded)."""
    return 1.0 + 0.12 * load / (1.0 - min(load, 0.97))


def settle(
    works: Mapping[str, Work],
    capacity: float,
    cache: float,
    caps: Sequence[tuple[Sequence[str], float]] = (),
    parts: Mapping[str, float] | None = None,
) -> dict[str, Pace]:
    """Return the pace of each pod.

    Args:
        works: the pods.
        capacity: bytes per second of the memory.
        cache: bytes of the cache.
        caps: the pods of a class and the most bytes per second of all of them.
        parts: bytes of the cache that a pod's class may fill; without a value all of it.
    """
    held = {name: min(work.held, (parts or {}).get(name, cache)) for name, work in works.items()}
    taken = sum(held[name] for name, work in works.items() if not work.reuses)
    wanted = sum(held[name] for name, work in works.items() if work.reuses)
    left = min(1.0, max(_LEAST_LEFT, (cache - taken) / wanted)) if wanted else 1.0
    moved = {}
    for name, work in works.items():
        held[name] *= left if work.reuses else 1.0
        missing = 1 - held[name] / work.held if work.reuses and work.held else 0.0
        moved[name] = work.bytes * (1 + _WITHOUT_CACHE * missing)

    def price(name: str, load: float) -> float:
        return works[name].cycles + moved[name] * LINE_CYCLES * latency(load)

    def demands(load: float) -> dict[str, float]:
        return {name: work.cpus * CYCLES / price(name, load) * moved[name] for name, work in works.items()}

    load = 0.0
    for _ in range(_STEPS):
        load += _STEP * (min(sum(_capped(demands(load), caps).values()) / capacity, 1.0) - load)
    wishes = demands(load)
    rates = _capped(_capped(wishes, caps), [(list(works), capacity)])
    return {
        name: Pace(
            work.cpus, price(name, load) * (wishes[name] / rates[name] if rates[name] else 1.0), moved[name], held[name]
        )
        for name, work in works.items()
    }


def _capped(rates: Mapping[str, float], caps: Sequence[tuple[Sequence[str], float]]) -> dict[str, float]:
    """Return the rates with those of each class lowered to its most."""
    found = dict(rates)
    for names, most in caps:
        whole = sum(found[name] for name in names)
        if whole > most:
            found.update({name: found[name] * most / whole for name in names})
    return found


def share_cpus(wanted: Mapping[str, tuple[float, float]], cpus: float) -> dict[str, float]:
    """Return the CPUs that each pod gets of those that it wants, by weight; ``wanted`` has both by name."""
    found: dict[str, float] = {}
    rest = {name: pair for name, pair in wanted.items() if pair[0] > 0}
    while rest:
        weights = sum(weight for _, weight in rest.values())
        part = {name: cpus * weight / weights for name, (_, weight) in rest.items()}
        full = [name for name, (wish, _) in rest.items() if wish <= part[name]]
        if not full:
            return {**dict.fromkeys(wanted, 0.0), **found, **part}
        for name in full:
            found[name] = rest.pop(name)[0]
            cpus -= found[name]
    return {**dict.fromkeys(wanted, 0.0), **found}
