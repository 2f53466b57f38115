"""What tells how fast a pod computes: its cost of a unit of work, in the best of three grades that its node has.

| grade | cost | unit of work | source |
|---|---|---|---|
| `aet` | unhalted core cycles | micro-operation | resctrl's energy counters of the pod's groups (Linux 7.0) |
| `perf` | cycles | instruction | performance counters of the pod's cgroups |
| `traffic` | seconds of CPU time | GB of memory traffic | ``cpu.stat`` and the pod's groups |

A task that waits for memory goes on taking cycles, so its cost rises by what it lost. A cost says nothing alone:
programs differ. It is compared with the same pod's cost at another time. ``traffic`` is an estimate: it holds while the
pod does the same kind of work, and not where its cache changes.
"""

from collections.abc import Sequence

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.errors import HookError
from resctrl_hooks.node.host.files import read_file
from resctrl_hooks.node.slowdown.constants import AET, LEAST_RUNNING, PERF, TRAFFIC
from resctrl_hooks.node.slowdown.perf import PerfCounters, PerfError

UNITS = {AET: "cycles per micro-operation", PERF: "cycles per instruction", TRAFFIC: "CPU seconds per GB"}
_CYCLES, _OPERATIONS, _TRAFFIC = "unhalted_core_cycles", "uops_retired", "mbm_total_bytes"
_REFERENCES = "unhalted_ref_cycles"
_STAT, _USED = "cpu.stat", "usage_usec"
_LIMIT = 1 << 16


class EvidenceError(HookError):
    """Nothing on this node tells how fast the pod computes."""

    reason = "evidence"


class Reading:
    """A pod's cost and work so far, and the seconds for which they were wanted and counted. None: unknown."""

    __slots__ = ("cost", "counted", "wanted", "work")

    def __init__(self, cost: float | None, work: float | None, wanted: float = 0.0, counted: float = 0.0) -> None:
        self.cost = cost
        self.work = work
        self.wanted = wanted
        self.counted = counted


def cost_between(before: Reading, after: Reading) -> float | None:
    """Return the cost of a unit of work between two readings.

    None where a value is missing or fell, the pod did no work, or the counters ran for less than `LEAST_RUNNING` of the
    time.
    """
    if before.cost is None or before.work is None or after.cost is None or after.work is None:
        return None
    wanted, counted = after.wanted - before.wanted, after.counted - before.counted
    if wanted > 0 and counted < LEAST_RUNNING * wanted:
        return None
    cost, work = after.cost - before.cost, after.work - before.work
    return cost / work if cost > 0 and work > 0 else None


class Evidence:
    """The evidence of one pod; `close` it.

    Args:
        context: the node.
        key: the pod's key.
        cgroups: the folders of the pod's cgroup, or of its containers' cgroups.

    Raises:
        EvidenceError: no grade is available; the message names the reason for each.
        HookError: the pod's counters cannot be read.
    """

    def __init__(self, context: Context, key: str, cgroups: Sequence[str]) -> None:
        self._context = context
        self._key = key
        self._folders = [folder for folder in cgroups if folder]
        self._perf: PerfCounters | None = None
        self.skipped: dict[str, str] = {}
        """Why better grades are not used."""
        self.method = self._best()

    def _best(self) -> str:
        if None not in (self._sum(_CYCLES), self._sum(_OPERATIONS)):
            return AET
        self.skipped[AET] = "resctrl counts no cycles and micro-operations of this pod"
        try:
            self._perf = PerfCounters(self._folders, self._context.settings.sys_path)
        except PerfError as error:
            self.skipped[PERF] = str(error)
        else:
            return PERF
        if self._sum(_TRAFFIC) is None:
            self.skipped[TRAFFIC] = "the pod's memory traffic is not counted"
        elif self._cpu_time() is None:
            self.skipped[TRAFFIC] = f"{_STAT} of its cgroup has no {_USED}, which needs cgroup v2"
        else:
            return TRAFFIC
        raise EvidenceError(f"nothing tells how fast the pod computes: {'; '.join(self.skipped.values())}")

    def read(self) -> Reading:
        """Return the pod's cost and work so far.

        Raises:
            HookError: the pod's counters cannot be read.
        """
        if self._perf is not None:
            found = self._perf.read()
            cycles = found.cycles if found.references is None else found.references
            return Reading(cycles, found.instructions, found.enabled, found.running)
        if self.method == AET:
            return Reading(self._sum(_REFERENCES) or self._sum(_CYCLES), self._sum(_OPERATIONS))
        moved = self._sum(_TRAFFIC)
        return Reading(self._cpu_time(), None if moved is None else moved / 1e9)

    def traffic(self) -> dict[int, float]:
        """Return the pod's memory traffic so far in bytes, by L3 domain; without domains whose value is unknown."""
        return {
            one.domain.id: float(one.value)
            for one in self._context.monitor.read(self._key)
            if one.counter.name == _TRAFFIC and one.domain.node is None and one.value is not None
        }

    def close(self) -> None:
        """Give the performance counters back."""
        if self._perf is not None:
            self._perf.close()

    def _sum(self, counter: str) -> float | None:
        """Return a counter's sum over all domains; None without one."""
        found = [
            one.value
            for one in self._context.monitor.read(self._key)
            if one.counter.name == counter and one.domain.node is None and one.value is not None
        ]
        return float(sum(found)) if found else None

    def _cpu_time(self) -> float | None:
        """Return the seconds of CPU time of the pod's cgroups."""
        total = 0
        for folder in self._folders:
            try:
                text = read_file(f"{folder}/{_STAT}", _LIMIT).decode("ascii", "replace")
            except OSError:
                return None
            used = dict(line.split(" ", 1) for line in text.splitlines() if " " in line).get(_USED, "")
            if not used.isdigit():
                return None
            total += int(used)
        return total / 1e6 if self._folders else None
