"""All data of one sample of `top`, whether it was taken now or is from the history."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from resctrl_hooks.core.inventory.models import Rmids
from resctrl_hooks.observe.inventory.class_changes import ClassChange
from resctrl_hooks.observe.inventory.columns import LLC, MBM
from resctrl_hooks.observe.inventory.lost_time import LostTime
from resctrl_hooks.observe.inventory.rates import TOTAL, UNGROUPED, Line
from resctrl_hooks.observe.inventory.usage_models import DomainUsage, MemoryUsage, PowerUsage


@dataclass(slots=True)
class Scene:
    """All data of one sample."""

    host: str
    time: str
    lines: list[Line]
    llc_bytes: int = 0
    rmids: Rmids | None = None
    waiting: int = 0
    seconds: float = 0.0
    """Seconds since the previous sample: the interval of the rates."""
    domains: Sequence[DomainUsage] = ()
    """Each L3 cache, if there are several, and each memory that counts itself."""
    domain: tuple[str, int] | None = None
    """Resource and id of the selected one; None for all together."""
    memory: Sequence[MemoryUsage] = ()
    """Each memory domain, where a capacity is known."""
    lost: Sequence[LostTime] = ()
    """What the pods of namespaces lost to others since the sampling process began."""
    power: PowerUsage | None = None
    """The packages' power, where the kernel has RAPL."""
    lowered: Mapping[str, str] = field(default_factory=dict)
    """By RDT class, the values that the guard lowered: ``MB 100↓60``."""
    past: str = ""
    """The beginning of the first line if the scene is not of the present."""
    when: str = ""
    """Its time in ISO 8601, if it is not of the present."""
    absent: str = ""
    """The reason why this node has no counters."""
    note: str = ""
    """A remark on the rates, such as a gap before the sample."""
    history: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    changes: Callable[[], Sequence[ClassChange]] = tuple
    """The newest changes of RDT classes, which are read only where they are shown."""

    node: Line | None = None
    """The node's total, or that of the selected domain, where ``lines`` are only some of the lines."""

    @property
    def total(self) -> Line:
        """The node's total, or that of the selected domain."""
        return self.node or next((line for line in self.lines if line.kind == TOTAL), Line(TOTAL))

    @property
    def uncounted(self) -> int:
        """Number of pods of the node whose memory traffic is not counted now."""
        return self.total.uncounted

    @property
    def most(self) -> float:
        """The largest bandwidth of a user, which is the full length of a bar."""
        return max((line[MBM] or 0.0 for line in self.lines if line.kind not in (TOTAL, UNGROUPED)), default=0.0)

    def share(self, line: Line) -> float | None:
        """Return the share of all L3 caches, from 0 to 1, that the pod of a line occupies."""
        occupied = line[LLC]
        return None if not self.llc_bytes or occupied is None else occupied / self.llc_bytes
