"""The policy of static named pools in ``placement.pools``.

A pool has a name, CPUs, and the namespaces whose containers run in it. CPUs outside all pools are the pool ``default``.
With ``minCpus`` it uses some of its CPUs; see `balloons`.
"""

from ...core.node.host.cpulist import count, parse_list, union
from ...core.node.host.topology import Domain
from .exclusive_cpus import exclusive
from .memory_nodes import memory_for
from .policy import DEFAULT_POOL, GROWTH, RESERVED, SHARED, Decision, PlacementError
from .pool_sets import sets_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...core.node.host.topology import Topology
    from .policy import Request
    from .usage import Usage


def choose(topology: "Topology", usage: "Usage", request: "Request") -> Decision:
    """Place a container in the pool that it names, else in its namespace's, else in the default one; see `policy`.

    Raises:
        PlacementError: the named pool does not exist.
    """
    if request.kind == RESERVED and usage.reserved:
        return Decision(RESERVED, "reserved", cpus=usage.reserved, milli=request.milli, why="the reserved CPUs")
    declared = request.options.get("pools") or []
    pools = sets_of(declared, usage)
    name, why = _pool_of(request, pools)
    pool: "dict[str, Any]" = next((pool for pool in declared if pool["name"] == name), {})
    domain = Domain("pool", name, pools[name][0] & ~_others(name, usage))
    mems = 0 if request.any_memory or request.memory_kinds else pools[name][1]
    request.one_thread = request.one_thread or bool(pool.get("hideHyperthreads"))
    if not domain.cpus & usage.common and not _has_instances(pool):
        # Sharing others' pool is better than running unplaced, which would include exclusive CPUs.
        domain, why = topology.root, f"{why}, has no shared CPU left, so it shares the whole node"
    domain.above = domain.above or [domain]
    cpu_class = pool.get("cpuClass")
    if request.exclusive:
        found = exclusive([domain], usage, request, isolated=bool(pool.get("preferIsolCpus")))
        if found is not None and _leaves_default(found.owned, domain.cpus, pool, usage):
            found.mems = mems or found.mems
            found.runners_up = []
            if found.cpus and _has_instances(pool):
                found.pool, found.cpus = DEFAULT_POOL, pools[DEFAULT_POOL][0]  # its shared part is in no instance
            if cpu_class:  # isolated CPUs get it by the pool's name too
                found.pool, found.why = name, f"{found.why}; CPU class {cpu_class}"
            return found
        why += "; no exclusive CPUs are free"
    cpus = pools[name][0] if domain.name == name else domain.cpus
    place = name
    if _has_instances(pool):
        from .instances import instance_for  # few nodes have such pools

        place, cpus = instance_for(pool, pools[name][0], usage, request)
    return Decision(
        SHARED,
        place,
        cpus=cpus,
        mems=mems or memory_for(cpus, usage, request),
        milli=request.milli,
        why=f"pool {place}, {why}" + (f"; CPU class {cpu_class}" if cpu_class and domain.name == name else ""),
        runners_up=[
            f"{other} ({count(cpus & usage.common)} CPUs)" for other, (cpus, _, _) in pools.items() if other != name
        ],
    )


def _has_instances(pool: "dict[str, Any]") -> bool:
    """Return whether a container of a pool gets one of several instances, or one with limits."""
    return bool(pool) and (pool.get("cpus") is None or any(pool.get(key) for key in GROWTH))


def _leaves_default(owned: int, cpus: int, pool: "dict[str, Any]", usage: "Usage") -> bool:
    """Return whether exclusive CPUs leave one of these CPUs to the containers of the default pool, if it has some."""
    return (
        not usage.homes
        or pool.get("cpus") is not None
        or bool(cpus & usage.common & ~owned)
        or not any(grant.decision.pool == DEFAULT_POOL and grant.decision.cpus for grant in usage.grants)
    )


def _others(name: str, usage: "Usage") -> int:
    """Return the CPUs that instances of pools use, but for those of a pool with this name and one instance."""
    return union(cpus for place, cpus in usage.homes.items() if place != name)


def sets_of(pools: "list[dict[str, Any]]", usage: "Usage") -> "dict[str, tuple[int, int, list[str]]]":
    """Return the pools by name: CPUs, NUMA nodes, and patterns of namespaces. The default one is last.

    Raises:
        PlacementError: a set is invalid.
    """
    found: "dict[str, tuple[int, int, list[str]]]" = {}
    left = usage.usable
    for name, cpus, pool in sets_in(pools):
        try:
            mems = parse_list(pool.get("mems") or "") & usage.topology.memory_nodes
            found[name] = cpus & usage.usable, mems, pool.get("namespaces") or []
        except (TypeError, ValueError, AttributeError) as error:
            raise PlacementError(f"invalid placement.pools: {error}", hint="run `resctrl-hook config check`") from error
        if cpus > 0:  # not those of a pool without CPUs of its own
            left &= ~cpus
    if DEFAULT_POOL not in found:
        # If the pools contain every CPU, containers without a pool run on all of them.
        found[DEFAULT_POOL] = left or usage.usable, 0, []
    return found


def _pool_of(request: "Request", pools: "dict[str, tuple[int, int, list[str]]]") -> "tuple[str, str]":
    from ...core.node.names import matches

    if request.pool:
        if request.pool not in pools:
            known = ", ".join(pools)
            raise PlacementError(f"unknown pool {request.pool[:80]!r}", hint=f"the pools are {known}")
        return request.pool, "requested"
    if request.matched in pools:
        return request.matched, "by its namespace or an expression"
    for name, (_, _, namespaces) in pools.items():
        if any(matches(pattern, request.namespace) for pattern in namespaces):
            return name, f"of its namespace ({request.namespace})"
    return DEFAULT_POOL, "because no pool matches it"
