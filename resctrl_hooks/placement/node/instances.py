"""The choice of an instance for a container of a growing pool: an existing one with room, or a new one."""

from ...core.node.host.cpulist import count, union
from .balloons import Instance, instances_of, is_single, needed_by_default, place_for, take
from .policy import MILLI, PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .policy import Request
    from .usage import Usage

CONTAINER, POD, NAMESPACE = "container", "pod", "namespace"


def instance_for(pool: "dict[str, Any]", inside: int, usage: "Usage", request: "Request") -> "tuple[str, int]":
    """Return the name and the anchor of the instance of a pool for a container. ``inside`` are the pool's CPUs.

    Raises:
        PlacementError: no instance has room, and no further one is possible.
    """
    name = pool["name"]
    every = instances_of(request.options["pools"], usage)
    free = inside & usage.common
    loose = 0  # threads that instances have only because they use whole cores
    for one in every:
        free &= ~one.home
        loose |= inside & one.home & ~take(one.home, one.size(), usage.topology, one.pool, exact=True)
    spare = count(free | loose) - (needed_by_default(usage) if pool.get("cpus") is None else 0)
    own = [one for one in every if one.pool["name"] == name]
    group = _group(name, pool, request)
    living = {grant.decision.pool for grant in usage.grants if grant.key == request.key}
    pods = [one for one in own if one.name in living]
    if group:
        chosen = [one for one in own if one.name == group or one.name.startswith(f"{group}:")]
    elif pool.get("instancePer") == CONTAINER:
        chosen = [one for one in own if not one.anchor]
    elif pool.get("instancePer") == POD:
        chosen = pods or [one for one in own if not one.anchor]
    else:
        chosen = [*pods, *(one for one in own if one not in pods)]
    milli = request.milli
    best = next((one for one in chosen if _fits(one, milli, spare, loose)), None)
    empty = next((one for one in own if not one.anchor and one.home), None)
    if group and best is None and empty and _fits(empty, milli, spare, loose):
        return _next_name(group, pool, own), empty.home
    most = 1 if is_single(pool) else pool.get("maxInstances")
    if best is None and (not most or len(own) < most):
        new = Instance(_next_name(group or name, pool, own), pool, inside & usage.common)
        if _fits(new, milli, spare, loose):
            anchors = union(one.anchor for one in every)
            size = new.size(milli)
            room = free & ~anchors if count(free & ~anchors) >= size else free
            room = room if count(room) >= size else free | loose
            return new.name, place_for(size, room, usage.topology, pool, request.near)
    if best is None:  # a preference of groups for instances of their own cannot be met
        best = min((one for one in own if _fits(one, milli, spare, loose)), key=lambda one: one.milli, default=None)
    if best is None:
        limits = f" of at most {pool['maxCpus']} CPUs" if pool.get("maxCpus") else ""
        raise PlacementError(
            f"no room for {milli}m in pool {name}: {len(own)} instances{limits}, {spare} CPUs free",
            hint="raise maxCpus or maxInstances of the pool, or stop a container",
        )
    return best.name, best.anchor or best.home


def _fits(one: Instance, milli: int, spare: int, loose: int) -> bool:
    """Return whether an instance can grow for a container, by at most so many CPUs, of which some may be its own."""
    most = one.pool.get("maxCpus")
    if most and one.milli + milli > most * MILLI:
        return False
    return one.size(milli) <= count(one.home & ~loose) + max(spare, 0)


def _group(name: str, pool: "dict[str, Any]", request: "Request") -> str:
    """Return the name of the first instance of a container's group; empty if instances have numbers only."""
    per = pool.get("instancePer") or ""
    group = request.namespace if per == NAMESPACE else request.group if "${" in per else ""
    return f"{name}:{group}" if group else ""


def _next_name(name: str, pool: "dict[str, Any]", own: "list[Instance]") -> str:
    """Return the name of a new instance of a pool, or of a group of containers in it (``web:shop``)."""
    names = {one.name for one in own}
    grouped = ":" in name
    if is_single(pool) or (grouped and name not in names):
        return name
    first = 2 if grouped else 1
    return next(one for one in (f"{name}:{first + more}" for more in range(len(own) + 1)) if one not in names)
