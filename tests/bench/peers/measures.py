"""Measures of places: after every event all running containers are counted, so that long ones count more."""

from dataclasses import dataclass, field

from resctrl_hooks.core.node.host.cpulist import count, members
from resctrl_hooks.core.node.host.topology import DRAM, Topology

from .nodes import Node
from .places import Place, Places
from .sessions import Container

POOLED = ("shop", "web")
"""The namespaces with pools."""
_GIB = 1 << 30
_MOST_UNIONS = 256


@dataclass
class Mean:
    """A sum, and the number of its parts."""

    total: float = 0.0
    number: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.number += 1

    @property
    def value(self) -> float:
        return self.total / self.number if self.number else 0.0


@dataclass
class Measures:
    """The measures of one side on one machine."""

    exclusive: bool = True
    """Whether requests for exclusive CPUs count; balloons has none."""
    refused: int = 0
    twice: int = 0
    means: dict[str, Mean] = field(default_factory=dict)

    def _add(self, name: str, value: float) -> None:
        self.means.setdefault(name, Mean()).add(value)

    def value(self, name: str) -> float:
        """Return a mean, 0 without a part."""
        return self.means[name].value if name in self.means else 0.0

    def note(self, node: Node, found: Places, running: dict[str, Container]) -> None:
        """Count the places after an event. ``running`` are the containers that were not refused."""
        topology = node.topology
        places = [(running[id_], place) for id_, place in found.places.items() if id_ in running]
        self._owners([place for _, place in places])
        loads = _loads(places)
        for container, place in places:
            own = "exclusive" if self.exclusive and container.exclusive else "shared"
            if not self.exclusive and container.namespace not in POOLED:
                own = "default"  # without a pool: on all CPUs that are left, or in a balloon too
            if own == "exclusive":
                self._add("without exclusive CPUs", _has_own(container, place, topology) is False)
            self._add(f"{own}: NUMA nodes", len(_nodes_of(place.cpus, topology)))
            self._add(f"{own}: L3 caches", sum(bool(cpus & place.cpus) for cpus in topology.l3.values()))
            if not self.exclusive:
                others = (other.cpus for one, other in places if one.namespace != container.namespace)
                self._add("shared with another pool", any(cpus & place.cpus for cpus in others))
            if place.owned:
                self._add("cores shared with another", _splits(place, places, topology))
            elif container.milli:
                self._add("short of CPU time", loads[place.cpus] > 1000 * count(place.cpus))
                if container.limit:
                    self._add("fewer CPUs than the limit", count(place.cpus) < -(-container.limit // 1000))
            if own == "default":
                continue
            for device in container.devices:
                far = [topology.nodes[home].distances[device.node] for home in _homes(place.cpus, topology)]
                self._add("device distance", sum(far) / len(far))
            if container.memory and container.memory_kind == DRAM:
                self._add("memory distance", _memory_distance(place, topology))
        self._add("free in the best NUMA node", _best_free(node, places))
        self._add("memory overcommitted, GiB", _overcommitted(topology, places) / _GIB)

    def _owners(self, places: list[Place]) -> None:
        for place in places:
            if place.owned:
                self.twice += sum(bool(other.cpus & place.owned) for other in places if other is not place)


def _has_own(container: Container, place: Place, topology: Topology) -> bool:
    return count(place.owned & place.cpus) >= (1 if container.hides_threads else container.exclusive)


def _nodes_of(cpus: int, topology: Topology) -> list[int]:
    return [node.id for node in topology.nodes if node.cpus & cpus]


def _homes(cpus: int, topology: Topology) -> list[int]:
    """Return the NUMA node of each CPU."""
    return [node.id for node in topology.nodes for _ in members(node.cpus & cpus)]


def _loads(places: list[tuple[Container, Place]]) -> dict[int, int]:
    """Return for each shared cpuset the requests of the containers that can run only on its CPUs."""
    sharing = [(place.cpus, container.milli) for container, place in places if not place.owned]
    return {cpus: sum(milli for other, milli in sharing if not other & ~cpus) for cpus, _ in sharing}


def _splits(place: Place, places: list[tuple[Container, Place]], topology: Topology) -> bool:
    """Return whether another container can run on a thread of its exclusive cores."""
    cores = sum(core for core in topology.cores if core & place.owned)
    return any(other.cpus & cores for _, other in places if other is not place)


def _memory_distance(place: Place, topology: Topology) -> float:
    """Return the mean distance between its CPUs and its memory nodes."""
    near = [node for node in topology.nodes if place.mems >> node.id & 1]
    homes = _homes(place.cpus, topology)
    return sum(topology.nodes[home].distances[node.id] for home in homes for node in near) / len(homes) / len(near)


def _best_free(node: Node, places: list[tuple[Container, Place]]) -> float:
    """Return the largest part of the CPU time without requests that one NUMA node has, in CPUs."""
    free = {one.id: 1000.0 * count(one.cpus & ~node.reserved) for one in node.topology.nodes if one.cpus}
    for container, place in places:
        for one in node.topology.nodes:
            if one.cpus and place.owned:
                free[one.id] -= 1000 * count(place.owned & one.cpus)
            elif one.cpus and place.cpus:
                free[one.id] -= container.milli * count(place.cpus & one.cpus) / count(place.cpus)
    return max(free.values()) / 1000


def _overcommitted(topology: Topology, places: list[tuple[Container, Place]]) -> int:
    """Return the most bytes by which limits bound to some set of nodes exceed the memory of the set."""
    sizes = {node.id: node.memory for node in topology.nodes}
    bound: dict[int, int] = {}
    for container, place in places:
        if container.memory and place.mems != topology.memory_nodes:
            bound[place.mems] = bound.get(place.mems, 0) + container.memory
    unions = [*bound]
    worst = 0
    for union in unions:
        inside = sum(limits for mems, limits in bound.items() if not mems & ~union)
        worst = max(worst, inside - sum(sizes[id_] for id_ in members(union)))
        if len(unions) < _MOST_UNIONS:
            unions += {union | mems for mems in bound if union & mems}.difference(unions)
    return worst
