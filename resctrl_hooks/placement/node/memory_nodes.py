"""The memory nodes of a container: near to its CPUs, or of the kinds of memory that it requests."""

from ...core.node.host.topology import DRAM
from .policy import PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .policy import Request
    from .usage import Usage


def short_of_memory(usage: "Usage", request: "Request") -> "set[int]":
    """Return the CPUs of the parts into whose NUMA nodes the memory limit does not fit."""
    found: "set[int]" = set()
    fits: "dict[int, bool]" = {}
    for domain in usage.topology.domains if request.binds_memory and not request.memory_kinds else ():
        mems = sum(1 << node.id for node in usage.topology.nodes if node.cpus & domain.cpus)
        if mems not in fits:
            fits[mems] = usage.memory_fits(mems, request.memory)
        if not fits[mems]:
            found.add(domain.cpus)
    return found


def memory_for(cpus: int, usage: "Usage", request: "Request") -> int:
    """Return the NUMA nodes of a set of CPUs, and next ones until the memory limit fits; 0 for all nodes.

    A container without a limit is not bound: the kernel takes memory from the CPU's own node while some is free there,
    and the next node's memory is better than the end of a process.
    """
    if request.memory_kinds and request.options["pinMemory"] and not request.any_memory:
        return _memory_of_kinds(cpus, usage, request)
    if not request.binds_memory:
        return 0
    mems = 0
    topology = usage.topology
    for node in topology.memory_near(cpus):
        if not node.cpus & cpus and usage.memory_fits(mems, request.memory):
            break
        mems |= 1 << node.id
    return mems if mems != topology.memory_nodes and usage.memory_fits(mems, request.memory) else 0


def _memory_of_kinds(cpus: int, usage: "Usage", request: "Request") -> int:
    """Return nodes of the requested kinds: the nearest of each until the limit fits; all of them without a limit.

    Raises:
        PlacementError: it does not fit, or a kind is missing.
    """
    kinds, topology = request.memory_kinds, usage.topology
    near = [topology.memory_near(cpus, kind) for kind in kinds]
    for kind, nodes in zip(kinds, near):
        if not nodes and (kind != DRAM or topology.nodes):  # a kernel without NUMA has DRAM and no nodes
            raise PlacementError(f"no {kind} memory on this machine", hint="`resctrl-hook topology` lists the kinds")
    mems = 0
    for depth in range(max(map(len, near))):
        mems |= sum(1 << nodes[depth].id for nodes in near if depth < len(nodes))
        if request.memory and usage.memory_fits(mems, request.memory):
            break
    else:
        if request.memory and mems != topology.memory_nodes:
            raise PlacementError(
                f"no room for its memory limit in {' and '.join(kinds)} memory",
                hint="lower the limit, or add a type to the annotation memory-type.resource-policy.nri.io",
            )
    return mems if mems != topology.memory_nodes else 0
