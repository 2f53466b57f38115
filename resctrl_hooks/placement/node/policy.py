"""The interface of placement policies, pure functions ``choose(topology, usage, request) -> Decision``.

Sets of CPUs are integers (`cpulist`). docs/placement.md explains how to write a policy.
"""

from ...core.node.errors import HookError
from ...core.node.feature_table import FEATURES
from ...core.node.host.cpulist import format_list, parse_list
from ...core.node.shapes import Annotated, Count, Flag, Name, NotRequired, Text, TypedDict, Whole, exactly, fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from typing_extensions import Unpack

    Place = tuple[str, str, int, int, int, int, int, str]

NAME = "placement"
"""The name of the feature."""
EXCLUSIVE, SHARED, MIXED, RESERVED = "exclusive", "shared", "mixed", "reserved"
KINDS = (EXCLUSIVE, SHARED, MIXED, RESERVED)
MILLI = 1000
TOPOLOGY_AWARE, POOLS = "topology-aware", "pools"
"""The names of the built-in policies."""
DEFAULT_POOL = "default"
"""The pool of all CPUs outside the declared pools."""
GROWTH = ("maxCpus", "minInstances", "maxInstances", "instancePer", "spread", "spreadCores")
"""Besides ``minCpus`` the keys of a pool whose CPUs follow from its containers."""
VARIATIONS = ("shareIdleCpus", "hideHyperthreads")
"""The keys of a pool whose containers run on more or fewer CPUs than its own."""


BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""The texts of a boolean annotation: those of Go's ``strconv.ParseBool``, as in the NRI project's plugins."""

AFFINITIES = ("resource-policy.nri.io/affinity", "resource-policy.nri.io/anti-affinity")
"""The annotations of topology-aware with affinities between containers."""


class PlacementError(HookError):
    """A container's request cannot be met, or a policy is invalid."""

    reason = NAME


Cpus = Annotated[str, lambda value: fits(Text, value) and {*"0123456789,-"}.issuperset(value)]
"""A set of CPUs or memory nodes as the kernel writes it."""


class RequestRecord(TypedDict, total=False):
    """A `Request`, without empty and zero values."""

    namespace: Name
    pod: Name
    container: Name
    qos: Text
    kind: Text
    exclusive: Count
    milli: Count
    limit: Count
    memory: Count
    isolated: Flag
    one_thread: Flag
    any_memory: Flag
    only_isolated: Flag
    pool: Text
    matched: Text
    group: Text
    pulls: list[Annotated["list[Any]", exactly(Text, Whole)]]
    hints: list[Annotated["list[str]", exactly(Text, Cpus)]]
    strict_hints: Flag
    by_hints: Flag
    quiet: Flag
    housekeeping: Flag
    cpu_class: Text
    memory_kinds: list[Text]
    wide: Text


class DecisionRecord(TypedDict):
    """A `Decision`, without empty sets."""

    kind: Text
    pool: Text
    milli: Count
    cpus: NotRequired[Cpus]
    owned: NotRequired[Cpus]
    hidden: NotRequired[Cpus]
    mems: NotRequired[Cpus]
    quiet: NotRequired[Cpus]
    cpu_class: NotRequired[Text]
    why: NotRequired[Text]


class PlacementNeeds(TypedDict):
    """The parameters of placement's steps."""

    request: RequestRecord
    decision: NotRequired[DecisionRecord]


def pools_in_use(options: "dict[str, Any]") -> "list[Any]":
    """Return the declared pools, unchecked, if the policy uses them. ``options`` is the ``placement`` section.

    Other policies name parts of the machine, and these names may be those of pools.
    """
    return options.get("pools") or [] if options.get("policy") == POOLS else []


def grows(pool: "dict[str, Any]") -> bool:
    """Return whether a pool's CPUs follow from its containers."""
    return pool.get("cpus") is None or pool.get("minCpus") is not None or any(pool.get(key) for key in GROWTH)


def changes(pool: "dict[str, Any]") -> bool:
    """Return whether containers of a pool run on other CPUs than its declared ones."""
    return grows(pool) or any(pool.get(key) for key in VARIATIONS)


class Request:
    """One container's request.

    ``kind`` is the kind of its CPUs; ``exclusive`` the number of exclusive ones; ``milli`` its whole CPU request and
    ``limit`` its CPU limit, both in thousandths, 0 for none; ``memory`` its limit in bytes, 0 for none. ``isolated``:
    it prefers isolated CPUs; ``only_isolated``: it accepts no others. ``one_thread``: it uses one thread of each core.
    ``any_memory``: it is not bound to memory nodes. ``hints`` are its devices' names and the CPUs near to each;
    ``strict_hints``: it accepts no others; ``by_hints``: its own cores are the nearest of its part. ``quiet``:
    interrupts leave its exclusive CPUs; ``housekeeping``: they stay on the first core. ``memory_kinds`` are the kinds
    of memory that it is bound to (`topology.MemoryNode`), none for ordinary memory near its CPUs. ``wide`` is the level
    of its part of the machine. ``pool`` is a requested pool, ``matched`` the one whose expressions or namespaces match
    it, and ``group`` its group within the pool. ``pulls`` are ids of other containers, each with the weight of its
    affinity. ``cpu_class`` is a requested class of its exclusive CPUs. ``options`` is the ``placement`` section of the
    settings.
    """

    namespace = pod = container = qos = ""
    exclusive = milli = limit = memory = 0
    isolated = only_isolated = one_thread = any_memory = strict_hints = by_hints = quiet = housekeeping = False
    pool = matched = group = wide = cpu_class = ""

    def __init__(
        self, id_: str, key: str = "", *, options: "dict[str, Any] | None" = None, **values: "Unpack[RequestRecord]"
    ) -> None:
        self.id = id_
        self.key = key or id_
        self.kind = SHARED
        self.pulls: "list[list[Any]]" = []
        self.hints: "list[list[str]]" = []
        self.memory_kinds: "list[str]" = []
        self.options = {**FEATURES[NAME].defaults, **(options or {})}
        unknown = [name for name in values if not hasattr(self, name)]
        if unknown:
            raise TypeError(f"a request has no value {unknown[0]!r}")
        vars(self).update(values)

    @property
    def shared_milli(self) -> int:
        """The part of the request for a shared pool."""
        return max(self.milli - self.exclusive * MILLI, 0) if self.kind != EXCLUSIVE else 0

    @property
    def near(self) -> "list[int]":
        """The CPUs near to each of its devices."""
        return [parse_list(cpus) for _, cpus in self.hints]

    @property
    def binds_memory(self) -> bool:
        """Whether its memory limit binds it to NUMA nodes."""
        return bool(self.memory and self.options["pinMemory"] and not self.any_memory)

    def as_record(self) -> "RequestRecord":
        """Return plain JSON values, without the settings."""
        fields: "Any" = {name: one for name, one in vars(self).items() if one and name not in ("options", "id", "key")}
        request: "RequestRecord" = fields
        return request


_SETS: "Final" = ("cpus", "owned", "hidden", "mems", "quiet")


class Decision:
    """A container's place: ``pool`` by name, and its sets.

    ``cpus`` is the pool's set for its shared part, including CPUs that others own now. ``owned`` are its exclusive
    CPUs, ``hidden`` those of them that it does not use itself. ``mems`` is a set of NUMA nodes, 0 for all. ``quiet``
    are the exclusive CPUs that interrupts leave, ``cpu_class`` is the class of all of them. ``why`` and ``runners_up``
    are for people.
    """

    __slots__ = ("cpu_class", "cpus", "hidden", "kind", "mems", "milli", "owned", "pool", "quiet", "runners_up", "why")

    def __init__(
        self,
        kind: str,
        pool: str,
        cpus: int = 0,
        owned: int = 0,
        hidden: int = 0,
        mems: int = 0,
        quiet: int = 0,
        cpu_class: str = "",
        *,
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
        self.quiet = quiet
        self.cpu_class = cpu_class
        self.milli = milli
        self.why = why
        self.runners_up = runners_up or []

    @property
    def place(self) -> "Place":
        """All that containers of one place have in common."""
        return self.kind, self.pool, self.cpus, self.owned, self.hidden, self.mems, self.quiet, self.cpu_class

    def as_text(self) -> str:
        """Return the place as text that is short to read and write: sets are hexadecimal numbers."""
        sets = self.cpus, self.owned, self.hidden, self.mems, self.quiet
        return "\t".join([self.kind, self.pool, self.cpu_class, *[f"{cpus:x}" for cpus in sets]])

    @classmethod
    def of_text(cls, text: str) -> "Decision":
        """Return the decision from the value of `as_text`.

        Raises:
            ValueError: it is invalid.
        """
        kind, pool, cpu_class, *sets = text.split("\t")
        cpus, owned, hidden, mems, quiet = [int(one, 16) for one in sets]
        if min(cpus, owned, hidden, mems, quiet) < 0:
            raise ValueError("not a set")
        return cls(kind, pool, cpus, owned, hidden, mems, quiet, cpu_class)

    def as_record(self) -> "DecisionRecord":
        """Return plain JSON values."""
        record: "DecisionRecord" = {"kind": self.kind, "pool": self.pool, "milli": self.milli}
        for name in _SETS:
            value = getattr(self, name)
            if value:
                record[name] = format_list(value)
        if self.cpu_class:
            record["cpu_class"] = self.cpu_class
        return record

    @classmethod
    def of_record(cls, record: "DecisionRecord") -> "Decision":
        """Return the decision from the values of `as_record`.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: they are invalid.
        """
        given: "dict[str, Any]" = {**record}
        sets: "Any" = {name: parse_list(given.get(name, "")) for name in _SETS}
        cpu_class = str(record.get("cpu_class", ""))
        return cls(record["kind"], record["pool"], **sets, cpu_class=cpu_class, milli=record["milli"])
