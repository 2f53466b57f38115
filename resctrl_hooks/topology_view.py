"""A machine as text: its parts within each other, a letter for each CPU, and the containers that run there."""

from typing import Any

from resctrl_hooks.node.features.placement.allocations import Book
from resctrl_hooks.node.features.placement.entries import Entry
from resctrl_hooks.node.features.placement.usage import Usage, effective
from resctrl_hooks.node.host.cpulist import count, format_list, lowest, members
from resctrl_hooks.node.host.topology import Domain, MemoryNode, Topology

FREE, OWNED, RESERVED, ISOLATED = ".", "#", "r", "i"
LEGEND = f"{FREE} shared  {OWNED} somebody's own  {RESERVED} reserved  {ISOLATED} isolated; threads of a core together"
_SHOWN = 12


def draw(book: Book, *, usage: bool = False) -> str:
    """The picture; with ``usage`` the containers stand below their parts of the machine."""
    topology, used = book.topology, book.usage()
    lines: list[str] = []
    _part(topology.root, 0, topology, used, book if usage else None, lines)
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


def _part(domain: Domain, depth: int, topology: Topology, used: Usage, book: Book | None, lines: list[str]) -> None:
    indent = "  " * depth
    below = [part for part in topology.domains if part is not domain and domain in part.above[1:2]]
    text = f"{indent}{domain.name}  CPUs {format_list(domain.cpus)}"
    memory = [node for node in topology.nodes if node.cpus == domain.cpus]
    if memory:
        text += f"  {_memory(memory[0])}"
    if book is not None:
        milli, users = used.load(domain.cpus)
        free = count(domain.cpus & used.common)
        text += f"  {free} of {domain.size} CPUs shared by {users} containers asking for {milli}m"
    if not below:
        text += f"  [{_cores(domain, topology, used)}]"
    lines.append(text)
    for entry in _here(book, domain) if book is not None else []:
        runs = format_list(effective(entry.decision, used))
        lines.append(f"{indent}  - {entry.id[:_SHOWN]} of {entry.key[:36]}: {entry.decision.kind}, CPUs {runs}")
    for part in sorted(below, key=lambda part: lowest(part.cpus)):
        _part(part, depth + 1, topology, used, book, lines)


def _here(book: Book, domain: Domain) -> list[Entry]:
    """The containers whose place is this part: the smallest that holds all of their pool and their own CPUs."""
    found = []
    for entry in book.entries.values():
        cpus = (entry.decision.cpus | entry.decision.owned) & book.topology.online
        smallest = next((part for part in book.topology.domains if not cpus & ~part.cpus), book.topology.root)
        if smallest is domain:
            found.append(entry)
    return sorted(found, key=lambda entry: (entry.key, entry.id))


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


def usage_as_json(book: Book) -> list[dict[str, Any]]:
    """Who is where, as plain values."""
    used = book.usage()
    return [
        {
            "container": entry.id,
            "key": entry.key,
            **entry.decision.as_record(),
            "runsOn": format_list(effective(entry.decision, used)),
        }
        for entry in book.entries.values()
    ]
