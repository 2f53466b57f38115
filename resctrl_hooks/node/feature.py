"""A step: one thing that a feature does for a container, said before it is done; and what every feature offers.

A feature is one module with a few functions (the protocol below): ``plan`` says its steps and changes nothing,
``apply`` does one, ``holds`` says whether that is so, ``revert`` takes it back from what the ledger recorded of it.
`explain` prints what ``plan`` says, the hook applies it, reconcile applies again what holds no more.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

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
            """The ids of all its threads."""

    class Feature(Protocol):
        """One thing that can be done for a workload."""

        def plan(self, workload: "Workload", context: "Context") -> "list[Step]":
            """The steps for this workload, and why; changes nothing. Raises HookError where a step is impossible."""

        def apply(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
            """Does one step; again if need be, and to a container that runs. Raises HookError."""

        def holds(self, step: "Step", container: "Container", context: "Context") -> bool:
            """Whether what the step does is so now; changes nothing. Raises HookError or OSError if unknown.

            What somebody else has decided since, as a class that an agent moved the container to, holds too.
            """

        def revert(self, step: "Step", member: "MemberRecord", locked: "LockedKey", context: "Context") -> None:
            """Takes one step back when its container has died, or when a later step failed; it may not be done yet.

            ``member`` is the record of the container. Idempotent. Raises HookError.
            """


SKIP = "skip"


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
        """The step as the ledger keeps it."""
        return {"feature": self.feature, "action": self.action, "needs": self.parameters}

    @classmethod
    def of_record(cls, record: "StepRecord") -> "Step":
        """The step that the ledger kept."""
        return cls(record["feature"], record["action"], record["needs"], "")
