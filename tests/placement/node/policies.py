"""Placement's policies, and their decisions on a simulated machine."""

from resctrl_hooks.core.node.host.topology import Topology
from resctrl_hooks.placement.node import pools, topology_aware
from resctrl_hooks.placement.node.policy import Decision, Request
from resctrl_hooks.placement.node.usage import Grant, Usage

POLICIES = {"topology-aware": topology_aware.choose, "pools": pools.choose}


def place(topology: Topology, *wanted: Request, reserved: int = 0) -> list[Decision]:
    """Return the decisions of topology-aware for containers that start in this order."""
    grants: list[Grant] = []
    for request in wanted:
        decision = topology_aware.choose(topology, Usage(topology, grants, reserved), request)
        grants.append(Grant(decision, request.key, memory=request.memory))
    return [grant.decision for grant in grants]
