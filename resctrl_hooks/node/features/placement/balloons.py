"""Pools that grow and shrink with the CPU requests of their containers. Pure functions of the places.

No size is stored: it follows from the containers of each pool, so reconcile finds the same CPUs as a hook.
"""

from ...host.cpulist import count, format_list
from .policy import DEFAULT_POOL, MILLI, sets_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...host.topology import Topology
    from .usage import Usage


def facts(pools: "list[dict[str, Any]]") -> str:
    """Return the part of the settings on which sizes depend, as text.

    Raises:
        PlacementError: a pool is invalid.
    """
    return ";".join(f"{name}={format_list(cpus)}/{pool['minCpus']}" for name, cpus, pool in sets_in(pools))


def parts_of(pools: "list[dict[str, Any]]", topology: "Topology", usage: "Usage") -> "dict[str, int]":
    """Return the present CPUs of the pools with ``minCpus``, and of `DEFAULT_POOL`: all CPUs that no pool uses.

    A pool uses its first cores, so that few containers move when another one starts or ends. A pool without a container
    uses no CPU. A declared pool `DEFAULT_POOL` has its declared CPUs, as any pool without ``minCpus``.

    Raises:
        PlacementError: a pool is invalid.
    """
    parts: "dict[str, int]" = {}
    used = 0
    sets = sets_in(pools)
    for name, declared, pool in sets:
        cpus = declared & usage.common
        if pool["minCpus"] is not None:
            cpus = parts[name] = _first(cpus, _size(name, pool["minCpus"], usage), topology)
        used |= cpus
    if all(name != DEFAULT_POOL for name, _, _ in sets):
        parts[DEFAULT_POOL] = usage.common & ~used
    return parts


def _size(name: str, least: int, usage: "Usage") -> int:
    """Return the number of CPUs for the shared requests of a pool's containers."""
    grants = [grant for grant in usage.grants if grant.decision.pool == name and grant.decision.cpus]
    milli = sum(grant.milli for grant in grants)
    return max(least, -(-milli // MILLI), 1) if grants else 0


def _first(cpus: int, number: int, topology: "Topology") -> int:
    """Return the first cores of a set with at least so many CPUs; the whole set if it has fewer."""
    found = 0
    for core in topology.cores:
        if count(found) >= number:
            break
        found |= core & cpus
    return found
