"""A machine as text: its parts as nested boxes, a letter for each CPU, and the containers that run there."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from resctrl_hooks.core.inventory.account import Account
from resctrl_hooks.core.inventory.base import Record
from resctrl_hooks.core.node.host.cpulist import count, format_list, lowest, members
from resctrl_hooks.core.node.host.topology import Domain, MemoryNode, Topology
from resctrl_hooks.placement.inventory.unplaced import Unplaced
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.entries import Entry
from resctrl_hooks.placement.node.usage import Usage, effective

FREE, OWNED, RESERVED, ISOLATED = ".", "#", "r", "i"
LEGEND = f"{FREE} shared  {OWNED} exclusive  {RESERVED} reserved  {ISOLATED} isolated; threads of one core are adjacent"
UNPLACED = "unplaced"
_SHOWN, _KEY = 12, 36


class Others(NamedTuple):
    """The containers that placement has not placed, and the names of all containers by id."""

    unplaced: Sequence[Unplaced]
    names: Mapping[str, str]


def draw(book: Book, others: Others | None = None) -> str:
    """Return the picture; with the ``others``, all containers are listed below their parts."""
    topology, used = book.topology, book.usage()
    lines: list[str] = []
    _part(topology.root, 0, book, used, others, lines)
    lines += [
        f"memory node {node.id}: {_bytes(node.memory)} of {node.kind} memory, no CPUs"
        for node in topology.nodes
        if not node.cpus
    ]
    if topology.offline:
        lines.append(f"offline CPUs: {format_list(topology.offline)}")
    if topology.kinds:
        lines.append("; ".join(f"{kind} CPUs: {format_list(cpus)}" for kind, cpus in topology.kinds.items()))
    lines.append(LEGEND)
    return "\n".join(lines)


def _part(domain: Domain, depth: int, book: Book, used: Usage, others: Others | None, lines: list[str]) -> None:
    topology, indent = book.topology, "  " * depth
    below = [part for part in topology.domains if part is not domain and domain in part.above[1:2]]
    text = f"{indent}{domain.name}  CPUs {format_list(domain.cpus)}"
    memory = [node for node in topology.nodes if node.cpus == domain.cpus]
    if memory:
        text += f"  {_memory(memory[0])}"
    if others is not None:
        milli, users = used.load(domain.cpus)
        within = [one for one in others.unplaced if not one.cpus & ~domain.cpus]
        milli, users = milli + sum(one.milli for one in within), users + len(within)
        free = count(domain.cpus & used.common)
        text += f"  {free} of {domain.size} CPUs shared by {users} container{'s' * (users != 1)} requesting {milli}m"
    if not below:
        text += f"  [{_cores(domain, topology, used)}]"
    lines.append(text)
    if others is not None:
        rows = [(one.id, one.key, one.decision.kind, effective(one.decision, used)) for one in _here(book, domain)]
        unplaced = [one for one in others.unplaced if _smallest(topology, one.cpus) is domain]
        rows += [(one.id, one.key, UNPLACED, one.cpus) for one in unplaced]
        for id_, key, kind, runs in rows:
            of = f" of {key[:_KEY]}" if key not in ("", id_) else ""
            name = others.names.get(id_) or f"{id_[:_SHOWN]}{of}"
            lines.append(f"{indent}  - {name}: {kind}, CPUs {format_list(runs)}")
    for part in sorted(below, key=lambda part: lowest(part.cpus)):
        _part(part, depth + 1, book, used, others, lines)


def _here(book: Book, domain: Domain) -> list[Entry]:
    """Return the containers placed on this part: the smallest one with all CPUs of their pool and their own."""
    found = []
    for entry in book.entries.values():
        cpus = (entry.decision.cpus | entry.decision.owned) & book.topology.online
        if _smallest(book.topology, cpus) is domain:
            found.append(entry)
    return sorted(found, key=lambda entry: (entry.key, entry.id))


def _smallest(topology: Topology, cpus: int) -> Domain:
    return next((part for part in topology.domains if not cpus & ~part.cpus), topology.root)


def _cores(domain: Domain, topology: Topology, used: Usage) -> str:
    cores = [core & domain.cpus for core in topology.cores if core & domain.cpus]
    return " ".join("".join(_letter(cpu, topology, used) for cpu in members(core)) for core in cores)


def _letter(cpu: int, topology: Topology, used: Usage) -> str:
    for mask, letter in ((used.owned, OWNED), (used.reserved, RESERVED), (topology.isolated, ISOLATED)):
        if mask >> cpu & 1:
            return letter
    return FREE


def _memory(node: MemoryNode) -> str:
    return f"memory {_bytes(node.memory)}" if node.memory else "memory"


def _bytes(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


class MemoryNodeReport(Record):
    """A NUMA node."""

    id: int
    cpus: str
    distances: dict[str, int] = Field(description="Distance to each node, as in ACPI's SLIT: 10 is local.")
    memory_bytes: int
    kind: str


class PlacedContainer(Record):
    """A container with CPUs from placement, or one that is not placed."""

    container: str
    name: str = Field(description="NAMESPACE/POD/CONTAINER as `list` has it, or Podman's name; empty if unknown.")
    key: str
    kind: str = Field(description="The kind of its place, or `unplaced`.")
    pool: str
    cpus: str = Field(description="CPUs of the pool on which its shared part runs.")
    owned: str = Field(description="Exclusive CPUs of the container.")
    hidden: str = Field(description="Its exclusive CPUs that it does not use, so that each core runs one thread.")
    mems: str = Field(description="NUMA nodes of its memory; empty for all.")
    request_milli_cpus: int
    runs_on: str = Field(description="Its present CPUs.")


class TopologyReport(Record):
    """A machine. Sets of CPUs and nodes are lists as the kernel writes them: `0-3,8`."""

    online: str
    offline: str
    isolated: str
    packages: dict[str, str]
    dies: dict[str, str]
    l3: dict[str, str]
    cores: list[str]
    kinds: dict[str, str]
    nodes: list[MemoryNodeReport]
    account: Account | None = Field(description="Owners of RMIDs and CLOSIDs; null if resctrl is not mounted.")
    usage: list[PlacedContainer] | None = Field(description="Only with --usage.")


def report(book: Book, account: Account | None = None, others: Others | None = None) -> TopologyReport:
    """Return the machine and, with the ``others``, all containers on it, as data."""
    record = book.topology.as_record()
    nodes = [{**node, "memory_bytes": node["memory"]} for node in record["nodes"]]
    containers = None if others is None else [*_placed(book, others.names), *_unplaced(others)]
    return TopologyReport.model_validate({**record, "nodes": nodes, "account": account, "usage": containers})


def _placed(book: Book, names: Mapping[str, str]) -> list[PlacedContainer]:
    used = book.usage()
    return [
        PlacedContainer(
            container=entry.id,
            name=names.get(entry.id, ""),
            key=entry.key,
            kind=entry.decision.kind,
            pool=entry.decision.pool,
            **{name: format_list(getattr(entry.decision, name)) for name in ("cpus", "owned", "hidden", "mems")},
            request_milli_cpus=entry.milli,
            runs_on=format_list(effective(entry.decision, used)),
        )
        for entry in book.entries.values()
    ]


def _unplaced(others: Others) -> list[PlacedContainer]:
    none = dict.fromkeys(("pool", "cpus", "owned", "hidden", "mems"), "")
    return [
        PlacedContainer(
            container=one.id,
            name=others.names.get(one.id, ""),
            key=one.key,
            kind=UNPLACED,
            request_milli_cpus=one.milli,
            runs_on=format_list(one.cpus),
            **none,
        )
        for one in others.unplaced
    ]
