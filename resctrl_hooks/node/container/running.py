"""A running container: its record in the ledger, else the plan for it."""

from ..host.cgroup_tasks import threads_of_container
from ..host.procfs import lives, resctrl_groups_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..host.cgroup import Leaf
    from ..host.cgroup_tasks import CgroupThreads
    from ..records import MemberRecord, StepRecord
    from .runtimes import Found

_LEFT_OUT_IF_EMPTY = ("unmet", "unplanned", "late", "starts", "kept")


class Running:
    """One live container.

    ``recorded``: the ledger has it as it runs now. ``steps``: as in the ledger. ``late``: it was adopted while it
    ran. ``unmet``: the features that it lacks, with the reasons; ``unsaid``: those of them that are not logged yet;
    ``unplanned``: those whose plan failed, which are planned again. ``starts``: when reconcile restarted a feature's
    process. ``changed``: its record must be written. ``wanted``: it is to be monitored. ``recorded_class``: the RDT
    class of its recorded group; ``rdt_class``: its present class. ``told``: the record has the values that NRI
    passed. ``kept``: foreign values that stay, by feature. ``in_cgroup``: the threads of its cgroup when the node
    was observed; None if they were not read.
    """

    def __init__(self, key: str, found: "Found", record: "MemberRecord", *, recorded: bool) -> None:
        self.key = key
        self.id = found.id
        self.pid = found.pid
        self.start = found.start
        self.bundle: str = found.bundle or record.get("bundle", "")
        self.recorded = recorded
        self.late: bool = not recorded or bool(record.get("late"))
        self.steps: "list[StepRecord]" = list(record.get("steps", []))
        self.unmet: "dict[str, str]" = dict(record.get("unmet", {}))
        self.unsaid: "set[str]" = set()
        self.unplanned: "list[str]" = list(record.get("unplanned", []))
        self.changed = False
        self.starts: "dict[str, list[float]]" = dict(record.get("starts", {}))
        self.cgroup: str = record.get("cgroup", "")
        self.leaf: "Leaf | None" = None  # its own cgroup; set when a feature first needs it
        self.pod_cgroup: str = record.get("podCgroup", "")
        self.namespace: str = record.get("namespace", "")
        self.pod: str = record.get("pod", "")
        self.container: str = record.get("container", "")
        self.runtime: str = record.get("runtime", "")
        self.wanted = False
        self.recorded_class: "str | None" = None
        self.rdt_class = ""
        self.in_cgroup: "CgroupThreads | None" = None
        self.told = "told" in record
        self.kept: "dict[str, list[str]]" = dict(record.get("kept", {}))
        self._record = record

    def __str__(self) -> str:
        name = "/".join(part for part in (self.namespace, self.pod, self.container) if part)
        return f"{name or 'container'} ({self.runtime or self.id[:12]}, {self.key[:36]})"

    def joins(self, step: "StepRecord | None") -> None:
        """Take the class and the wish for a group from its monitoring step; None if it has no such step."""
        self.wanted = step is not None
        if step is not None:
            self.rdt_class = step["needs"]["class"]
            self.recorded_class = self.rdt_class if self.recorded else None

    def look_again(self, proc: str) -> bool:
        """Return whether it is still the same process; if so, update its RDT class."""
        if not lives(proc, self.pid, self.start):
            return False
        try:
            where = resctrl_groups_of(proc, self.pid)
        except ProcessLookupError:
            return False
        if where is not None:
            self.rdt_class = where[0]
        return True

    def threads(self, proc: str) -> "list[int]":
        """Return the ids of all its threads, including those of all its processes."""
        return threads_of_container(proc, self.cgroup, self.pid)

    def details(self) -> "MemberRecord":
        """Return its data for the ledger."""
        record: "Any" = {**self._record, "steps": self.steps}
        for name in _LEFT_OUT_IF_EMPTY:
            record[name] = getattr(self, name)
            if not record[name]:
                del record[name]
        kept: "MemberRecord" = record
        return kept
