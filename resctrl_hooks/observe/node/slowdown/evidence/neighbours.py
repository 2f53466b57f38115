"""The joint use of all pods of a window: computed once, so a pod's neighbours cost the same on any node. Pure.

A pod's neighbours are named from a part of `NAMED_SHARE` of what all others use. So few can have that that they and
the pod itself are among the `_LARGEST` users of a resource, and of any sum of resources.
"""

from heapq import nlargest
from typing import NamedTuple

from ..constants import NAMED_SHARE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .use import Use

_LARGEST = int(1 / NAMED_SHARE) + 1
_LEAST_PART = 0.1  # of a pod's traffic or cache, in a domain that is its own


class Total(NamedTuple):
    """The use of some resources by all pods, and by the pods that use most of them, with their keys."""

    whole: float
    largest: "tuple[tuple[float, str], ...]"


class Together:
    """The totals of one window.

    Args:
        uses: the pods' use, by key.
        carried: by memory domain, the bytes per second of all classes, pods or not; None: unknown.

    Attributes:
        memory: the memory domains of each pod's traffic.
        caches: the L3 domains that hold each pod's lines.
        held: by L3 domain, what the pods hold.
    """

    def __init__(self, uses: "Mapping[str, Use]", carried: "Mapping[int, float | None]") -> None:
        self._uses = uses
        self.memory = {key: memory_of(use) for key, use in uses.items()}
        self.caches = {key: caches_of(use) for key, use in uses.items()}
        moved: "dict[int, list[tuple[float, str]]]" = {}
        held: "dict[int, list[tuple[float, str]]]" = {}
        ran: "dict[int, list[tuple[float, str]]]" = {}
        for key, use in uses.items():
            for number, part in (use.traffic or {}).items():
                moved.setdefault(number, []).append((part, key))
            for number, part in use.occupancy.items():
                held.setdefault(number, []).append((part, key))
            if use.cpu:
                ran.setdefault(use.cpus, []).append((use.cpu, key))
        self._moved, self.held, self._ran = _totals(moved), _totals(held), _totals(ran)
        self._carried = dict(carried)
        self._moved_to: "dict[tuple[int, ...], Total]" = {}
        self._carried_to: "dict[tuple[int, ...], float]" = {}
        self._held_in: "dict[tuple[int, ...], Total]" = {}
        self._ran_on: "dict[int, Total]" = {}

    def moved_to(self, domains: "tuple[int, ...]") -> Total:
        """Return the bytes per second to some memory domains."""
        found = self._moved_to.get(domains)
        if found is None:
            found = self._moved_to[domains] = self._sum(self._moved, domains, lambda use: moved_by(use, domains))
        return found

    def carried_to(self, domains: "tuple[int, ...]") -> float:
        """Return the bytes per second to some memory domains, of pods and all others."""
        found = self._carried_to.get(domains)
        if found is None:
            pods = [self._moved[number].whole if number in self._moved else 0.0 for number in domains]
            parts = [max(part, self._carried.get(number) or 0.0) for number, part in zip(domains, pods)]
            found = self._carried_to[domains] = sum(parts)
        return found

    def is_much_outside(self, least: float) -> bool:
        """Return whether tasks outside pods have at least this part of the traffic of a memory domain."""
        pods = {number: total.whole for number, total in self._moved.items()}
        return any(part and part - pods.get(number, 0.0) >= least * part for number, part in self._carried.items())

    def held_in(self, l3: "tuple[int, ...]") -> Total:
        """Return the bytes in some L3 domains."""
        found = self._held_in.get(l3)
        if found is None:
            found = self._held_in[l3] = self._sum(self.held, l3, lambda use: held_by(use, l3))
        return found

    def ran_on(self, cpus: int) -> Total:
        """Return the CPUs in use by the pods that may use one of a set of CPUs; 0 is unknown, so it may be any."""
        found = self._ran_on.get(cpus)
        if found is None:
            near = [of for of in self._ran if shares_cpus(of, cpus)]
            found = self._ran_on[cpus] = self._sum(self._ran, near, lambda use: use.cpu or 0.0)
        return found

    def _sum(self, totals: "Mapping[int, Total]", places: "Iterable[int]", use_of: "Callable[[Use], float]") -> Total:
        found = [totals[place] for place in places if place in totals]
        keys = {key for total in found for _, key in total.largest}
        largest = nlargest(_LARGEST, ((use_of(self._uses[key]), key) for key in keys))
        return Total(sum(total.whole for total in found), tuple(largest))


def moved_by(use: "Use", domains: "Iterable[int]") -> float:
    """Return the bytes per second that a pod moves to some memory domains."""
    traffic = use.traffic or {}
    return sum([traffic[number] for number in domains if number in traffic])


def held_by(use: "Use", l3: "Iterable[int]") -> float:
    """Return the bytes that a pod holds in some L3 domains."""
    held = use.occupancy
    return sum([held[number] for number in l3 if number in held])


def shares_cpus(one: int, other: int) -> bool:
    """Return whether two sets of CPUs overlap, as far as known."""
    return not one or not other or bool(one & other)


def memory_of(use: "Use") -> "tuple[int, ...]":
    """Return the memory domains of a pod's traffic."""
    return _own_places(use.traffic or {})


def caches_of(use: "Use") -> "tuple[int, ...]":
    """Return the L3 domains that hold a pod's lines."""
    return _own_places(use.occupancy)


def _own_places(parts: "Mapping[int, float]") -> "tuple[int, ...]":
    least = _LEAST_PART * sum(parts.values())
    return tuple([number for number, part in parts.items() if part >= least]) if least else ()


def _totals(parts: "Mapping[int, list[tuple[float, str]]]") -> "dict[int, Total]":
    return {
        place: Total(sum([part for part, _ in found]), tuple(nlargest(_LARGEST, found)))
        for place, found in parts.items()
    }
