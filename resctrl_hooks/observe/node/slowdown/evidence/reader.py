"""Reads a node's pods and classes at one moment, and makes windows of two readings."""

import time
from typing import NamedTuple

from .....core.node.resctrl.absence import has_counters
from .....core.node.resctrl.bandwidth import EVENTS, LOCAL, TOTAL, bandwidth_of, is_at_memory, resource_of
from .....core.node.resctrl.counters import ERROR, UNAVAILABLE
from ...capacity.capacity import capacities_of
from ...guard.load import Reader as ClassReader
from ...guard.load import traffic
from ...guard.snapshots import domains_of_slots
from ...snapshot.pods import PodCgroups, recorded_pods
from ..constants import BESIDE
from .cgroup_waits import read_cpus, read_waits
from .cpu.processors import processors_between, stolen_of
from .cpu.task_delays import read_delays, sampled
from .node_counts import Needs, NodeCounter, needs_of, node_between
from .window import Counts, Window, use_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .....core.node.context import Context
    from .....core.node.resctrl.counters import Reading as CounterReading
    from .....core.node.resctrl.open_files import OpenFiles
    from ...guard.load import ClassCounts
    from .cpu.task_delays import Delays
    from .node_counts import NodeCounts
    from .perf.counters import PerfCount
    from .perf.watched import Watched
    from .use import Use

    Readings = Mapping[str, Iterable[CounterReading]]

_AT_FIRST = 16  # tasks of each pod: before the first window, nobody knows which pods wait
_OCCUPANCY = "llc_occupancy"
_SUMS = {"unhalted_core_cycles": "cycles", "uops_retired": "operations", "unhalted_ref_cycles": "references"}


class Moment(NamedTuple):
    """A node's counters at one time, in seconds of CLOCK_MONOTONIC."""

    time: float
    pods: "dict[str, Counts]"
    classes: "ClassCounts"
    node: "NodeCounts"


class NodeReader:
    """Reads one node. It keeps nothing of the pods but their cgroups.

    ``counted``: whether resctrl counts their traffic; otherwise no domain has any.

    Args:
        context: the node.
        files: counter files that stay open between readings.

    Raises:
        HookError: resctrl should be mounted and is not, or the state directory is unusable.
    """

    def __init__(self, context: "Context", files: "OpenFiles | None" = None) -> None:
        self._context = context
        self._files = files
        self.counted = has_counters(context.monitor.resctrl)
        slots = context.monitor.read_counters(files).slots if self.counted else []
        self.domains = domains_of_slots(context, slots)
        self.capacities = capacities_of(context, slots)
        self._classes = ClassReader(context.monitor.resctrl, bandwidth_of(slots))
        self.cgroups = PodCgroups(context)
        self._node = NodeCounter(context.settings)
        self._uses: "Mapping[str, Use] | None" = None
        self._outside = False
        """Whether tasks outside pods move much: then it is read which cgroups run."""

    def read(self, watched: "Watched", found: "Readings | None" = None) -> Moment:
        """Return the node's counters now; ``found`` are the pods' counters of this moment, if they are read already.

        Raises:
            HookError: resctrl is missing, or the state directory is unusable.
        """
        resctrl = self._context.monitor.resctrl
        now = time.monotonic()
        classes = self._classes.read(["", *resctrl.classes()] if self.counted else [], now)
        found = self._readings() if found is None else found
        folders = {key: self.cgroups.of(key) for key in found}
        tasks = dict.fromkeys(found, _AT_FIRST) if self._uses is None else sampled(self._uses)
        pods = {
            key: counts_of(readings, folders[key], *watched.read(key), self._delays(folders[key], tasks.get(key, 0)))
            for key, readings in found.items()
        }
        self.cgroups.keep(pods)
        needs = Needs() if self._uses is None else needs_of(self._uses.values())
        needs = needs._replace(cpu=needs.cpu or self._outside)
        return Moment(now, pods, classes, self._node.read(folders, needs))

    def _delays(self, folders: "Sequence[str]", most: int) -> "Delays | None":
        return read_delays(self._context.proc, folders, most) if most else None

    def _readings(self) -> "Readings":
        if not self.counted:
            return dict.fromkeys(recorded_pods(self._context), ())
        found = self._context.monitor.read_counters(self._files).readings
        if self._files is not None:
            self._files.forget_unseen()
        return found

    def window(self, before: Moment, after: Moment) -> Window:
        """Return the window between two moments."""
        seconds = after.time - before.time
        # A lower bound could make a loaded domain look quiet, so that a baseline is learned there.
        found = [one for one in traffic(before.classes, after.classes, self.domains) if not one.partial]
        self.capacities.look(self._context.settings.state_dir)
        processors = processors_between(before.node.ticks, after.node.ticks)
        uses = {
            key: use_between(before.pods[key], counts, seconds, self.domains, processors)
            for key, counts in after.pods.items()
            if key in before.pods
        }
        node = self._node.complete(node_between(before.node, after.node, uses, processors, seconds))
        uses = {key: node.explained(key, use) for key, use in uses.items()}
        self._uses = uses
        window = Window(
            after.time,
            seconds,
            {one.domain[0]: one.load(self.capacities.reliable(one.domain[0])) for one in found},
            uses,
            stolen_of(node.processors),
            {one.domain[0]: one.rate for one in found},
            node,
            self.counted,
        )
        self._outside = window.together.is_much_outside(BESIDE)
        return window


def counts_of(
    readings: "Iterable[CounterReading]",
    folders: "Sequence[str]",
    perf: "PerfCount | None",
    started: object = None,
    delays: "Delays | None" = None,
) -> Counts:
    """Return a pod's counters from its readings, its cgroups' folders, its performance counters and its tasks."""
    totals: "dict[int, float | None]" = {}
    near: "dict[int, float | None]" = {}
    occupancy: "dict[int, float]" = {}
    sums: "dict[str, float]" = {}
    readings = [*readings]
    resource = resource_of(readings)
    counted = {TOTAL: totals} if is_at_memory(resource) else {TOTAL: totals, LOCAL: near}
    for one in readings:
        name, domain = one.counter.name, one.domain
        if domain.node is not None:
            continue
        if name in EVENTS:
            if name in counted and domain.resource == resource:
                moved = counted[name]
                old = moved.get(domain.id, 0.0)
                is_unknown = one.value is None or one.state in (UNAVAILABLE, ERROR)  # it would be in the next window
                moved[domain.id] = None if is_unknown or old is None else old + (one.value or 0)
        elif one.value is None:
            continue
        elif name == _OCCUPANCY:
            occupancy[domain.id] = occupancy.get(domain.id, 0.0) + one.value
        elif name in _SUMS:
            sums[_SUMS[name]] = sums.get(_SUMS[name], 0.0) + one.value
    return Counts(
        {number: (total, near.get(number)) for number, total in totals.items()},
        occupancy,
        sums.get("cycles"),
        sums.get("operations"),
        sums.get("references"),
        read_waits(folders),
        perf,
        started,
        read_cpus(folders),
        delays,
    )
