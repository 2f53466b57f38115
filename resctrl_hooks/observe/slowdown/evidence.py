"""Evidence of a pod's speed: its cost of a unit of work, in the best of the grades that its node has.

| grade | cost | unit of work | source |
|---|---|---|---|
| `aet` | unhalted core cycles | micro-operation | resctrl's energy counters of the pod's groups (Linux 7.0) |
| `perf` | cycles | instruction | performance counters of the pod's cgroups |
| `traffic` | seconds of CPU time | GB of memory traffic | ``cpu.stat`` and the pod's groups |
| `waits` | seconds | second that its tasks ran | ``cpu.stat`` and pressure of its cgroup |

The last one says nothing of the work, only what the pod lost by waiting; the others are multiplied with it.

A task that waits for memory goes on taking cycles, so its cost rises by what it lost. A cost means nothing alone:
programs differ. It is compared with the same pod's cost at another time. ``traffic`` is an estimate: it holds while the
pod does the same kind of work, and not where its cache changes.
"""

from collections.abc import Callable, Sequence

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError, NotTrackedError
from resctrl_hooks.core.node.resctrl.bandwidth import bandwidth_of
from resctrl_hooks.core.node.resctrl.counters import Reading
from resctrl_hooks.observe.node.guard.snapshots import domains_of_slots
from resctrl_hooks.observe.node.slowdown.constants import AET, PERF, TRAFFIC
from resctrl_hooks.observe.node.slowdown.evidence.disks import read_moved
from resctrl_hooks.observe.node.slowdown.evidence.perf.counters import PerfCounters, PerfError
from resctrl_hooks.observe.node.slowdown.evidence.reader import counts_of
from resctrl_hooks.observe.node.slowdown.evidence.use import Use
from resctrl_hooks.observe.node.slowdown.evidence.waiting import time_taken, waiting_of
from resctrl_hooks.observe.node.slowdown.evidence.window import Counts, use_between

WAITS = "waits"
UNITS = {
    AET: "cycles per micro-operation",
    PERF: "cycles per instruction",
    TRAFFIC: "CPU seconds per GB",
    WAITS: "seconds per second that it ran",
}
ON_DISK = "seconds per operation on a disk"
_LEAST_OPERATIONS = 5
"""Of a measured time: beyond, a mean tells something."""


class EvidenceError(HookError):
    """This node has no evidence of the pod's speed."""

    reason = "evidence"


class Evidence:
    """The evidence of one pod; `close` it.

    Args:
        context: the node.
        key: the pod's key.
        cgroups: the folders of the pod's cgroup, or of its containers' cgroups.

    Attributes:
        domains: the memory domains in which the pod's traffic is counted, each as the ids of its L3 domains.
        bandwidth: these domains one by one.
        skipped: why better grades are not used.

    Raises:
        EvidenceError: no grade is available; the message names the reason for each.
        HookError: the pod's counters cannot be read.
    """

    def __init__(self, context: Context, key: str, cgroups: Sequence[str]) -> None:
        self._context = context
        self._key = key
        self._folders = [folder for folder in cgroups if folder]
        self._perf: PerfCounters | None = None
        counted = self._counted()
        self.bandwidth = bandwidth_of(counted)
        self.domains = domains_of_slots(context, counted)
        self.skipped: dict[str, str] = {}
        self.method = self._best()

    def _best(self) -> str:
        now = self.read()
        if None not in (now.cycles, now.operations):
            return AET
        self.skipped[AET] = "resctrl counts no cycles and micro-operations of this pod"
        try:
            self._perf = PerfCounters(self._folders, self._context.settings.sys_path)
        except PerfError as error:
            self.skipped[PERF] = str(error)
        else:
            return PERF
        if not self.domains:
            self.skipped[TRAFFIC] = "the pod's memory traffic is not counted"
        elif now.waits is None:
            self.skipped[TRAFFIC] = "cpu.stat of its cgroup has no usage_usec, which needs cgroup v2"
        else:
            return TRAFFIC
        if now.waits is not None and now.waits.stood is not None:
            return WAITS
        raise EvidenceError(f"nothing tells how fast the pod computes: {'; '.join(self.skipped.values())}")

    def _counted(self) -> list[Reading]:
        """Return the counters of the pod's groups; none without a group, as on a node without RDT."""
        try:
            return [one for one in self._context.monitor.read(self._key) if one.value is not None]
        except NotTrackedError:
            return []

    def read(self) -> Counts:
        """Return the pod's counters so far.

        Raises:
            HookError: they cannot be read.
        """
        return counts_of(self._counted(), self._folders, self._perf.read() if self._perf else None)

    def use(self, before: Counts, after: Counts, seconds: float) -> Use:
        """Return what the pod used between two readings."""
        return use_between(before, after, seconds, self.domains)

    def measure(self, sleep: Callable[[float], None], seconds: float, *, on_disk: bool = False) -> float | None:
        """Let so much time pass; return the cost of a unit of work meanwhile, None if it is unknown.

        With ``on_disk``, the unit of work is an operation on a disk, and its cost the time for which the pod ran or
        waited. What operations take alone is not known, but the same work takes the same ones.
        """
        before, done = self.read(), self._operations() if on_disk else 0.0
        sleep(seconds)
        after = self.read()
        if not on_disk:
            return self.cost(before, after, seconds)
        done = self._operations() - done
        return time_taken(self.use(before, after, seconds)) * seconds / done if done >= _LEAST_OPERATIONS else None

    def cost(self, before: Counts, after: Counts, seconds: float) -> float | None:
        """Return the cost of a unit of work between two readings, with what the pod lost by waiting meanwhile.

        None if it is unknown in the pod's grade.
        """
        use = self.use(before, after, seconds)
        lost = waiting_of([(use, seconds)]).stretch
        if self.method == WAITS:
            return lost if use.cpu else None
        return use.price * lost if use.method == self.method and use.price else None

    def _operations(self) -> float:
        """Return the operations of the pod on disks so far."""
        return sum(one.operations for one in (read_moved(self._folders) or {}).values())

    def close(self) -> None:
        """Give the performance counters back."""
        if self._perf is not None:
            self._perf.close()
