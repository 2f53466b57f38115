"""Pools that grow and shrink with the CPU requests of their containers. Pure functions of the places.

A pool has one instance with its own name, or several (``web:1``). No size is stored: it follows from the containers of
each instance, and the CPUs from their decision, so reconcile finds the same CPUs as a hook.
"""

from ...core.node.host.cpulist import count, union
from .policy import DEFAULT_POOL, GROWTH, MILLI, VARIATIONS, changes, grows
from .pool_sets import pool_of, sets_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...core.node.host.topology import Domain, Topology
    from .usage import Usage

    Pool = dict[str, Any]


class Instance:
    """One instance of a pool.

    ``anchor`` are the CPUs of its containers' decision, which it uses first: none without a container. ``inside`` are
    the CPUs that it can use, ``milli`` is the request of its containers, and ``home`` are its present CPUs.
    """

    __slots__ = ("anchor", "home", "inside", "milli", "name", "pool")

    def __init__(self, name: str, pool: "Pool", inside: int) -> None:
        self.name = name
        self.pool = pool
        self.inside = inside
        self.anchor = self.milli = self.home = 0

    def size(self, more: int = 0) -> int:
        """Return the number of its CPUs with so many more thousandths of a CPU."""
        size = max(self.pool.get("minCpus") or 0, -(-(self.milli + more) // MILLI), 1)
        return min(size, self.pool["maxCpus"]) if self.pool.get("maxCpus") else size


def facts(pools: "list[Pool]") -> str:
    """Return the part of the settings on which sizes depend, as text.

    Raises:
        PlacementError: a pool is invalid.
    """
    keys = ("cpus", "minCpus", *GROWTH, *VARIATIONS)
    values = [(name, [f"{key}:{pool[key]}" for key in keys if pool.get(key)]) for name, _, pool in sets_in(pools)]
    return ";".join(f"{name}={'/'.join(texts)}" for name, texts in values)


def instances_of(pools: "list[Pool]", usage: "Usage") -> "list[Instance]":
    """Return the instances of all growing pools with their CPUs, in the order of the settings.

    They use whole cores, or if these leave another one or the default pool too few CPUs, exactly their size.

    Raises:
        PlacementError: a pool is invalid.
    """
    found, left = _with_homes(pools, usage, exact=False)
    if count(left) < needed_by_default(usage) or any(count(one.home) < one.size() for one in found):
        found, _ = _with_homes(pools, usage, exact=True)
    return found


def needed_by_default(usage: "Usage") -> int:
    """Return the number of CPUs that the pool `DEFAULT_POOL` needs, at least one."""
    milli = sum(grant.milli for grant in usage.grants if grant.decision.pool == DEFAULT_POOL and grant.decision.cpus)
    return max(-(-milli // MILLI), 1)


def _with_homes(pools: "list[Pool]", usage: "Usage", *, exact: bool) -> "tuple[list[Instance], int]":
    """Return all instances, and the CPUs that none uses.

    Each uses its anchor first, so that few containers move when another one starts or ends; then free CPUs near to it.
    """
    found: "list[Instance]" = []
    free = usage.common
    for name, inside, pool in sets_in(pools):
        if not grows(pool):
            free &= ~inside
            continue
        living = {grant.decision.pool for grant in usage.grants if pool_of(grant.decision.pool) == name}
        least = min(pool.get("minInstances") or 0, count(inside & usage.common))  # each uses at least one CPU
        numbered = [one for one in (f"{name}:{place + 1}" for place in range(least)) if one not in living]
        names = [name] if is_single(pool) else numbered[: max(least - len(living), 0)]
        named = {one: Instance(one, pool, inside & usage.common) for one in sorted({*names, *living})}
        for grant in usage.grants:
            if grant.decision.pool in named and grant.decision.cpus:
                instance = named[grant.decision.pool]
                instance.milli += grant.milli
                instance.anchor |= grant.decision.cpus
        found += [one for one in named.values() if one.anchor or pool.get("minInstances")]
    for instance in found:
        own = instance.anchor & instance.inside & free
        instance.home = take(own, instance.size(), usage.topology, instance.pool, exact=exact)
        free &= ~instance.home
    for instance in sorted(found, key=lambda one: bool(one.anchor)):  # CPUs kept for an empty one come before growth
        missing = instance.size() - count(instance.home)
        if missing > 0:
            more = take_near(instance, free & instance.inside, missing, usage.topology, exact=exact)
            instance.home |= more
            free &= ~more
    return found, free


def parts_of(pools: "list[Pool]", usage: "Usage") -> "tuple[dict[str, int], dict[str, int]]":
    """Return the CPUs on which containers of each instance run, and those of them that are the instance's own.

    Pools whose CPUs do not change are left out. `DEFAULT_POOL` has all CPUs that no pool uses; a declared pool with
    this name has its declared CPUs.

    Raises:
        PlacementError: a pool is invalid.
    """
    sets = sets_in(pools)
    fixed = [(name, inside & usage.common, pool) for name, inside, pool in sets if not grows(pool)]
    growing = [(one.name, one.home, one.pool) for one in instances_of(pools, usage)]
    rest = usage.common & ~union(home for _, home, _ in fixed + growing)
    parts = {name: 0 for name, _, pool in sets if grows(pool) and is_single(pool)}
    homes = {}
    for name, home, pool in [one for one in fixed if changes(one[2])] + growing:
        level = pool.get("shareIdleCpus")
        idle = _within(level, home, usage.topology) & rest if level else 0
        homes[name] = home
        parts[name] = idle | (_first_threads(home, usage.topology) if pool.get("hideHyperthreads") else home)
    if all(name != DEFAULT_POOL for name, _, _ in sets):
        parts[DEFAULT_POOL] = rest
    return parts, homes


def is_single(pool: "Pool") -> bool:
    """Return whether a pool has one instance, with the pool's name."""
    most: "int | None" = pool.get("maxInstances")
    return not pool.get("instancePer") and not pool.get("minInstances") and (most is None or most == 1)


def take(cpus: int, number: int, topology: "Topology", pool: "Pool", *, exact: bool = False) -> int:
    """Return the first cores of a set with at least so many CPUs, or ``exact`` ones; the whole set if it has fewer.

    With ``spreadCores`` these are exactly so many CPUs, of as many cores as possible.
    """
    found = 0
    if pool.get("spreadCores"):
        rest = [core & cpus for core in topology.cores if core & cpus]
        while rest and count(found) < number:
            for core in rest[: number - count(found)]:
                found |= core & -core
            rest = [core & ~found for core in rest if core & ~found]
        return found
    for core in topology.cores:
        if count(found) >= number:
            break
        found |= core & cpus
        while exact and count(found) > number:
            found &= ~(1 << (core & found).bit_length() - 1)  # the core's last thread
    return found


def take_near(one: Instance, free: int, number: int, topology: "Topology", *, exact: bool) -> int:
    """Return so many free CPUs, in whole cores or ``exact`` ones, as near to an instance's CPUs as possible."""
    found = 0
    for domain in topology.domains:
        if number <= count(found):
            break
        if domain.cpus & one.home or domain is topology.root:
            found |= take(free & domain.cpus & ~found, number - count(found), topology, one.pool, exact=exact)
    return found


def place_for(number: int, free: int, topology: "Topology", pool: "Pool", near: "list[int]") -> int:
    """Return CPUs for a new instance: of the smallest part with enough free CPUs, near to some sets if possible.

    ``spread`` prefers the part with the most free CPUs, otherwise the fullest one is preferred.
    """

    def rank(domain: "Domain") -> "tuple[int, int, int]":
        left = count(free & domain.cpus)
        away = sum(not domain.cpus & cpus or bool(domain.cpus & ~cpus) for cpus in near)
        return away, domain.height, -left if pool.get("spread") else left

    fitting = [domain for domain in topology.domains if count(free & domain.cpus) >= number]
    best = min(fitting, key=rank, default=topology.root)
    return take(free & best.cpus, number, topology, pool)


def _first_threads(cpus: int, topology: "Topology") -> int:
    return union(core & cpus & -(core & cpus) for core in topology.cores)


def _within(level: str, home: int, topology: "Topology") -> int:
    """Return the parts of the machine at a level that have some of these CPUs."""
    if level == "system":
        return topology.online
    parts: "dict[str, list[int]]" = {
        "package": [*topology.packages.values()],
        "die": [*(topology.dies or topology.packages).values()],
        "numa": [node.cpus for node in topology.nodes],
        "l3": [*topology.l3.values()],
        "core": topology.cores,
    }
    return union(cpus for cpus in parts[level] if cpus & home)
