"""What every feature offers, and a step: one thing that a feature does for a container, planned before it is done.

`explain` prints a plan, the hook applies it, reconcile applies again each step that does not hold.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any, Protocol

    from .container.running import Running
    from .container.workload import Workload
    from .context import Context
    from .host.cgroup import Leaf
    from .records import MemberRecord, StepRecord
    from .resctrl.locked_key import LockedKey

    class Container(Protocol):
        """What a step is done to: a `Workload` before it runs, or a `Running` container."""

        id: str
        key: str
        pid: int
        cgroup: str
        pod_cgroup: str
        namespace: str
        pod: str
        container: str
        runtime: str
        leaf: "Leaf | None"

        def threads(self, proc: str) -> "list[int]":
            """Return the ids of all its threads."""


SKIP = "skip"
INTO_CLASS = "class"
"""The action of a step that puts the container into the RDT class of its parameter ``class``; later steps act there."""


class Step:
    """One thing to do: the feature whose it is, the action, its parameters, and why.

    The parameters are plain JSON values, which `records` has by feature.

    A step with the action ``skip`` is nothing to do; it is there to say why.
    """

    __slots__ = ("action", "feature", "parameters", "why")

    def __init__(self, feature: str, action: str, parameters: "Any", why: str) -> None:
        self.feature = feature
        self.action = action
        self.parameters: Any = parameters
        self.why = why

    def as_record(self) -> "StepRecord":
        """Return the step as the ledger keeps it."""
        return {"feature": self.feature, "action": self.action, "needs": self.parameters}

    @classmethod
    def of_record(cls, record: "StepRecord") -> "Step":
        """Return the step that the ledger kept."""
        return cls(record["feature"], record["action"], record["needs"], "")


class Feature:
    """One thing that can be done for containers. A feature defines the first three methods, and others as it needs."""

    name = ""

    def plan(self, workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
        """Return the steps for a workload, and why; change nothing. ``earlier`` are the steps that are done before.

        Raises:
            HookError: a step is impossible.
        """
        raise NotImplementedError

    def apply(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Do one step; again if need be, and to a container that runs.

        Raises:
            HookError: it can't be done.
        """
        raise NotImplementedError

    def holds(self, step: "Step", container: "Container", context: "Context") -> bool:
        """Return whether what the step does is so now; change nothing.

        What another program has decided since, as a class that an agent moved the container to, holds too.

        Raises:
            HookError, OSError: that is unknown.
        """
        raise NotImplementedError

    def revert(self, step: "Step", member: "MemberRecord", locked: "LockedKey", context: "Context") -> None:
        """Take back what outlives a dead container, or one whose later step failed; the step may not be done yet.

        ``member`` is the record of the container. Idempotent. By default nothing is left to take back.

        Raises:
            HookError: it can't be taken back.
        """

    def properties(self, step: "Step", container: "Container", context: "Context") -> "dict[str, str]":
        """Return the properties by which systemd keeps what the step sets; what can't be told is left out."""
        return {}

    def reserve(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Take beforehand what the step needs and others may take, for a container that can still be refused.

        Raises:
            HookError: it can't be had.
        """

    def preview(self, step: "Step", workload: "Workload", context: "Context") -> "Step":
        """Return the step with what would be decided now; change nothing.

        Raises:
            HookError: the step could not be done.
        """
        return step

    def lost(self, step: "Step", container: "Container", context: "Context") -> str:
        """Return why what the step had started runs no more; empty where that is unknown."""
        return ""

    def adopt(
        self, context: "Context", containers: "list[Running]", *, dry_run: bool
    ) -> "tuple[list[str], dict[str, Exception]]":
        """Record steps for running containers that lack theirs; return the ids of these, and by id what failed.

        Reconcile calls it for a feature of the kind ``node``.
        """
        return [], {}

    def orphans(self, context: "Context", known: "Collection[str]" = ()) -> "list[str]":
        """Return the paths of what was started for containers that nobody records, these ``known`` ones apart."""
        return []

    def repair(self, context: "Context", known: "set[str]") -> int:
        """End orphans, and repair what concerns the whole node; return how much that was. Reconcile calls it.

        Raises:
            HookError: some of it can't be done.
        """
        return 0


def describe(container: "Container", locked: "LockedKey", born: "float | None" = None) -> None:
    """Record whose a new key is: its pod's cgroup, namespace and name; ``born`` is when the container started."""
    if not locked.tracked:
        record = locked.record
        record["cgroup"] = container.pod_cgroup
        record["namespace"] = container.namespace
        record["pod"] = container.pod
        if born is not None:
            record.setdefault("born", born)
