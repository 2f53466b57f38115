"""A container's placement steps, and its place: decided, recorded and applied under the node's lock."""

from ...core.node.cgroup_settings.own import own_cgroup
from ...core.node.errors import HookError
from ...core.node.failure_policies import refuses
from ...core.node.feature import SKIP, Step
from ...core.node.host.cpulist import format_list
from ...core.node.host.procfs import start_time
from ...core.node.log import INFO, WARNING
from .allocator import anywhere, decide, shares_instead
from .cpuset_writer import follow, settle_in
from .entries import Entry, needs_of
from .finishing import finish
from .policy import AFFINITIES, NAME, SHARED, PlacementError
from .request import PRESERVE_CPUS, preserves, request_of, shared_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.container.workload import Workload
    from ...core.node.context import Context
    from ...core.node.host.cgroup import Leaf
    from .allocations import Book
    from .policy import Decision, PlacementNeeds, Request


def may_share(context: "Context") -> bool:
    """Return whether a container shares CPUs if its request cannot be met; otherwise it is refused."""
    return not refuses(NAME, context)


def steps_for(workload: "Workload", context: "Context", *, share: bool) -> "list[Step]":
    """Return the steps for `feature.plan`; with ``share``, a container whose request cannot be met shares CPUs."""
    reason = _why_not(workload, context)
    if reason:
        return [Step(NAME, SKIP, {}, reason)]
    cpuset = _foreign_cpuset(workload, context)
    if cpuset:
        return [Step(NAME, SKIP, {}, "container spec sets a cpuset; left unchanged", [f"cpuset is {cpuset}"])]
    from .kubelet import check_kubelet

    check_kubelet(context.settings)
    own_cgroup(workload, context)  # `explain` reports its problems too
    why = ""
    try:
        if preserves(workload, context.settings):
            return [Step(NAME, SKIP, {}, f"annotation {PRESERVE_CPUS}: CPUs and memory nodes left unchanged")]
        request = request_of(workload, context.settings)
        if any(name in workload.annotations for name in AFFINITIES):
            from .affinity import add_affinities  # few pods have these annotations

            add_affinities(request, workload, context)
    except PlacementError as error:
        if not share:
            raise
        request, why = _default_request(workload, error, context), f": {error}"
    what = f"{request.exclusive} exclusive CPUs" if request.exclusive else f"{request.kind} CPUs"
    why = f"{what} for a request of {request.milli}m, policy {context.settings.sections['placement']['policy']}{why}"
    needs: "PlacementNeeds" = {"request": request.as_record()}
    return [Step(NAME, "place", needs, why)]


def _default_request(workload: "Workload", error: PlacementError, context: "Context") -> "Request":
    """Return the request of a container whose annotations request what it cannot have: as if they requested nothing."""
    try:
        request = request_of(workload.without_annotations(), context.settings)
    except PlacementError:
        request = shared_request(workload, context.settings)
    if not request.exclusive:
        shares_instead(error, workload.id, workload.key, context, str(workload))
    else:
        context.failures.append(error.reason)
        what = f"{workload} is placed as without annotations; its request failed: {error}"
        context.log(WARNING, what, key=workload.key, container=workload.id, reason=error.reason)
    return request


def _why_not(workload: "Workload", context: "Context") -> str:
    from ...core.node.names import matches, namespace_in_words

    patterns = context.settings.sections["placement"].get("namespaces") or []
    if patterns and not any(matches(pattern, workload.namespace) for pattern in patterns):
        return f"{namespace_in_words(workload.namespace)} is not among placement.namespaces"
    return ""


def _foreign_cpuset(workload: "Workload", context: "Context") -> str:
    """Return the cpuset of the specification, CPUs and memory nodes; empty for none, or this program's own."""
    cpu = workload.bundle.resources.get("cpu")
    if isinstance(cpu, dict) and (cpu.get("cpus") or cpu.get("mems")):
        from .specified import specified  # few containers have a cpuset

        if workload.id not in specified(context):
            return " and ".join(f"{name} {cpu[name]}"[:80] for name in ("cpus", "mems") if cpu.get(name))
    return ""


def place(request: "Request", pid: int, leaf: "Leaf", book: "Book", context: "Context", *, share: bool) -> None:
    """Place one container, under the lock. With ``share`` it shares CPUs if its request cannot be met.

    Raises:
        HookError: it failed; everything is as before.
    """
    book.remove(request.id)
    decision = decide(book, request, context, share=share)
    try:
        _enter(request, pid, leaf, decision, book, context)
    except PlacementError as error:
        if not share or decision.kind == SHARED:
            raise
        shares_instead(error, request.id, request.key, context)
        # Memory nodes may have been written to its cgroup by now; these can be set but not unset.
        mems = book.topology.memory_nodes if decision.mems else 0
        _enter(request, pid, leaf, anywhere(book, request, error, mems), book, context)


def _enter(request: "Request", pid: int, leaf: "Leaf", decision: "Decision", book: "Book", context: "Context") -> None:
    """Apply a decision, and undo it if that fails."""
    key = request.key
    entry = Entry.in_leaf(request.id, key, pid, start_time(context.proc, pid), leaf, decision, request.memory)
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
    others += follow(book, context, grow=True)  # left by a dead container
    finish(book, others, context)
    context.log(INFO, f"placed container {request.id[:12]}: {decision.why}; CPUs {format_list(entry.applied)}", key=key)


def record_decision(context: "Context", key: str, container: str, decision: "Decision | None") -> None:
    """Write a decision into the container's own record. The key is held for that moment only, after the node's lock."""
    with context.monitor.hold(key) as locked:
        record = locked.member(container)
        if record is None:
            return
        needs = needs_of(record)
        if needs is not None:
            needs.pop("decision", None)
            if decision is not None:
                needs["decision"] = {**decision.as_record(), "why": decision.why}
        context.ledger.write_member(key, container, record)
