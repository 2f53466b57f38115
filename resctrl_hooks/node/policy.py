"""What a placement policy is given and gives: a request and the node's usage in, a decision out. It changes nothing.

A policy is a function ``choose(topology, usage, request) -> Decision``; docs/placement.md says how to write one.
Sets of CPUs are integers (`cpusets`).
"""

from .cpusets import count, format_list, parse_list
from .errors import HookError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .topology import Topology

EXCLUSIVE, SHARED, MIXED, RESERVED = "exclusive", "shared", "mixed", "reserved"
KINDS = (EXCLUSIVE, SHARED, MIXED, RESERVED)
MILLI = 1000


class PlacementError(HookError):
    """A container that can't be placed as it asks, or a policy that is none."""

    reason = "placement"


class Request:
    """What one container asks for.

    ``kind`` is how it wants its CPUs; ``exclusive`` how many of its own; ``milli`` its whole CPU request and ``limit``
    its CPU limit, both in thousandths, 0 for none; ``memory`` its limit in bytes, 0 for none. ``isolated``: it
    prefers isolated CPUs. ``one_thread``: it wants to see one thread of each core. ``pool`` is one that it names.
    ``options`` is the ``placement`` section of the settings.
    """

    __slots__ = (
        "container",
        "exclusive",
        "id",
        "isolated",
        "key",
        "kind",
        "limit",
        "memory",
        "milli",
        "namespace",
        "one_thread",
        "options",
        "pod",
        "pool",
        "qos",
    )

    def __init__(
        self,
        id_: str,
        key: str = "",
        *,
        namespace: str = "",
        pod: str = "",
        container: str = "",
        qos: str = "",
        kind: str = SHARED,
        exclusive: int = 0,
        milli: int = 0,
        limit: int = 0,
        memory: int = 0,
        isolated: bool = False,
        one_thread: bool = False,
        pool: str = "",
        options: "dict[str, Any] | None" = None,
    ) -> None:
        self.id = id_
        self.key = key or id_
        self.namespace = namespace
        self.pod = pod
        self.container = container
        self.qos = qos
        self.kind = kind
        self.exclusive = exclusive
        self.milli = milli
        self.limit = limit
        self.memory = memory
        self.isolated = isolated
        self.one_thread = one_thread
        self.pool = pool
        self.options = options or {}

    @property
    def shared_milli(self) -> int:
        """What of the request is to come from a shared pool."""
        return max(self.milli - self.exclusive * MILLI, 0) if self.kind != EXCLUSIVE else 0

    def as_record(self) -> "dict[str, Any]":
        """As plain JSON values, without the settings."""
        record = {name: getattr(self, name) for name in self.__slots__ if name not in ("options", "id", "key")}
        return {name: value for name, value in record.items() if value}


class Decision:
    """Where a container goes: ``pool`` by name, and its sets.

    ``cpus`` is the set of the pool that its shared part runs on: all of the pool, whoever else owns parts of it now.
    ``owned`` are the CPUs that nobody else may have, ``hidden`` those of them that it doesn't see itself. ``mems`` is
    a set of NUMA nodes, 0 for all. ``why`` is for people, and so are the ``runners_up``.
    """

    __slots__ = ("cpus", "hidden", "kind", "mems", "milli", "owned", "pool", "runners_up", "why")

    def __init__(
        self,
        kind: str,
        pool: str,
        *,
        cpus: int = 0,
        owned: int = 0,
        hidden: int = 0,
        mems: int = 0,
        milli: int = 0,
        why: str = "",
        runners_up: "list[str] | None" = None,
    ) -> None:
        self.kind = kind
        self.pool = pool
        self.cpus = cpus
        self.owned = owned
        self.hidden = hidden
        self.mems = mems
        self.milli = milli
        self.why = why
        self.runners_up = runners_up or []

    def as_record(self) -> "dict[str, Any]":
        """As plain JSON values."""
        record: "dict[str, Any]" = {"kind": self.kind, "pool": self.pool, "milli": self.milli}
        for name in ("cpus", "owned", "hidden", "mems"):
            value = getattr(self, name)
            if value:
                record[name] = format_list(value)
        return record

    @classmethod
    def of_record(cls, record: "dict[str, Any]") -> "Decision":
        """The decision that `as_record` wrote down.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it did not.
        """
        cpus, owned, hidden, mems = (parse_list(record.get(name, "")) for name in ("cpus", "owned", "hidden", "mems"))
        return cls(
            record["kind"], record["pool"], cpus=cpus, owned=owned, hidden=hidden, mems=mems, milli=record["milli"]
        )


class Grant:
    """A decision in force: whose it is, for how many containers (``users``), and what these ask for together."""

    __slots__ = ("decision", "id", "key", "milli", "users")

    def __init__(self, id_: str, key: str, decision: Decision, *, milli: "int | None" = None, users: int = 1) -> None:
        self.id = id_
        self.key = key
        self.decision = decision
        self.milli = decision.milli if milli is None else milli
        self.users = users


class Usage:
    """Who has what by now. ``reserved`` CPUs are the system's; nobody else gets them.

    ``common`` are the CPUs of shared pools that nobody owns: neither reserved nor isolated nor offline.
    """

    def __init__(self, topology: "Topology", grants: "list[Grant]", reserved: int = 0) -> None:
        self.grants = grants
        self.reserved = reserved & topology.online
        self.online = topology.online
        self.owned = 0
        for grant in grants:
            self.owned |= grant.decision.owned
        self.usable = topology.online & ~self.reserved & ~topology.isolated
        self.common = self.usable & ~self.owned
        self._pools: "dict[int, list[int]]" = {}
        for grant in grants:
            if grant.decision.cpus and grant.decision.kind != RESERVED:
                load = self._pools.setdefault(grant.decision.cpus, [0, 0])
                load[0] += grant.milli
                load[1] += grant.users
        self._loads: "dict[int, tuple[int, int]]" = {}  # what `load` has answered: a policy asks again and again

    def pools(self) -> "list[int]":
        """The sets that some container shares with others."""
        return list(self._pools)

    def load(self, cpus: int) -> "tuple[int, int]":
        """What is asked for of pools within a set: thousandths of a CPU, and by how many containers."""
        found = self._loads.get(cpus)
        if found is None:
            milli = number = 0
            for pool, (asked, users) in self._pools.items():
                if not pool & ~cpus:
                    milli += asked
                    number += users
            found = self._loads[cpus] = milli, number
        return found

    def room(self, cpus: int) -> int:
        """The thousandths of a CPU that nobody has asked for in a set."""
        return MILLI * count(cpus & self.common) - self.load(cpus)[0]

    def near(self, key: str) -> int:
        """The CPUs of the other containers of a pod."""
        found = 0
        for grant in self.grants:
            if grant.key == key and grant.decision.kind != RESERVED:
                found |= grant.decision.cpus | grant.decision.owned
        return found

    def can_give(self, cpus: int, *, squeeze: bool = False) -> bool:
        """Whether these CPUs can be given away: every pool in use keeps a CPU and, but for ``squeeze``, its load.

        One CPU always stays for whoever comes next.
        """
        left = self.common & ~cpus
        if not left:
            return False
        for pool in self._pools:
            if pool & cpus:
                size = count(pool & left)
                if not size or (not squeeze and MILLI * size < self.load(pool)[0]):
                    return False
        return True


def effective(decision: Decision, usage: Usage) -> int:
    """The CPUs that a container runs on now: its own, and what of its pool nobody owns. Never empty.

    Where nothing is left to share, since CPUs went offline, there are the reserved CPUs, and only then others' own:
    the kernel would let it run on all of these. `short_of_cpus` says so.
    """
    own = decision.owned & ~decision.hidden
    if decision.kind == EXCLUSIVE:
        return own
    if decision.kind == RESERVED:
        return decision.cpus & usage.reserved or usage.reserved or usage.common or usage.online
    # A pool can lose its last CPU to somebody who takes CPUs offline; then any that are shared will do.
    shared = decision.cpus & usage.common or usage.common
    return own | shared or usage.reserved or usage.usable or usage.online


def short_of_cpus(usage: Usage) -> str:
    """What it means that no CPU is left to share, for those who share; empty if there is one, or nobody to use it."""
    users = sum(grant.users for grant in usage.grants if grant.decision.kind == SHARED)
    if usage.common or not users:
        return ""
    where = "reserved CPUs" if usage.reserved else "CPUs that others own"
    return f"no CPU is left to share, so {users} containers run on {where}"


def check(decision: Decision, usage: Usage, topology: "Topology") -> None:
    """Holds a policy to what no policy may do, ours or another's.

    Raises:
        PlacementError: it gives away what is reserved, offline or somebody's, or leaves somebody without CPUs.
    """
    taken = decision.owned & (usage.owned | usage.reserved | ~topology.online)
    if decision.kind not in KINDS:
        problem = f"there is no kind of placement {decision.kind!r}"
    elif not decision.pool.isprintable():
        problem = f"a pool can't be called {decision.pool!r}"
    elif taken:
        problem = f"it gives away CPUs {format_list(taken & topology.online) or 'that are offline'}, which are taken"
    elif decision.hidden & ~decision.owned or (decision.kind == EXCLUSIVE and not decision.owned & ~decision.hidden):
        problem = "it leaves the container none of its own CPUs"
    elif decision.owned and not usage.can_give(decision.owned & usage.usable, squeeze=True):
        problem = "it leaves others without CPUs"
    elif decision.kind in (SHARED, MIXED) and not decision.cpus & usage.common & ~decision.owned:
        problem = f"pool {decision.pool} has no CPUs"
    else:
        return
    raise PlacementError(f"the placement policy is wrong: {problem}", hint="mend or replace placement.policy")
