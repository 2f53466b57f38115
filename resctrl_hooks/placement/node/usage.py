"""The present use of CPUs, as a policy sees it, and the resulting CPUs of each container."""

from ...core.node.host.cpulist import count, format_list, union
from .policy import EXCLUSIVE, KINDS, MILLI, MIXED, RESERVED, SHARED, Decision, PlacementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.node.host.topology import Domain, Topology
    from .policy import Request

    Choose = Callable[[Topology, "Usage", Request], Decision]
    """A placement policy."""


_SHOWN = 3
_MOST_UNIONS = 256  # of a machine with 8 NUMA nodes


class Grant:
    """An active decision: the number of its containers (``users``), and their total request.

    ``key`` is their pod if the next request is of that pod too, else empty. ``memory`` is the sum of their memory
    limits, in bytes.
    """

    __slots__ = ("decision", "key", "memory", "milli", "users")

    def __init__(
        self, decision: Decision, key: str = "", *, milli: "int | None" = None, users: int = 1, memory: int = 0
    ) -> None:
        self.decision = decision
        self.key = key
        self.milli = decision.milli if milli is None else milli
        self.users = users
        self.memory = memory


class Usage:
    """All grants on the machine ``topology``.

    ``reserved`` CPUs are for the system, and ``taken`` ones for containers of other programs.
    ``common`` are the shared CPUs without an owner: neither reserved nor isolated nor offline. ``idle`` are the
    other threads of exclusive cores: no container runs on them, until the requests in a pool exceed the pool's
    common CPUs. Then those of the pool are common too. ``parts`` are the present CPUs of pools that grow and
    shrink, by name; other pools have those of the decision. ``homes`` are those of them that no other pool uses.
    ``pulls`` are the CPUs of containers to which the next one has an affinity, and its weight.
    """

    def __init__(self, topology: "Topology", grants: "list[Grant]", reserved: int = 0, taken: int = 0) -> None:
        self.topology = topology
        self.grants = grants
        self.parts: "dict[str, int]" = {}
        self.homes: "dict[str, int]" = {}
        self.pulls: "list[tuple[int, int]]" = []
        self.reserved = reserved & topology.online
        self.online = topology.online
        own = union(grant.decision.owned for grant in grants)
        self.owned = own | taken & topology.online
        self.usable = topology.online & ~self.reserved & ~topology.isolated
        self.idle = whole(topology, own) & self.usable & ~self.owned if own else 0
        self.common = self.usable & ~self.owned & ~self.idle
        self._bound: "dict[int, int]" = {}  # memory limits by the set of nodes
        self._pools: "dict[int, list[int]]" = {}
        for grant in grants:
            mems = grant.decision.mems
            if mems and grant.memory:
                self._bound[mems] = self._bound.get(mems, 0) + grant.memory
            if grant.decision.cpus and grant.decision.kind != RESERVED:
                load = self._pools.setdefault(grant.decision.cpus, [0, 0])
                load[0] += grant.milli
                load[1] += grant.users
        self._loads: "dict[int, tuple[int, int]]" = {}  # results of `load`: policies ask repeatedly
        self._bounds: "dict[tuple[bool, bool], list[tuple[int, int]]]" = {}
        if self.idle:
            self._lend()

    def _lend(self) -> None:
        """Make idle threads common in pools that need them, and all if no other CPU is left to share."""
        lent = 0 if self.common else self.idle
        for pool in self._pools:
            size = count(pool & self.common)
            if pool & self.idle and (not size or self.load(pool)[0] > MILLI * size):
                lent |= pool & self.idle
        self.common |= lent
        self.idle &= ~lent

    def beside(self, cpus: int) -> int:
        """Return the idle threads of the cores of some CPUs."""
        return whole(self.topology, cpus) & self.idle if cpus & self.owned else 0

    def pools(self) -> "list[int]":
        """Return the sets that some container shares with others."""
        return list(self._pools)

    def load(self, cpus: int) -> "tuple[int, int]":
        """Return the demand of pools within a set: thousandths of a CPU, and the number of containers."""
        found = self._loads.get(cpus)
        if found is None:
            milli = number = 0
            for pool, (asked, users) in self._pools.items():
                if not pool & ~cpus:
                    milli += asked
                    number += users
            found = self._loads[cpus] = milli, number
        return found

    def room(self, cpus: int, *, lent: bool = False) -> int:
        """Return the thousandths of a CPU in a set without demand; with ``lent`` including its idle threads."""
        common = self.common | self.idle if lent else self.common
        return MILLI * count(cpus & common) - self.load(cpus)[0]

    def memory_fits(self, mems: int, need: int) -> bool:
        """Return whether so many more bytes can be bound to a set of NUMA nodes.

        No set of nodes may have more limits bound to it than it has memory. Only unions of overlapping sets have to be
        checked, as others share no memory, and not the whole node, from which nothing can be kept away. A node of
        unknown size counts as full, and so do too many unions.
        """
        unions = [mems]
        for nodes in unions:  # grows meanwhile
            if nodes == self.topology.memory_nodes:
                continue
            inside = need + sum(limits for bound, limits in self._bound.items() if not bound & ~nodes)
            memory = sum(node.memory for node in self.topology.nodes if nodes >> node.id & 1)
            if len(unions) > _MOST_UNIONS or inside > memory:
                return False
            unions += {nodes | bound for bound in self._bound if nodes & bound}.difference(unions)
        return True

    def near(self, key: str) -> int:
        """Return the CPUs of the other containers of a pod."""
        return union(
            grant.decision.cpus | grant.decision.owned
            for grant in self.grants
            if grant.key == key and grant.decision.kind != RESERVED
        )

    def can_give(self, cpus: int, *, squeeze: bool = False, lent: bool = False) -> bool:
        """Return whether these CPUs can become exclusive.

        Every pool in use keeps a CPU and, but for ``squeeze``, its load; with ``lent`` idle threads count as its CPUs.
        One CPU always stays for the next container.
        """
        return all(count(pool & cpus) <= most for pool, most in self._losable(squeeze, lent))

    def spare(self, cores: "list[int]", *, squeeze: bool, lent: bool) -> int:
        """Return those of these cores, or CPUs, that can become exclusive together, the first ones first."""
        free = sum(cores)
        tight = [(pool, most) for pool, most in self._losable(squeeze, lent) if count(pool & free) > most]
        taken = 0
        for core in cores:
            more = taken | core
            if all(count(pool & more) <= most for pool, most in tight if pool & core):
                taken = more
        return taken

    def _losable(self, squeeze: bool, lent: bool) -> "list[tuple[int, int]]":  # noqa: FBT001
        """Return the CPUs of each pool in use, and how many of them it can lose."""
        found = self._bounds.get((squeeze, lent))
        if found is None:
            free = self.common | self.idle if lent else self.common
            found = self._bounds[squeeze, lent] = [(free, count(free) - 1)]
            for pool in self._pools:
                size = count(pool & free)
                needed = 1 if squeeze else max(-(-self.load(pool)[0] // MILLI), 1)
                found.append((pool & free, max(size - needed, 0)))
        return found


def whole(topology: "Topology", cpus: int) -> int:
    """Return all threads of the cores of some CPUs."""
    return cpus | union(core for core in topology.cores if core & cpus)


def effective(decision: Decision, usage: Usage) -> int:
    """Return the CPUs on which a container runs now: its own, and its pool's without an owner. Never empty.

    If no CPU is left to share after CPUs went offline, these are the reserved CPUs, and finally exclusive ones: the
    kernel would allow all of them. `short_of_cpus` reports it.
    """
    own = decision.owned & ~decision.hidden
    if decision.kind == EXCLUSIVE:
        return own
    if decision.kind == RESERVED:
        return decision.cpus & usage.reserved or usage.reserved or usage.common or usage.online
    # A pool can lose its last CPU to an offline request; then any shared CPU is used.
    shared = usage.parts.get(decision.pool, decision.cpus) & usage.common or usage.common
    return own | shared or usage.reserved or usage.usable or usage.online


def runners_up(order: "list[Domain]", usage: Usage, but: str) -> "list[str]":
    """Return the next best parts, with their room."""
    others = [domain for domain in order if domain.name != but][:_SHOWN]
    return [f"{domain.name} ({usage.room(domain.cpus)}m free)" for domain in others]


def short_of_cpus(usage: Usage) -> str:
    """Return the consequence of having no CPU left to share; empty if there is one, or no user of it."""
    users = sum(grant.users for grant in usage.grants if grant.decision.kind == SHARED)
    if usage.common or not users:
        return ""
    where = "reserved CPUs" if usage.reserved else "exclusive CPUs of other containers"
    return f"no shared CPUs left: {users} containers run on {where}"


def check(decision: Decision, usage: Usage) -> None:
    """Check a decision against the rules for all policies.

    Raises:
        PlacementError: it grants reserved, offline or owned CPUs, or leaves a container without CPUs.
    """
    taken = decision.owned & (usage.owned | usage.reserved | ~usage.online)
    if decision.kind not in KINDS:
        problem = f"unknown kind of placement {decision.kind!r}"
    elif not decision.pool.isprintable():
        problem = f"invalid pool name {decision.pool!r}"
    elif not decision.cpu_class.isprintable():
        problem = f"invalid CPU class name {decision.cpu_class!r}"
    elif taken:
        problem = f"it assigns CPUs {format_list(taken & usage.online) or 'that are offline'}, which are not free"
    elif decision.hidden & ~decision.owned or (decision.kind == EXCLUSIVE and not decision.owned & ~decision.hidden):
        problem = "it leaves the container no exclusive CPUs"
    elif decision.owned and not usage.can_give(decision.owned & usage.usable, squeeze=True, lent=True):
        problem = "it leaves other containers without CPUs"
    elif decision.kind in (SHARED, MIXED) and not decision.cpus & (usage.common | usage.idle) & ~decision.owned:
        problem = f"pool {decision.pool} has no CPUs"
    else:
        return
    raise PlacementError(f"invalid decision of the placement policy: {problem}", hint="fix or replace placement.policy")
