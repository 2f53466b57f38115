"""Exclusive CPUs of a container: whole cores of the best part of the machine, else single threads."""

from ...core.node.host.cpulist import count, format_list, members, union
from .memory_nodes import memory_for
from .policy import EXCLUSIVE, MILLI, MIXED, Decision, PlacementError
from .usage import runners_up, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.host.topology import Domain, Topology
    from .policy import Request
    from .usage import Usage


def exclusive(
    order: "list[Domain]", usage: "Usage", request: "Request", *, isolated: bool = False
) -> "Decision | None":
    """Return exclusive CPUs in whole cores from the first part with enough, or single threads, or None.

    With ``isolated``, isolated CPUs are preferred even if the request does not.

    Raises:
        PlacementError: it accepts only isolated CPUs, and too few are free.
    """
    fallen = ""
    if isolated or request.isolated:
        owned = _take(usage, usage.topology.isolated & ~usage.owned & ~usage.reserved, request)
        if owned:
            return _own(order, owned, "isolated CPUs", usage, request)
        if request.only_isolated:
            raise PlacementError(
                "too few isolated CPUs are free",
                hint="isolate more on the kernel's command line, or use prefer-isolated-cpus",
            )
        fallen = " (no isolated CPUs are free)"
    for squeeze in (False, True):
        # Only CPUs that it has requested may narrow the pools of others: the scheduler has counted these.
        if squeeze and request.exclusive * MILLI > request.milli:
            break
        for split in (False,) if request.one_thread else (False, True):
            for domain in order:
                owned = 0 if squeeze or split else _take_spare(domain, usage, request)
                owned = owned or _take_spare(domain, usage, request, squeeze=squeeze, lent=True, split=split)
                if owned:
                    why = f"{domain.name} has {'single threads' if split else 'whole cores'} free{fallen}"
                    if squeeze:
                        why += " (its shared pools become narrow)"
                    return _own(order, owned, why, usage, request, domain)
    return None


def _take_spare(
    domain: "Domain",
    usage: "Usage",
    request: "Request",
    *,
    squeeze: bool = False,
    lent: bool = False,
    split: bool = False,
) -> int:
    """Return CPUs of a part that can become exclusive, in whole cores unless cores may be ``split``.

    With ``squeeze`` shared pools may lose CPUs that they need; with ``lent`` idle threads count as theirs.
    """
    free = domain.cpus & (usage.common | usage.idle if split else usage.common)
    owned = _take_near(usage, free, request, split=split)
    if owned and not usage.can_give(owned if lent else whole(usage.topology, owned), squeeze=squeeze, lent=lent):
        # The first cores may be the last ones of some shared pool.
        cores = [1 << cpu for cpu in members(free)] if split else whole_cores(usage.topology, free)
        owned = _take_near(usage, usage.spare(cores, squeeze=squeeze, lent=lent), request, split=split)
    return owned


def _take_near(usage: "Usage", free: int, request: "Request", *, split: bool) -> int:
    """Return its number of CPUs, for ``by_hints`` those near to its devices first."""
    if request.by_hints and request.hints:
        near = free & union(request.near)
        mixed = take_cores(usage.topology, near, min(count(near), request.exclusive))
        rest = request.exclusive - count(mixed)
        more = take_cores(usage.topology, free & ~mixed, rest) if rest > 0 else 0
        if mixed and (more or rest <= 0):
            return mixed | more
    return _take(usage, free, request, split=split)


def _take(usage: "Usage", free: int, request: "Request", *, split: bool = False) -> int:
    return take_cores(usage.topology, free, request.exclusive, exact=not request.one_thread, split=split)


def take_cores(topology: "Topology", free: int, number: int, *, exact: bool = True, split: bool = False) -> int:
    """Return so many CPUs of ``free`` in whole cores, fast ones first; none if there are too few.

    With ``exact`` they are the first threads of the last core, else all of it. With ``split`` single threads follow.
    """
    if count(free) < number:
        return 0
    cores = whole_cores(topology, free)
    if split:
        cores += [1 << cpu for cpu in members(free & ~sum(cores))]
    taken = have = core = 0
    for core in cores:
        taken |= core
        have += count(core)
        if have >= number:
            break
    while exact and have > number:
        taken &= ~(1 << (core & taken).bit_length() - 1)  # the last thread of the last core
        have -= 1
    return taken if have >= number else 0


def whole_cores(topology: "Topology", free: int) -> "list[int]":
    """Return the cores with all threads in a set, fast ones first."""
    fast = topology.kinds.get("performance", 0)
    whole = [core for core in topology.cores if core & free == core]
    if fast:
        whole.sort(key=lambda core: not core & fast)
    return whole


def _own(
    order: "list[Domain]", owned: int, why: str, usage: "Usage", request: "Request", domain: "Domain | None" = None
) -> Decision:
    hidden = union(core & owned & ~(core & -core) for core in usage.topology.cores) if request.one_thread else 0
    pool = "isolated" if domain is None else domain.name
    # The shared part of a mixed container is as near as shared CPUs are available.
    free = (usage.common | usage.idle) & ~owned
    shared = next((wider for wider in (domain or usage.topology.root).above if wider.cpus & free), None)
    mixed = request.kind == MIXED and request.shared_milli > 0 and shared is not None
    return Decision(
        MIXED if mixed else EXCLUSIVE,
        pool,
        cpus=shared.cpus if mixed and shared is not None else 0,
        owned=owned,
        hidden=hidden,
        mems=memory_for(owned, usage, request),
        milli=request.shared_milli if mixed else 0,
        why=f"CPUs {format_list(owned)} of its own: {why}",
        runners_up=runners_up(order, usage, pool),
    )
