"""A container that runs: what the ledger recorded of it, or else what was planned for it just now."""

from ..host.cgroup_tasks import threads_of_container
from ..host.procfs import resctrl_groups_of, start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..host.cgroup import Leaf
    from ..host.cgroup_tasks import CgroupThreads
    from ..records import MemberRecord, StepRecord
    from .runtimes import Found


class Running:
    """One living container.

    ``recorded`` says whether the ledger has it as it runs now. ``steps`` are as the ledger keeps them. ``late`` is true
    for one that was taken in when it ran already. ``unmet`` says by feature what it was to have and has not, and why;
    ``unsaid`` are those of them that nobody has been told yet; ``unplanned`` are those whose plan failed, which are
    planned again; ``starts`` says when reconcile started something of it again. ``changed`` says that its record is to
    be written. ``wanted`` is false for one that is not to be monitored; ``recorded_class`` is the RDT class in which
    its group was recorded, ``rdt_class`` the one that it is in. ``told`` is true if the record has what NRI passed.
    ``kept`` are foreign values that stay, by feature. ``in_cgroup`` has the threads of its cgroup when the node was
    observed; None if they were not read.
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
        self.leaf: "Leaf | None" = None  # its own cgroup once a feature has asked for it
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
        """Take over what its step of monitoring says, if it has one."""
        self.wanted = step is not None
        if step is not None:
            self.rdt_class = step["needs"]["class"]
            self.recorded_class = self.rdt_class if self.recorded else None

    def look_again(self, proc: str) -> bool:
        """Return whether it is still the same process; if so, finds out in which class it is now."""
        if start_time(proc, self.pid) != self.start:
            return False
        try:
            where = resctrl_groups_of(proc, self.pid)
        except ProcessLookupError:
            return False
        if where is not None:
            self.rdt_class = where[0]
        return True

    def threads(self, proc: str) -> "list[int]":
        """Return the ids of all its threads, whatever processes it has started."""
        return threads_of_container(proc, self.cgroup, self.pid)

    def details(self) -> "MemberRecord":
        """What the ledger is to record of it."""
        record: "MemberRecord" = {
            **self._record,
            "steps": self.steps,
            "unmet": self.unmet,
            "unplanned": self.unplanned,
            "late": self.late,
            "starts": self.starts,
            "kept": self.kept,
        }
        if not self.unmet:
            del record["unmet"]
        if not self.unplanned:
            del record["unplanned"]
        if not self.late:
            del record["late"]
        if not self.starts:
            del record["starts"]
        if not self.kept:
            del record["kept"]
        return record
