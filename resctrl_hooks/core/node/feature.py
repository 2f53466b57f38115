"""The interface of all features, the step: one planned action of a feature for a container, and its pod's group.

`explain` prints a plan, the hook applies it, and reconcile repairs each step that no longer holds.
"""

from . import errors
from .host.files import is_folder
from .ledger import LIMBO, RUNTIMES, WAITING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any, Protocol

    from .container import running
    from .container.running import Running
    from .container.workload import Workload
    from .context import Context
    from .host.cgroup import Leaf
    from .records import MemberRecord, StepRecord
    from .resctrl.locked_key import LockedKey

    class OfCgroup(Protocol):
        """A container with a cgroup."""

        id: str
        pid: int
        cgroup: str
        leaf: "Leaf | None"

    Container = running.Container

    Resources = dict[str, Any]
    """Resources of a container's specification, or one of them, by NRI's names."""

    class Specifications(Protocol):
        """A feature's record of its values in containers' specifications, which change while these run.

        All methods raise a HookError or an OSError for a record that cannot be read or written.
        """

        NAME: str
        """The feature's name."""

        RESOURCE: str
        """The resource that it sets."""

        VALUE: str
        """The resource's name in messages."""

        def note(self, container: str, value: "Resources", context: "Context") -> None:
            """Record the value in the specification of a new container."""

        def noted(self, context: "Context") -> "set[str]":
            """Return the ids of the recorded containers."""

        def forget(self, containers: "set[str]", context: "Context") -> None:
            """Remove the records of removed containers."""

        def learn(self, listed: "dict[str, Resources]", before: "set[str]", context: "Context") -> None:
            """Record the values of the runtime's list; containers recorded ``before`` and not listed are gone."""

        def changes(self, started: str, context: "Context") -> "dict[str, Resources]":
            """Return the values that differ from specifications, by container, and record them as sent.

            ``started`` is a container without a record that has just started; empty for none.
            """


SKIP = "skip"
INTO_CLASS = "class"
"""The action of a step that moves the container into the RDT class of its parameter ``class``; later steps act
there."""


class Step:
    """One action: its feature, name, parameters, and reason.

    The parameters are plain JSON values; `records` has their types by feature. A step with the action ``skip`` does
    nothing; it only carries the reason. ``foreign`` are others' values that stay although the feature would set some.
    ``noted``: also if nothing is done, the container is recorded, so that its use can be measured.
    """

    __slots__ = ("action", "feature", "foreign", "noted", "parameters", "why")

    def __init__(
        self,
        feature: str,
        action: str,
        parameters: "Any",
        why: str,
        foreign: "Sequence[str]" = (),
        *,
        noted: bool = False,
    ) -> None:
        self.feature = feature
        self.action = action
        self.parameters: Any = parameters
        self.why = why
        self.foreign = list(foreign)
        self.noted = noted

    def as_record(self) -> "StepRecord":
        """Return the step in the ledger's form."""
        return {"feature": self.feature, "action": self.action, "needs": self.parameters}

    @classmethod
    def of_record(cls, record: "StepRecord") -> "Step":
        """Return the step from the ledger's form."""
        return cls(record["feature"], record["action"], record["needs"], "")


class Feature:
    """A function for containers. Every feature defines the first three methods, and others as required.

    All methods raise a HookError for what cannot be done.
    """

    name = ""

    def plan(self, workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
        """Return the steps for a workload with their reasons. Read-only.

        ``earlier`` are the steps that precede them.
        """
        raise NotImplementedError

    def apply(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Apply one step; also repeatedly, and to running containers.

        The key is held, unless the step `runs_programs`.
        """
        raise NotImplementedError

    def holds(self, step: "Step", container: "Container", context: "Context") -> bool:
        """Return whether the step's result is still in place. Read-only.

        A later decision of another program, such as a class to which an agent moved the container, also holds.

        Raises:
            HookError, OSError: unknown.
        """
        raise NotImplementedError

    def runs_programs(self, step: "Step", context: "Context") -> bool:
        """Return whether a step's `apply`, `holds` or `revert` runs, or waits for, other programs.

        Then they are called without the key's lock, and may not change the key or its members.
        """
        return False

    def revert(self, step: "Step", member: "MemberRecord", locked: "LockedKey", context: "Context") -> None:
        """Undo effects that outlive a dead container, or one whose later step failed; also before the step is complete.

        ``member`` is the container's record. Idempotent. By default there are no such effects.
        """

    def values(self, step: "Step") -> "list[list[str]]":
        """Return the step's values in the container's cgroup: pairs of a file's name and its content."""
        return []

    def resources(self, step: "Step") -> "Resources":
        """Return the step's values in a container's specification; by default its class."""
        return {f"{self.name}_class": {"value": step.parameters["class"]}}

    def specifications(self) -> "Specifications | None":
        """Return the record of the feature's values in specifications; None unless they change later."""
        return None

    def properties(self, step: "Step", container: "Container", context: "Context") -> "dict[str, str]":
        """Return the systemd properties that keep the step's values; those that cannot be sent are left out."""
        return {}

    def reserve(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Reserve contested resources of the step for a container that can still be refused."""

    def preview(self, step: "Step", workload: "Workload", context: "Context") -> "Step":
        """Return the step with the decision that would be made now. Read-only."""
        return step

    def lost(self, step: "Step", container: "Container", context: "Context") -> str:
        """Return why a process that the step started has ended; empty if unknown."""
        return ""

    def adopt(
        self, context: "Context", containers: "list[Running]", *, dry_run: bool
    ) -> "tuple[list[str], dict[str, Exception]]":
        """Record steps for running containers without them; return these containers' ids, and failures by id.

        Reconcile calls it; a feature that has it is one of `Row.adopts`.
        """
        return [], {}

    def orphans(self, context: "Context", known: "Collection[str]" = ()) -> "list[str]":
        """Return the paths of processes started for containers without a record, except the ``known`` ones."""
        return []

    def repair(self, context: "Context", known: "set[str]") -> int:
        """End orphans, and repair the feature's state of the whole node; return the number of repairs.

        Called by reconcile.
        """
        return 0

    def withdraw(self, context: "Context") -> None:
        """Undo everything on this node before an uninstallation.

        Containers have no records any more. If the feature has `Row.leaves`, they may have some: then only the node's
        values are restored.

        Raises:
            HookError: something is left.
        """
        self.repair(context, set())  # without records every process is an orphan


def describe(container: "Container", locked: "LockedKey") -> None:
    """Record the owner of a new key: its pod's cgroup, namespace and name, and when a running container started.

    A cgroup that does not exist is no sign of the pod's end, so only an existing one is recorded.
    """
    if not locked.tracked:
        record = locked.record
        record["cgroup"] = container.pod_cgroup if is_folder(container.pod_cgroup) else ""
        record["namespace"] = container.namespace
        record["pod"] = container.pod
        if container.born is not None:
            record.setdefault("born", container.born)


def obtain_group(
    locked: "LockedKey",
    rdt_class: str,
    context: "Context",
    container: "Container | None" = None,
    *,
    thorough: bool = False,
) -> None:
    """Create the key's group in a class unless it exists; a key without an RMID waits from now on.

    Under sharing rules the ``container`` has a priority; without it, the recorded one counts. ``thorough`` as in
    `sharing.admission.ensure_by_rules`.

    Raises:
        NoRMIDsError: no RMID is free, or the limits or rules do not permit one.
        ResctrlError, HookError: as `LockedKey.ensure_group`.
    """
    settings = context.settings
    may_wait = locked.tracked and rdt_class not in locked.origins  # a new key has no mark
    try:
        if settings.groups.get("limits") and not locked.origins:
            from .sharing.limits import check_limit

            check_limit(locked.key, locked.record.get("namespace", ""), context)
        if settings.shares_rmids:
            from .sharing.admission import ensure_by_rules  # only where RMIDs are shared by rules

            ensure_by_rules(locked, rdt_class, context, container, thorough=thorough)
        elif context.ledger.flagged(RUNTIMES):
            from .sharing.runtimes import take_free  # only where runtimes create groups

            take_free(locked, rdt_class, context, lambda: locked.ensure_group(rdt_class))
        else:
            locked.ensure_group(rdt_class)
    except errors.NoRMIDsError as error:
        if isinstance(error, errors.RMIDsBusyError):
            from .flags import touch

            touch(context.ledger, LIMBO)
        if not locked.tracked and locked.members():
            locked.save()  # as after a refusal by the kernel: the key is known, with names and without counts
        context.ledger.mark(WAITING, locked.key)
        raise
    if may_wait:
        from .class_needs import stop_waiting  # only pods in two classes, and those that waited

        stop_waiting(locked, context)
