"""One container's place, as the allocations keep it: its owner, its process, its cgroup, and the decision."""

from ...host.procfs import lives
from .policy import Decision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...context import Context


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

    def is_dead(self, context: "Context") -> bool:
        """Return whether its init process is gone."""
        return not lives(context.proc, self.pid, self.start)
