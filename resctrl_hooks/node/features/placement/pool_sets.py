"""The CPUs of pools by the settings, and the names of their instances."""

from ...host.cpulist import parse_list, union
from .policy import PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
        raise PlacementError(f"invalid placement.pools: {error}") from error


def _with_numbers(pool: "dict[str, Any]") -> "dict[str, Any]":
    numbers = ("minCpus", "maxCpus", "minInstances", "maxInstances")
    return {**pool, **{key: int(pool[key]) for key in numbers if pool.get(key) is not None}}
