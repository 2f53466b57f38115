"""A running container: its record, and what was observed of it."""

import posix

from ..feature_table import MONITORING
from ..host.cgroup_tasks import threads_of_container
from ..host.procfs import groups_of_process, lives
from .recorded import recorded_workload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    from ..host.cgroup import Leaf
    from ..host.cgroup_tasks import CgroupThreads
    from ..records import MemberRecord, StepRecord
    from ..settings import Settings
    from .runtimes import Found
    from .workload import Workload

    Container = Union[Workload, "Running"]
    """The object of a step: a `Workload` before it runs, or a `Running` container."""


class Running:
    """One live container.

    ``record`` is its record in the ledger if it is ``recorded`` as it runs now, else the plan for it; `set` changes it
    and notes in ``changed`` that it must be written. ``unlogged`` are the features in its ``unmet`` that are not logged
    yet, ``replanned`` those with a new step in its record. ``monitored``: it is to be in a group. ``noted``: it is to
    be recorded even without a step. ``rdt_class`` is its
    present class. ``leaf`` is its own cgroup after a feature's first request. ``in_cgroup`` are the threads of its
    cgroup when the node was observed; None if they were not read.
    """

    def __init__(self, key: str, found: "Found", record: "MemberRecord", *, recorded: bool) -> None:
        self.key = key
        self.id = found.id
        self.pid = found.pid
        self.start = found.start
        self.record: "MemberRecord" = {**record, "steps": record.get("steps", [])}
        self.recorded = recorded
        if not recorded:
            self.record["late"] = True
        self.changed = False
        self.unlogged: "set[str]" = set()
        self.replanned: "set[str]" = set()
        self.monitored = False
        self.noted = False
        self.rdt_class = ""
        self.joins()
        self.leaf: "Leaf | None" = None
        self.in_cgroup: "CgroupThreads | None" = None
        self.cgroup: str = record.get("cgroup", "")
        self.pod_cgroup: str = record.get("podCgroup", "")
        self.namespace: str = record.get("namespace", "")
        self.pod: str = record.get("pod", "")
        self.container: str = record.get("container", "")
        self.runtime: str = record.get("runtime", "")

    def __str__(self) -> str:
        name = "/".join(part for part in (self.namespace, self.pod, self.container) if part)
        return f"{name or 'container'} ({self.runtime or self.id[:12]}, {self.key[:36]})"

    def group_step(self) -> "StepRecord | None":
        """Return the recorded or planned step that joins its pod's group."""
        for step in self.record["steps"]:
            if step["feature"] == MONITORING:
                return step
        return None

    def joins(self) -> None:
        """Take the class and the wish for a group from that step."""
        step = self.group_step()
        self.monitored = step is not None
        if step is not None:
            self.rdt_class = step["needs"]["class"]

    @property
    def asks(self) -> bool:
        """Whether its bundle asks its runtime for a group (``linux.intelRdt.enableMonitoring``)."""
        return bool(self.record.get("runtimeGroup"))

    @property
    def born(self) -> float:
        """When it started, in seconds since boot."""
        return self.start / posix.sysconf("SC_CLK_TCK")

    def planned(self, settings: "Settings") -> "Workload":
        """Return the workload for which its steps were planned; raises as `recorded_workload`."""
        return recorded_workload(self.id, self.pid, self.record, settings)

    @property
    def recorded_class(self) -> "str | None":
        """The RDT class of its recorded group; None without one."""
        for step in self.record["steps"] if self.recorded else ():
            if step["feature"] == MONITORING:  # as `group_step`, without a call: each pass asks several times
                rdt_class: str = step["needs"]["class"]
                return rdt_class
        return None

    def set(self, name: str, value: "Any") -> None:
        """Change a field of the record; an empty value removes the field."""
        record: "dict[str, Any]" = self.record  # type: ignore[assignment]  # ``name`` is one of its fields
        if value != record.get(name, type(value)()):
            self.changed = True
            record[name] = value
            if not value:
                del record[name]

    def lacks(self, feature: str, why: str) -> bool:
        """Record why it lacks a feature, empty if it does not; return whether it lacks it for a new reason."""
        unmet = dict(self.record.get("unmet", {}))
        before = unmet.pop(feature, "")
        self.set("unmet", {**unmet, feature: why} if why else unmet)
        return bool(why) and why != before

    def note_class(self) -> None:
        """Record its present class in the step by which it joins its group."""
        group = self.group_step()
        if group is not None and group["needs"]["class"] != self.rdt_class:
            now: "StepRecord" = {**group, "needs": {**group["needs"], "class": self.rdt_class}}
            self.set("steps", [now if step is group else step for step in self.record["steps"]])

    def revalidate(self, proc: str) -> bool:
        """Return whether it is still the same process; if so, update its RDT class."""
        if not lives(proc, self.pid, self.start):
            return False
        try:
            where = groups_of_process(proc, self.pid)
        except ProcessLookupError:
            return False
        if where is not None:
            self.rdt_class = where[0]
        return True

    def threads(self, proc: str) -> "list[int]":
        """Return the ids of all its threads, including those of all its processes."""
        return threads_of_container(proc, self.cgroup, self.pid)
