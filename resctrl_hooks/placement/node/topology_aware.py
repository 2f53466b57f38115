"""The topology-aware policy: the smallest part of the machine with enough room, balanced, and one part for a pod."""

from ...core.node.host.cpulist import count, lowest, parse_list, union
from ...core.node.host.topology import LEVELS
from .memory_nodes import memory_for, short_of_memory
from .policy import MILLI, RESERVED, SHARED, Decision, PlacementError
from .usage import runners_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.host.topology import Domain, Topology
    from .policy import Request
    from .usage import Usage

_WIDER, _APART = 1, 3


def choose(topology: "Topology", usage: "Usage", request: "Request") -> Decision:
    """Place a container; see `policy`."""
    if request.kind == RESERVED and usage.reserved:
        return Decision(RESERVED, "reserved", cpus=usage.reserved, milli=request.milli, why="the reserved CPUs")
    order = ranked(usage, request)
    decision = None
    if request.exclusive:
        from .exclusive_cpus import exclusive  # most containers share

        decision = exclusive(order, usage, request)
    decision = decision or _shared(order, usage, request)
    if request.hints:
        explain_hints(decision, request)
    return decision


def ranked(usage: "Usage", request: "Request") -> "list[Domain]":
    """Return the parts of the machine, the best first.

    They are near to its devices, near to or far from the containers of its affinities, small, have memory for the
    request, are near to the pod's other containers, and have most CPU time free.
    """
    near, devices = usage.near(request.key), request.near
    short = short_of_memory(usage, request)

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

    return sorted(usage.topology.domains, key=rank)


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
        and (union(request.near) & cpus != cpus or any(not cpus & one for one in request.near))
    ):
        raise PlacementError(
            f"no room near to its device {far[0]}",
            hint="free CPUs of that NUMA node, or remove the annotation strict.topologyhints.resource-policy.nri.io",
        )
    decision.why += f"; near to {', '.join(near)}" if near else ""
    decision.why += f"; not only near to {', '.join(far)}" if far else ""


def _shared(order: "list[Domain]", usage: "Usage", request: "Request") -> Decision:
    topology = usage.topology
    milli = max(request.milli, request.exclusive * MILLI)
    wide = -(-max(request.limit, milli) // MILLI)  # a limit of 4 CPUs has no use in a pool of two
    failed = "no exclusive CPUs are free, so " if request.exclusive else ""
    if request.wide:
        order = [domain for domain in order if LEVELS.index(domain.level) >= LEVELS.index(request.wide)]
    for lent in (False, True) if usage.idle else (False,):
        room = {domain: usage.room(domain.cpus, lent=lent) for domain in topology.domains}
        common = usage.common | usage.idle if lent else usage.common
        fitting = (one for one in order if count(one.cpus & common) >= max(wide, 1))
        domain = next((one for one in fitting if all(room[wider] >= milli for wider in one.above)), topology.root)
        if room[domain] >= milli and count(domain.cpus & common) >= max(wide, 1):
            why = f"{failed}it shares {domain.name}, the smallest part with room for {milli}m ({room[domain]}m free)"
            why += ", with idle threads of exclusive cores" if lent else ""
            break
    else:
        domain = topology.root
        why = f"{failed}it shares the whole node: no part has room for {milli}m"
    return Decision(
        SHARED,
        domain.name,
        cpus=domain.cpus,
        mems=memory_for(domain.cpus, usage, request),
        milli=milli,
        why=why,
        runners_up=runners_up(order, usage, domain.name),
    )
