"""The memory policy of a class, set_mempolicy(2), which only a runtime can set for a container's processes.

Sources: containerd/nri, pkg/api/api.proto, LinuxMemoryPolicy (NRI 0.12); nri-plugins, docs/memory/memory-policy.md, for
the words that name nodes.
"""

from ...core.node.errors import HookError
from ...core.node.host.cpulist import format_list, parse_list
from ...core.node.host.topology_sysfs import read_topology

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from ...core.node.host.topology import Topology

MODES: "Final" = (
    "MPOL_DEFAULT",
    "MPOL_PREFERRED",
    "MPOL_BIND",
    "MPOL_INTERLEAVE",
    "MPOL_LOCAL",
    "MPOL_PREFERRED_MANY",
    "MPOL_WEIGHTED_INTERLEAVE",
)
"""In the order of NRI's numbers, which are the kernel's."""
FLAGS: "Final" = ("MPOL_F_STATIC_NODES", "MPOL_F_RELATIVE_NODES", "MPOL_F_NUMA_BALANCING")
"""In the order of NRI's numbers."""
WITHOUT_NODES: "Final" = ("MPOL_DEFAULT", "MPOL_LOCAL")
SINCE: "Final" = (0, 12)
MAX_DISTANCE: "Final" = "max-dist:"
WORDS: "Final" = ("all", "allowed-mems", "cpu-packages", "cpu-nodes")


class MemoryPolicyError(HookError):
    """The policy of a class cannot be set for this container."""

    reason = "memory-policy"


def memory_policy(
    spec: "dict[str, Any]", version: "tuple[int, int]", cpu: "dict[str, Any]", sys_path: str
) -> "dict[str, Any]":
    """Return NRI's message of a class's policy.

    Args:
        spec: the class's ``policy``.
        version: that of the runtime's NRI; older ones drop the field without a word.
        cpu: the container's ``cpus`` and ``mems``; missing or empty ones mean all.
        sys_path: the kernel's sysfs.

    Raises:
        MemoryPolicyError: the runtime has no memory policies, or the policy needs nodes that the container may not use.
        TopologyError: the machine's nodes are unknown.
    """
    if version < SINCE:
        hint = "NRI 0.12 has them (CRI-O 1.37)"
        raise MemoryPolicyError("the runtime's NRI has no memory policies", hint=hint)
    mode = spec["mode"]
    policy = {"mode": MODES.index(mode), "flags": [FLAGS.index(flag) for flag in spec.get("flags") or []]}
    if mode in WITHOUT_NODES:
        return policy
    topology = read_topology(sys_path)
    allowed = parse_list(cpu["mems"]) if cpu.get("mems") else topology.memory_nodes
    cpus = parse_list(cpu["cpus"]) & topology.online if cpu.get("cpus") else topology.online
    requested = nodes_of(spec.get("nodes") or "allowed-mems", topology, cpus, allowed)
    if not requested & allowed:
        raise MemoryPolicyError(
            f"{mode} of nodes {format_list(requested) or 'none'}: the container may only use {format_list(allowed)}",
            hint="use `nodes: allowed-mems`, or bind the container to these nodes",
        )
    return {**policy, "nodes": format_list(requested & allowed)}


def nodes_of(words: str, topology: "Topology", cpus: int, allowed: int) -> int:
    """Return the set of NUMA nodes that a policy names, for a container with these CPUs and allowed nodes."""
    if words == "all":
        return topology.memory_nodes
    if words == "allowed-mems":
        return allowed
    near = [node for node in topology.nodes if node.cpus & cpus]
    if words == "cpu-nodes":
        return _set_of(node.id for node in near)
    if words == "cpu-packages":
        package = 0
        for of in topology.packages.values():
            package |= of if of & cpus else 0
        return _set_of(node.id for node in topology.nodes if node.cpus & package)
    if words.startswith(MAX_DISTANCE):
        most = int(words[len(MAX_DISTANCE) :])
        return _set_of(id_ for node in near for id_, distance in node.distances.items() if distance <= most)
    return parse_list(words)


def _set_of(numbers: "Any") -> int:
    found = 0
    for number in numbers:
        found |= 1 << number
    return found
