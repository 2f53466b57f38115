"""Pools that grow and shrink with the CPU requests of their containers. Pure functions of the places.

No size is stored: it follows from the containers of each pool, so reconcile finds the same CPUs as a hook.
"""

from ...host.cpulist import count, parse_list
from .policy import DEFAULT_POOL, MILLI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...host.topology import Topology
    from .usage import Usage


def facts(pools: "list[dict[str, Any]]") -> str:
    """Return the part of the settings on which sizes depend, as text."""
    return ";".join(f"{pool['name']}={pool['cpus']}/{pool.get('minCpus')}" for pool in pools)


def parts_of(pools: "list[dict[str, Any]]", topology: "Topology", usage: "Usage") -> "dict[str, int]":
    """Return the present CPUs of the pools with ``minCpus``, and of `DEFAULT_POOL`: all CPUs that no pool uses.

    A pool takes its first cores, so that a container more or less does not move the others. A pool without a container
    uses no CPU.
    """
    parts: "dict[str, int]" = {}
    used = 0
    for pool in pools:
        cpus = parse_list(pool["cpus"]) & usage.common
        if pool.get("minCpus") is not None:
            cpus = parts[pool["name"]] = _first(cpus, _size(pool, usage), topology)
        used |= cpus
    parts.setdefault(DEFAULT_POOL, usage.common & ~used)
    return parts


def _size(pool: "dict[str, Any]", usage: "Usage") -> int:
    """Return the number of CPUs for the shared requests of a pool's containers."""
    grants = [grant for grant in usage.grants if grant.decision.pool == pool["name"] and grant.decision.cpus]
    milli = sum(grant.milli for grant in grants)
    return max(pool["minCpus"], -(-milli // MILLI), 1) if grants else 0


def _first(cpus: int, number: int, topology: "Topology") -> int:
    """Return the first cores of a set with at least so many CPUs; the whole set if it has fewer."""
    found = 0
    for core in topology.cores:
        if count(found) >= number:
            break
        found |= core & cpus
    return found
