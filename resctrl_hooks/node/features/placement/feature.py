"""CPUs and memory nodes of a container, chosen by a policy before its process runs; others follow what it takes.

Everything is decided and written under one lock for the whole node. A decision is on disk before anything is done, in
the book and in the container's record, so whoever comes next finishes or takes back what a killed hook left half done.
"""

from ...errors import HookError
from ...host.cpulist import format_list
from ...host.procfs import start_time
from ...log import INFO
from ..own_cgroup import living_cgroup, own_cgroup
from ..registry import failure_policy
from ..step import SKIP, Step
from .allocations import Book, lock
from .allocator import anywhere, decide, policy_name, shares_instead
from .cpuset_writer import follow, settle_in, tell_others
from .entries import Entry
from .policy import SHARED, PlacementError
from .request import request_from, request_of, shared_request
from .usage import effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...container.running import Running
    from ...container.workload import Workload
    from ...context import Context
    from ...host.cgroup import Leaf
    from ...records import MemberRecord, PlacementNeeds
    from ...resctrl.locked_key import LockedKey
    from ...settings import Settings
    from ..step import Container
    from .policy import Decision, Request
    from .reconcile import Adopted

NAME = "placement"


def plan(workload: "Workload", context: "Context") -> "list[Step]":
    """Places the container, unless its runtime has, or its namespace is not to be placed.

    Where it goes is decided under the node's lock, when the step is done; `preview` says where that would be now. One
    that asks for what it may not have shares, unless failures refuse: left alone it would run on others' own CPUs.

    Raises:
        PlacementError: the kubelet places containers here, or an annotation asks for what it may not have.
        CgroupError: the container has no cgroup of its own.
    """
    return steps_for(workload, context, share=may_share(context.settings))


def may_share(settings: "Settings") -> bool:
    """Whether a container that can't be placed as it asks shares CPUs; else it is refused."""
    return failure_policy(NAME, settings) != "fail"


def steps_for(workload: "Workload", context: "Context", *, share: bool) -> "list[Step]":
    """As `plan`, for those who know whether the container can still be refused."""
    reason = _why_not(workload, context)
    if reason:
        return [Step(NAME, SKIP, {}, reason)]
    from .kubelet import check_kubelet

    check_kubelet(context.settings)
    own_cgroup(workload, context)  # what is wrong with it `explain` says too
    why = ""
    try:
        request = request_of(workload, context.settings)
    except PlacementError as error:
        if not share:
            raise
        shares_instead(error, workload.id, workload.key, context)
        request, why = shared_request(workload, context.settings), f", since {error}"
    what = f"{request.exclusive} CPUs of its own" if request.exclusive else f"{request.kind} CPUs"
    why = f"{what} for a request of {request.milli}m by policy {policy_name(context.settings)}{why}"
    needs: "PlacementNeeds" = {"request": request.as_record()}
    return [Step(NAME, "place", needs, why)]


def _why_not(workload: "Workload", context: "Context") -> str:
    from ...names import matches, namespace_in_words

    if workload.sandbox:
        return "a pod's sandbox is not placed"
    patterns = context.settings.placement.get("namespaces") or []
    if patterns and not any(matches(pattern, workload.namespace) for pattern in patterns):
        return f"{namespace_in_words(workload.namespace)} is not among placement.namespaces"
    cpu = workload.bundle.resources.get("cpu")
    if isinstance(cpu, dict) and (cpu.get("cpus") or cpu.get("mems")):
        from .specified import specified  # few come with a cpuset

        if workload.id in specified(context):
            return ""
        return "whoever made the container chose its CPUs or memory nodes, which stay"
    return ""


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


def apply(step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
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


def holds(step: "Step", container: "Container", context: "Context") -> bool:
    """Whether the container has a place; `repair` looks whether all cpusets are as the places say."""
    entry = Book(context, look_only=True).find(container.id)
    return entry is not None and (entry.pid, entry.start) == (container.pid, start_time(context.proc, container.pid))


def place(request: "Request", pid: int, leaf: "Leaf", book: Book, context: "Context", *, share: bool) -> None:
    """Places one container, under the lock. With ``share`` it shares where it can't be placed as it asks.

    Raises:
        HookError: it can't be; then everything is as it was.
    """
    book.remove(request.id)
    decision = decide(book, request, context, share=share)
    try:
        _enter(request, pid, leaf, decision, book, context)
    except PlacementError as error:
        if not share or decision.kind == SHARED:
            raise
        shares_instead(error, request.id, request.key, context)
        # Its cgroup may have been told memory nodes by now, and these can be set but not taken away.
        mems = book.topology.memory_nodes if decision.mems else 0
        _enter(request, pid, leaf, anywhere(book, request, error, mems), book, context)


def _enter(request: "Request", pid: int, leaf: "Leaf", decision: "Decision", book: Book, context: "Context") -> None:
    """Puts a decision in force, and takes it back if that can't be done."""
    key = request.key
    entry = Entry(
        request.id,
        key,
        pid,
        start_time(context.proc, pid),
        leaf.folder,
        decision,
        unit=leaf.unit if leaf.own_scope else "",
        scope=leaf.scope,
    )
    book.add(entry)
    try:
        book.save()
        record_decision(context, key, request.id, decision)
        others = follow(book, context, request.id, grow=False)
        settle_in(entry, leaf, book.usage(), context)
    except HookError:
        book.remove(request.id)
        book.save()
        follow(book, context, grow=True)
        book.written()
        record_decision(context, key, request.id, None)
        raise
    others += follow(book, context, grow=True)  # what somebody dead has left
    book.written()
    tell_others(others, context)
    context.log(INFO, f"placed container {request.id[:12]}: {decision.why}; CPUs {format_list(entry.applied)}", key=key)


def record_decision(context: "Context", key: str, container: str, decision: "Decision | None") -> None:
    """Writes a decision into the container's own record."""
    record = context.ledger.read_member(key, container)
    if record is None:
        return
    for step in record.get("steps", []):
        if step["feature"] == NAME:
            needs: PlacementNeeds = step["needs"]
            needs.pop("decision", None)
            if decision is not None:
                needs["decision"] = {**decision.as_record(), "why": decision.why}
    context.ledger.write_member(key, container, record)


def revert(step: "Step", member: "MemberRecord", locked: "LockedKey", context: "Context") -> None:
    """Gives a dead container's CPUs back, to its pool's other containers first of all."""
    with lock(context):
        book = Book(context)
        if not book.remove(member["id"]):
            return
        book.save()
        others = follow(book, context, grow=True)
        book.written()
        tell_others(others, context)


def repair(context: "Context", known: "set[str]") -> int:
    """For reconcile; see `placement.reconcile`."""
    from .reconcile import repair_all  # hooks don't

    return repair_all(context, known)


def adopt(context: "Context", containers: "list[Running]", *, dry_run: bool) -> "Adopted":
    """For reconcile; see `placement.reconcile`."""
    from .reconcile import adopt_all  # hooks don't adopt

    return adopt_all(context, containers, dry_run=dry_run)
