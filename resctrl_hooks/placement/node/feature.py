"""The placement feature: a policy chooses CPUs and memory nodes before a container's process runs; others make room.

All decisions and writes happen under one lock for the node. A decision is recorded before any effect, in the
allocations and in the container's record, so that the next call completes or undoes a killed hook's work.
"""

from ...core.node.errors import HookError
from ...core.node.feature import SKIP, Feature, Step
from ...core.node.host.cpulist import format_list
from .allocations import Book, lock
from .cpuset_writer import follow
from .finishing import finish
from .policy import NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.node.container.running import Running
    from ...core.node.container.workload import Workload
    from ...core.node.context import Context
    from ...core.node.feature import Container, Resources, Specifications
    from ...core.node.records import MemberRecord
    from ...core.node.resctrl.locked_key import LockedKey
    from .policy import Decision, PlacementNeeds


class Placement(Feature):
    """CPUs and memory nodes of a container."""

    name = NAME

    def plan(self, workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
        """Place the container, unless its runtime has, or its namespace is excluded.

        The decision is made under the node's lock, when the step is applied; `preview` shows the present one. A request
        without permission shares CPUs, unless failures refuse: an unplaced container would run on others' CPUs.

        Raises:
            PlacementError: the kubelet places containers here, or an annotation requests a forbidden value.
            CgroupError: the container has no cgroup of its own.
        """
        from .placing import may_share, steps_for  # the end of a container needs none of these

        return steps_for(workload, context, share=may_share(context))

    def apply(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Decide, record the decision, make room, and write the container's cpuset."""
        from ...core.node.cgroup_settings.own import living_cgroup
        from .placing import may_share, place
        from .request import request_from

        needs: "PlacementNeeds" = step.parameters
        request = request_from(needs["request"], container.id, container.key, context.settings.sections["placement"])
        try:
            with lock(context):
                book = Book(context)
                if book.lost:
                    from .reconcile import recall  # once per boot

                    recall(book, context, but=container.id)
                leaf = living_cgroup(container, context)
                place(request, container.pid, leaf, book, context, share=may_share(context))
        except HookError:
            context.ledger.wake()  # reconcile tries again, possibly with more time
            raise

    def resources(self, step: "Step") -> "Resources":
        """Return the cpuset of the decision; empty if the container cannot be placed, and its start reports why."""
        needs = step.parameters
        return {"cpu": {name: needs[name] for name in ("cpus", "mems") if needs[name]}} if needs.get("cpus") else {}

    def specifications(self) -> "Specifications":
        """Return the record of cpusets in specifications."""
        from . import specified  # only the NRI plugin asks

        return specified

    def runs_programs(self, step: "Step", context: "Context") -> bool:
        """Return true: cpusets are sent to systemd, other containers' too, and the node's lock is awaited."""
        return True

    def holds(self, step: "Step", container: "Container", context: "Context") -> bool:
        """Return whether the container has a place; `repair` compares all cpusets with the places."""
        entry = Book(context, read_only=True).entries.get(container.id)
        return entry is not None and entry.pid == container.pid and not entry.is_dead(context)

    def revert(self, step: "Step", member: "MemberRecord", locked: "LockedKey", context: "Context") -> None:
        """Release a dead container's CPUs, first to the other containers of its pool."""
        with lock(context):
            book = Book(context)
            if not book.remove(member["id"]):
                return
            book.save()
            finish(book, follow(book, context, grow=True), context)

    def preview(self, step: "Step", workload: "Workload", context: "Context") -> "Step":
        """Return the step with the ``cpus`` and ``mems`` that the container would get now.

        Nothing is reserved. If another container starts in between, the decision is made again.

        Raises:
            PlacementError: its request cannot be met, and it must not share.
        """
        if step.action == SKIP:
            return step
        decision, cpus = preview(step, workload, context)
        return Step(NAME, step.action, {**step.parameters, "cpus": cpus, "mems": format_list(decision.mems)}, step.why)

    def repair(self, context: "Context", known: "set[str]") -> int:
        """Repair all placements and the values of the node; after placement was disabled, restore these values."""
        if context.settings.sections["placement"]["enabled"]:
            from .reconcile import repair_all  # hooks don't

            return repair_all(context, known)
        from .node_changes import apply_all  # as above

        with lock(context):
            return apply_all(None, context)

    def withdraw(self, context: "Context") -> None:
        """Restore the values of the node that containers' places have changed."""
        from .node_changes import restore_all  # hooks don't

        with lock(context):
            restore_all(context)

    def adopt(
        self, context: "Context", containers: "list[Running]", *, dry_run: bool
    ) -> "tuple[list[str], dict[str, Exception]]":
        """Record unplaced containers; see `placement.reconcile`."""
        from .reconcile import adopt_all  # hooks don't adopt

        return adopt_all(context, containers, dry_run=dry_run)


def preview(step: "Step", workload: "Workload", context: "Context") -> "tuple[Decision, str]":
    """Return the present decision, and the CPUs on which the container would run. Read-only.

    Raises:
        PlacementError: it cannot be placed.
    """
    from .allocator import decide
    from .entries import Entry
    from .placing import may_share
    from .reconcile import read_allocations
    from .request import request_from
    from .usage import effective

    book = read_allocations(context)
    book.remove(workload.id)
    needs: "PlacementNeeds" = step.parameters
    request = request_from(needs["request"], workload.id, workload.key, context.settings.sections["placement"])
    decision = decide(book, request, context, share=may_share(context))
    book.add(Entry(workload.id, workload.key, 0, 0, "", decision, memory=request.memory))
    return decision, format_list(effective(decision, book.usage()))


FEATURE = Placement()
