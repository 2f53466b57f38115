"""One container's place, as the allocations keep it: its owner, its process, its cgroup, and the decision."""

from ...core.node.errors import LedgerError
from ...core.node.host.procfs import lives
from .policy import NAME, Decision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...core.node.context import Context
    from ...core.node.host.cgroup import Leaf
    from ...core.node.records import MemberRecord
    from .policy import PlacementNeeds


class Entry:
    """One container's place.

    ``unit`` is its own systemd scope, and ``scope`` the scope's cgroup if that is not the container's own (crun's
    processes are a level below). ``milli`` is its request of the pool, and ``memory`` its memory limit in bytes.
    In the allocations, ``decision`` is shared with all containers of the place, and its ``milli`` unused. ``applied``
    is the written set, 0 for none yet.
    """

    __slots__ = ("applied", "decision", "folder", "id", "key", "memory", "milli", "pid", "scope", "start", "unit")

    def __init__(
        self,
        id_: str,
        key: str,
        pid: int,
        start: int,
        folder: str,
        decision: Decision,
        milli: "int | None" = None,
        unit: str = "",
        scope: str = "",
        memory: int = 0,
    ) -> None:
        self.id = id_
        self.key = key
        self.pid = pid
        self.start = start
        self.folder = folder
        self.unit = unit
        self.scope = scope
        self.decision = decision
        self.milli = decision.milli if milli is None else milli
        self.memory = memory
        self.applied = 0

    @classmethod
    def in_leaf(
        cls, id_: str, key: str, pid: int, start: int, leaf: "Leaf", decision: Decision, memory: int
    ) -> "Entry":
        """Return the place of a container with this cgroup."""
        unit = leaf.unit if leaf.own_scope else ""
        return cls(id_, key, pid, start, leaf.folder, decision, unit=unit, scope=leaf.scope, memory=memory)

    def as_row(self) -> "list[str | int]":
        """Return all but the decision and the written set."""
        return [self.id, self.key, self.pid, self.start, self.folder, self.milli, self.unit, self.scope, self.memory]

    @classmethod
    def of_row(cls, row: "list[Any]", decision: Decision) -> "Entry":
        """Return the place from the values of `as_row`."""
        id_, key, pid, start, folder, *rest = row
        return cls(id_, key, pid, start, folder, decision, *rest)

    def is_dead(self, context: "Context") -> bool:
        """Return whether its init process is gone."""
        return not lives(context.proc, self.pid, self.start)


def record_of(container: str, context: "Context") -> "MemberRecord | None":
    """Return a container's record; None if missing or unreadable, which `discovery` reports."""
    try:
        key = context.ledger.key_of(container)
        return context.ledger.read_member(key, container) if key else None
    except LedgerError:
        return None


def needs_of(record: "MemberRecord | None") -> "PlacementNeeds | None":
    """Return the parameters of a record's placement; None without one."""
    steps = record.get("steps", []) if record is not None else []
    return next((step["needs"] for step in steps if step["feature"] == NAME), None)
