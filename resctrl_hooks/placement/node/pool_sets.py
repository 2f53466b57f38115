"""The CPUs of pools, by the settings and by their containers, and the names of their instances."""

from ...core.node.host.cpulist import parse_list, union
from .policy import PlacementError, pools_in_use
from .usage import effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .usage import Usage


def pool_of(name: str) -> str:
    """Return the pool's name in the name of a place: instances of a pool have names such as ``web:1``."""
    return name.partition(":")[0]


def sets_in(pools: "list[dict[str, Any]]") -> "list[tuple[str, int, dict[str, Any]]]":
    """Return each declared pool's name, CPUs and other values. A pool without CPUs can use all that no pool lists.

    Raises:
        PlacementError: the name, the CPUs or a number is missing or invalid.
    """
    try:
        listed = union(parse_list(pool.get("cpus") or "") for pool in pools)
        return [
            (pool["name"], ~listed if pool.get("cpus") is None else parse_list(pool["cpus"]), _with_numbers(pool))
            for pool in pools
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlacementError(f"invalid placement.pools: {error}", hint="run `resctrl-hook config check`") from error


def used_by_key(key: str, usage: "Usage", options: "dict[str, Any]") -> "list[tuple[str, int]]":
    """Return the values of a key of pools, each with the pool's CPUs on which its containers run, and their own ones.

    ``options`` is the ``placement`` section.

    Raises:
        PlacementError: a pool is invalid.
    """
    found: "list[tuple[str, int]]" = []
    for name, inside, pool in sets_in(pools_in_use(options)):
        if pool.get(key):
            own = [grant.decision for grant in usage.grants if pool_of(grant.decision.pool) == name]
            cpus = union(one.owned | effective(one, usage) & usage.homes.get(one.pool, inside) for one in own)
            found.append((pool[key], cpus))
    return found


def _with_numbers(pool: "dict[str, Any]") -> "dict[str, Any]":
    numbers = ("minCpus", "maxCpus", "minInstances", "maxInstances")
    return {**pool, **{key: int(pool[key]) for key in numbers if pool.get(key) is not None}}
