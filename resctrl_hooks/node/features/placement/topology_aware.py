"""The topology-aware policy: the smallest part of the machine with enough room, balanced, and one part for a pod."""

from ...host.cpulist import count, format_list, lowest, parse_list
from ...host.topology import LEVELS
from .memory_nodes import memory_for, short_of_memory
from .policy import EXCLUSIVE, MILLI, MIXED, RESERVED, SHARED, Decision, PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...host.topology import Domain, Topology
    from .policy import Request
    from .usage import Usage

_SHOWN = 3
_WIDER, _APART = 1, 3


def choose(topology: "Topology", usage: "Usage", request: "Request") -> Decision:
    """Place a container; see `policy`."""
    if request.kind == RESERVED and usage.reserved:
        return Decision(RESERVED, "reserved", cpus=usage.reserved, milli=request.milli, why="the reserved CPUs")
    order = ranked(topology, usage, request)
    found = exclusive(order, topology, usage, request) if request.exclusive else None
    decision = found or _shared(order, topology, usage, request)
    if request.hints:
        explain_hints(decision, request)
    return decision


def ranked(topology: "Topology", usage: "Usage", request: "Request") -> "list[Domain]":
    """Return the parts of the machine, the best first.

    They are near to its devices, near to or far from the containers of its affinities, small, have memory for the
    request, are near to the pod's other containers, and have most CPU time free.
    """
    near, devices = usage.near(request.key), request.near
    short = short_of_memory(topology, usage, request)

    def rank(domain: "Domain") -> "tuple[int, int, int, bool, int, int, int, int]":
        milli, users = usage.load(domain.cpus)
        room = MILLI * count(domain.cpus & usage.common) - milli
        away = next((wider.size for wider in domain.above if not near & ~wider.cpus), 0) if near else 0
        users = users * MILLI // domain.size
        far = sum(_far(domain.cpus, cpus) for cpus in devices)
        return (
            far,
            sum(weight * _common(domain, cpus).height for cpus, weight in usage.pulls),
            domain.height,
            domain.cpus in short,
            away,
            -(room * MILLI // domain.size),
            users,
            lowest(domain.cpus),
        )

    return sorted(topology.domains, key=rank)


def _common(domain: "Domain", cpus: int) -> "Domain":
    """Return the smallest part that contains a part and some CPUs."""
    return next((wider for wider in domain.above if not cpus & ~wider.cpus), domain.above[-1])


def _far(cpus: int, device: int) -> int:
    """Return how far a part is from a device: the device's own, wider, apart. Wider parts suit two devices better."""
    return _APART if not cpus & device else _WIDER if cpus & ~device else 0


def explain_hints(decision: Decision, request: "Request") -> None:
    """Add to the reason which devices decided.

    Raises:
        PlacementError: the container accepts no place that is far from one of them.
    """
    cpus = decision.cpus | decision.owned
    near = [name for name, hint in request.hints if not cpus & ~parse_list(hint)]
    far = [name for name, _ in request.hints if name not in near]
    if (
        far
        and request.strict_hints
        and (_union(request.near) & cpus != cpus or any(not cpus & one for one in request.near))
    ):
        raise PlacementError(
            f"no room near to its device {far[0]}",
            hint="free CPUs of that NUMA node, or remove the annotation strict.topologyhints.resource-policy.nri.io",
        )
    decision.why += f"; near to {', '.join(near)}" if near else ""
    decision.why += f"; not only near to {', '.join(far)}" if far else ""


def exclusive(
    order: "list[Domain]", topology: "Topology", usage: "Usage", request: "Request", *, isolated: bool = False
) -> "Decision | None":
    """Return whole exclusive cores from the first part with enough, or None.

    With ``isolated``, isolated CPUs are preferred even if the request does not.

    Raises:
        PlacementError: it accepts only isolated CPUs, and too few are free.
    """
    fallen = ""
    if isolated or request.isolated:
        owned = take_cores(topology, topology.isolated & ~usage.owned & ~usage.reserved, request.exclusive)
        if owned:
            return _own(order, owned, "isolated CPUs", topology, usage, request)
        if request.only_isolated:
            raise PlacementError(
                "too few isolated CPUs are free",
                hint="isolate more on the kernel's command line, or use prefer-isolated-cpus",
            )
        fallen = " (no isolated CPUs are free)"
    # Only CPUs that it has requested may narrow the pools of others: the scheduler has counted these.
    for squeeze in (False, True) if request.exclusive * MILLI <= request.milli else (False,):
        for domain in order:
            free = domain.cpus & usage.common
            owned = _take_near(topology, free, request)
            if owned and not usage.can_give(owned, squeeze=squeeze):
                # The first cores may be the last ones of some shared pool.
                free = usage.spare(whole_cores(topology, free), squeeze=squeeze)
                owned = _take_near(topology, free, request)
            if owned:
                why = f"{domain.name} has whole cores free{fallen}"
                if squeeze:
                    why += " (its shared pools become narrow)"
                return _own(order, owned, why, topology, usage, request, domain)
    return None


def _take_near(topology: "Topology", free: int, request: "Request") -> int:
    """Return its number of CPUs in whole cores, for ``by_hints`` those near to its devices first."""
    if request.by_hints and request.hints:
        near = free & _union(request.near)
        mixed = take_cores(topology, near, min(count(near), request.exclusive))
        rest = request.exclusive - count(mixed)
        more = take_cores(topology, free & ~mixed, rest) if rest > 0 else 0
        if mixed and (more or rest <= 0):
            return mixed | more
    return take_cores(topology, free, request.exclusive)


def _union(sets: "list[int]") -> int:
    found = 0
    for one in sets:
        found |= one
    return found


def take_cores(topology: "Topology", free: int, number: int) -> int:
    """Return so many CPUs of ``free`` in whole cores, fast ones first; none if there are too few."""
    if count(free) < number:
        return 0
    taken = have = 0
    for core in whole_cores(topology, free):
        if have >= number:
            break
        taken |= core
        have += count(core)
    return taken if have >= number else 0


def whole_cores(topology: "Topology", free: int) -> "list[int]":
    """Return the cores with all threads in a set, fast ones first."""
    fast = topology.kinds.get("performance", 0)
    whole = [core for core in topology.cores if core & free == core]
    if fast:
        whole.sort(key=lambda core: not core & fast)
    return whole


def _own(
    order: "list[Domain]",
    owned: int,
    why: str,
    topology: "Topology",
    usage: "Usage",
    request: "Request",
    domain: "Domain | None" = None,
) -> Decision:
    hidden = 0
    if request.one_thread:
        for core in topology.cores:
            if core & owned:
                hidden |= core & owned & ~(core & -core)
    pool = "isolated" if domain is None else domain.name
    # The shared part of a mixed container is as near as shared CPUs are available.
    shared = next((wider for wider in (domain or topology.root).above if wider.cpus & usage.common & ~owned), None)
    mixed = request.kind == MIXED and request.shared_milli > 0 and shared is not None
    return Decision(
        MIXED if mixed else EXCLUSIVE,
        pool,
        cpus=shared.cpus if mixed and shared is not None else 0,
        owned=owned,
        hidden=hidden,
        mems=memory_for(topology, owned, usage, request),
        milli=request.shared_milli if mixed else 0,
        why=f"CPUs {format_list(owned)} of its own: {why}",
        runners_up=_runners_up(order, usage, pool),
    )


def _shared(order: "list[Domain]", topology: "Topology", usage: "Usage", request: "Request") -> Decision:
    milli = max(request.milli, request.exclusive * MILLI)
    wide = -(-max(request.limit, milli) // MILLI)  # a limit of 4 CPUs has no use in a pool of two
    room = {domain: usage.room(domain.cpus) for domain in topology.domains}
    failed = "no whole cores are free, so " if request.exclusive else ""
    if request.wide:
        order = [domain for domain in order if LEVELS.index(domain.level) >= LEVELS.index(request.wide)]
    for domain in order:
        size = count(domain.cpus & usage.common)
        if size and size >= wide and all(room[wider] >= milli for wider in domain.above):
            why = f"{failed}it shares {domain.name}, the smallest part with room for {milli}m ({room[domain]}m free)"
            break
    else:
        domain = topology.root
        why = f"{failed}it shares the whole node: no part has room for {milli}m"
    whole = domain is topology.root
    return Decision(
        SHARED,
        domain.name,
        cpus=domain.cpus,
        mems=0 if whole and not request.memory_kinds else memory_for(topology, domain.cpus, usage, request),
        milli=milli,
        why=why,
        runners_up=_runners_up(order, usage, domain.name),
    )


def _runners_up(order: "list[Domain]", usage: "Usage", but: str) -> "list[str]":
    others = [domain for domain in order if domain.name != but][:_SHOWN]
    return [f"{domain.name} ({usage.room(domain.cpus)}m free)" for domain in others]
