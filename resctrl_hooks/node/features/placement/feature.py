"""CPUs and memory nodes of a container, chosen by a policy before its process runs; others follow what it takes.

Everything is decided and written under one lock for the whole node. A decision is on disk before anything is done, in
the book and in the container's record, so whoever comes next finishes or takes back what a killed hook left half done.
"""

from ...cgroup_settings.own import living_cgroup
from ...errors import HookError
from ...feature import SKIP, Feature, Step
from ...host.cpulist import format_list
from ...host.procfs import start_time
from .allocations import Book, lock
from .allocator import decide
from .cpuset_writer import follow, tell_others
from .entries import Entry
from .placing import NAME, may_share, place, steps_for
from .request import request_from
from .usage import effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...container.running import Running
    from ...container.workload import Workload
    from ...context import Context
    from ...feature import Container
    from ...records import MemberRecord, PlacementNeeds
    from ...resctrl.locked_key import LockedKey
    from .policy import Decision


class Placement(Feature):
    """CPUs and memory nodes of a container."""

    name = NAME

    def plan(self, workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
        """Places the container, unless its runtime has, or its namespace is not to be placed.

        Where it goes is decided under the node's lock, when the step is done; `preview` says where that would be now.
        One that asks for what it may not have shares, unless failures refuse: left alone it would run on others' CPUs.

        Raises:
            PlacementError: the kubelet places containers here, or an annotation asks for what it may not have.
            CgroupError: the container has no cgroup of its own.
        """
        return steps_for(workload, context, share=may_share(context.settings))

    def apply(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Decides, writes that down, makes room, and puts the container where it belongs."""
        needs: "PlacementNeeds" = step.parameters
        request = request_from(needs["request"], container.id, container.key, context.settings.placement)
        try:
            with lock(context):
                book = Book(context)
                if book.lost:
                    from .reconcile import recall  # once in a boot

                    recall(book, context, but=container.id)
                leaf = living_cgroup(container, context)
                place(request, container.pid, leaf, book, context, share=may_share(context.settings))
        except HookError:
            context.ledger.wake()  # reconcile tries again, and may have more time
            raise

    def holds(self, step: "Step", container: "Container", context: "Context") -> bool:
        """Return whether the container has a place; `repair` looks whether all cpusets are as the places say."""
        entry = Book(context, look_only=True).find(container.id)
        now = container.pid, start_time(context.proc, container.pid)
        return entry is not None and (entry.pid, entry.start) == now

    def revert(self, step: "Step", member: "MemberRecord", locked: "LockedKey", context: "Context") -> None:
        """Give a dead container's CPUs back, to its pool's other containers first of all."""
        with lock(context):
            book = Book(context)
            if not book.remove(member["id"]):
                return
            book.save()
            others = follow(book, context, grow=True)
            book.written()
            tell_others(others, context)

    def preview(self, step: "Step", workload: "Workload", context: "Context") -> "Step":
        """Return the step with the ``cpus`` and ``mems`` that the container would get now.

        Nothing is taken yet. If another container comes in between, its start decides anew.

        Raises:
            PlacementError: it can't be placed as it asks, and is not to share.
        """
        if step.action == SKIP:
            return step
        decision, cpus = preview(step, workload, context)
        return Step(NAME, step.action, {**step.parameters, "cpus": cpus, "mems": format_list(decision.mems)}, step.why)

    def repair(self, context: "Context", known: "set[str]") -> int:
        """For reconcile; see `placement.reconcile`."""
        from .reconcile import repair_all  # hooks don't

        return repair_all(context, known)

    def adopt(
        self, context: "Context", containers: "list[Running]", *, dry_run: bool
    ) -> "tuple[list[str], dict[str, Exception]]":
        """For reconcile; see `placement.reconcile`."""
        from .reconcile import adopt_all  # hooks don't adopt

        return adopt_all(context, containers, dry_run=dry_run)


def preview(step: "Step", workload: "Workload", context: "Context") -> "tuple[Decision, str]":
    """What would be decided now, and the CPUs that the container would run on; changes nothing.

    Raises:
        PlacementError: it could not be placed.
    """
    book = Book(context, look_only=True)
    book.remove(workload.id)
    needs: "PlacementNeeds" = step.parameters
    request = request_from(needs["request"], workload.id, workload.key, context.settings.placement)
    decision = decide(book, request, context, share=may_share(context.settings))
    book.add(Entry(workload.id, workload.key, 0, 0, "", decision))
    return decision, format_list(effective(decision, book.usage()))


FEATURE = Placement()
