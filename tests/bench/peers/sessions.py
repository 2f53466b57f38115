"""Sessions of containers: seeded starts and ends that a scheduler would allow, with the values of a kubelet."""

import random
from dataclasses import dataclass, field

from resctrl_hooks.core.node.host.topology import DRAM, FAST, SLOW

from .nodes import MAJOR, Device, Node

_PERIOD = 100_000
_GIB = 1 << 30
_NRI = "resource-policy.nri.io"
GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
_MEMORY_TYPES = {FAST: "hbm", SLOW: "pmem"}


@dataclass
class Container:
    """A container of a session; CPUs in thousandths, memory in bytes."""

    number: int
    pod: int
    qos: str
    milli: int
    limit: int
    memory: int
    memory_request: int
    namespace: str
    annotations: dict[str, str] = field(default_factory=dict)
    devices: list[Device] = field(default_factory=list)
    memory_kind: str = DRAM
    pod_annotations: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.number:064x}"

    @property
    def uid(self) -> str:
        return f"3f0ac7f2-8a3b-4f0e-9a55-{self.pod:012d}"

    @property
    def name(self) -> str:
        return f"c{self.number}"

    @property
    def cgroup(self) -> str:
        """The pod's cgroup."""
        middle = "" if self.qos == GUARANTEED else f"/{self.qos.lower()}"
        return f"/kubepods{middle}/pod{self.uid}"

    @property
    def exclusive(self) -> int:
        """The number of its exclusive CPUs by the rules of topology-aware."""
        if self.qos != GUARANTEED or f"prefer-shared-cpus.{_NRI}" not in self.annotations:
            return 0 if self.qos != GUARANTEED or self.milli % 1000 else self.milli // 1000
        return self.milli // 1000 if self.annotations[f"prefer-shared-cpus.{_NRI}"] == "false" else 0

    @property
    def hides_threads(self) -> bool:
        return f"hide-hyperthreads.{_NRI}" in self.annotations

    @property
    def shares(self) -> int:
        return max(self.milli * 1024 // 1000, 2)

    def event(self, kind: str, capacity: int) -> dict[str, object]:
        """Return its start or end for the driver; ``capacity`` is the node's memory."""
        score = {GUARANTEED: -997, BEST_EFFORT: 1000}.get(self.qos, 0)
        if self.qos == BURSTABLE:
            score = min(max(1000 - 1000 * self.memory_request // capacity, 3), 999)
        return {
            "event": kind,
            "id": self.id,
            "name": self.name,
            "pod": self.uid,
            "podName": f"pod-{self.pod}",
            "namespace": self.namespace,
            "cgroup": self.cgroup,
            "annotations": self.pod_annotations,
            "shares": self.shares,
            "quota": self.limit * _PERIOD // 1000,
            "period": _PERIOD,
            "memory": self.memory,
            "oomScoreAdj": score,
            "devices": [{"path": one.path, "type": "c", "major": MAJOR, "minor": one.minor} for one in self.devices],
        }


class _Scheduler:
    """The requests of the running containers, which never exceed the node."""

    def __init__(self, node: Node) -> None:
        cpus = node.topology.online & ~node.reserved
        self._free = {kind: node.memory(kind) for kind in (DRAM, FAST, SLOW)}
        self._milli = 1000 * cpus.bit_count()

    def add(self, pod: list[Container], sign: int = 1) -> bool:
        """Add or remove a pod; return whether it fits."""
        free = dict(self._free)
        for one in pod:
            free[one.memory_kind] -= sign * one.memory_request
        milli = self._milli - sign * sum(one.milli for one in pod)
        if milli < 0 or min(free.values()) < 0:
            return False
        self._milli, self._free = milli, free
        return True


def session(node: Node, seed: int, starts: int) -> "list[tuple[str, Container]]":
    """Return the events of about so many starts: pods start while they fit, else one ends; each 4th turn one ends."""
    chance = random.Random(f"{node.name}/{seed}")
    scheduler = _Scheduler(node)
    running: list[list[Container]] = []
    events: list[tuple[str, Container]] = []
    started = pods = 0
    while started < starts:
        pods += 1
        pod = _pod(node, chance, started, pods)
        while not scheduler.add(pod) and running:
            events += _end(running, chance, scheduler)
        running.append(pod)
        events += [("start", one) for one in pod]
        started += len(pod)
        if chance.random() < 0.25:
            events += _end(running, chance, scheduler)
    return events


def _end(
    running: "list[list[Container]]", chance: random.Random, scheduler: _Scheduler
) -> "list[tuple[str, Container]]":
    pod = running.pop(chance.randrange(len(running)))
    scheduler.add(pod, -1)
    return [("end", one) for one in pod]


def _pod(node: Node, chance: random.Random, first: int, number: int) -> list[Container]:
    qos = chance.choices([GUARANTEED, BURSTABLE, BEST_EFFORT], [5, 4, 1])[0]
    namespace = chance.choice(["shop", "web", "batch"])
    containers = chance.choice([1, 1, 2, 3])
    pod = [_container(node, chance, first + place, number, qos, namespace) for place in range(containers)]
    for one in pod:
        for other in pod:
            one.pod_annotations |= {f"{key}/container.{other.name}": text for key, text in other.annotations.items()}
    return pod


def _container(node: Node, chance: random.Random, number: int, pod: int, qos: str, namespace: str) -> Container:
    largest = max(node.topology.online.bit_count() // 16, 2)
    share = max(node.memory(DRAM) // node.topology.online.bit_count() // (256 << 20), 1)  # a CPU's, in 256 MiB
    milli = limit = memory = request = 0
    annotations: dict[str, str] = {}
    if qos == GUARANTEED:
        whole = chance.choice([1, 1, 2, 2, 4, largest])
        milli = limit = 1000 * whole + chance.choice([0, 0, 0, 500])
        memory = request = (256 << 20) * chance.randint(1, share) * max(whole, 1)
        shared = chance.choices(["", "true", "false"], [7, 1, 2])[0]
        if shared or milli % 1000:
            annotations[f"prefer-shared-cpus.{_NRI}"] = shared or "true"
        if chance.random() < 0.05:
            annotations[f"hide-hyperthreads.{_NRI}"] = "true"
    elif qos == BURSTABLE:
        milli = chance.choice([100, 250, 500, 1000, 1500, 2000, 1000 * largest])
        limit = chance.choice([0, milli, 2 * milli])
        memory = chance.choice([0, (256 << 20) * chance.randint(1, 2 * share)])
        request = memory // 2
    devices = [chance.choice(node.devices)] if chance.random() < 0.15 else []
    made = Container(number, pod, qos, milli, limit, memory, request, namespace, annotations, devices)
    kinds = [kind for kind in (FAST, SLOW) if node.memory(kind)]
    if kinds and memory and chance.random() < 0.2:
        made.memory_kind = chance.choice(kinds)
        made.annotations[f"memory-type.{_NRI}"] = _MEMORY_TYPES[made.memory_kind]
        made.memory_request = made.memory  # all of it must fit into one kind
    return made
