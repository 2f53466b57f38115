"""CPUs and memory nodes of a container, chosen by a policy before its process runs; others follow what it takes.

Everything is decided and written under one lock for the whole node. A decision is on disk before anything is done, in
the book and in the container's record, so whoever comes next finishes or takes back what a killed hook left half done.
"""

from .cgroup import CgroupError, leaf_of
from .cpusets import format_list
from .errors import HookError
from .held import record_is_dead
from .log import INFO
from .placement_book import Book, Entry, lock
from .placement_effect import follow, settle_in, tell_all, tell_others
from .placement_request import request_from, request_of
from .policy import Decision, PlacementError, check, effective
from .process import start_time
from .steps import SKIP, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .held import HeldKey
    from .ledger import Record
    from .policy import Request, Usage
    from .settings import Settings
    from .steps import Node
    from .topology import Topology
    from .workload import Workload

    Choose = Callable[[Topology, Usage, Request], Decision]

NAME = "placement"
TOPOLOGY_AWARE, POOLS = "topology-aware", "pools"


def failure_policy(settings: "Settings") -> str:
    """This feature's own policy, else the general one."""
    policy: str = settings.placement.get("failurePolicy", settings.failure_policy)
    return policy


def plan(workload: "Workload", node: "Node") -> "list[Step]":
    """Places the container, unless its runtime has, or its namespace is not to be placed.

    Where it goes is decided under the node's lock, when the step is done; `preview` says where that would be now.

    Raises:
        PlacementError: the kubelet places containers here, or an annotation asks for what it may not have.
        CgroupError: the container has no cgroup of its own.
    """
    reason = _why_not(workload, node)
    if reason:
        return [Step(NAME, SKIP, {}, reason)]
    from .kubelet import check_kubelet

    check_kubelet(node.settings)
    request = request_of(workload, node.settings)
    leaf_of(node, workload.pid, workload.id)
    what = f"{request.exclusive} CPUs of its own" if request.exclusive else f"{request.kind} CPUs"
    why = f"{what} for a request of {request.milli}m by policy {_policy_name(node.settings)}"
    return [Step(NAME, "place", {"request": request.as_record()}, why)]


def _why_not(workload: "Workload", node: "Node") -> str:
    from .keys import matches

    if workload.sandbox:
        return "a pod's sandbox is not placed"
    patterns = node.settings.placement.get("namespaces") or []
    if patterns and not any(matches(pattern, workload.namespace) for pattern in patterns):
        return f"namespace {workload.namespace or '(none)'} is not among placement.namespaces"
    cpu = workload.bundle.resources.get("cpu")
    if isinstance(cpu, dict) and (cpu.get("cpus") or cpu.get("mems")):
        return "whoever made the container chose its CPUs or memory nodes, which stay"
    return ""


def preview(step: "Step", workload: "Workload", node: "Node") -> "tuple[Decision, str]":
    """What would be decided now, and the CPUs that the container would run on; changes nothing.

    Raises:
        PlacementError: it could not be placed.
    """
    book = Book(node, look_only=True)
    book.entries.pop(workload.id, None)
    decision = _decide(book, request_of(workload, node.settings), node)
    book.entries[workload.id] = Entry(workload.id, workload.key, 0, 0, "", decision)
    return decision, format_list(effective(decision, book.usage()))


def do(step: "Step", workload: "Workload", held: "HeldKey", node: "Node") -> None:
    """Decides, writes that down, makes room, and puts the container where it belongs."""
    request = request_from(step.needs["request"], workload.id, workload.key, node.settings.placement)
    with lock(node):
        _place(request, workload.pid, Book(node), held.key, node)


def _place(request: "Request", pid: int, book: Book, key: str, node: "Node") -> None:
    """Places one container, under the lock.

    Raises:
        HookError: it can't be; then everything is as it was.
    """
    leaf = leaf_of(node, pid, request.id)
    if leaf is None:
        raise CgroupError(f"process {pid} has ended, so it has no cgroup")
    book.entries.pop(request.id, None)
    decision = _decide(book, request, node)
    entry = book.entries[request.id] = Entry(
        request.id,
        key,
        pid,
        start_time(node.proc, pid),
        leaf.folder,
        decision,
        unit=leaf.unit if leaf.own_scope else "",
        unit_folder=leaf.unit_folder if leaf.own_scope else "",
    )
    book.save()
    _record(node, key, request.id, decision)
    try:
        others = follow(book, node, request.id, grow=False)
        settle_in(entry, book.usage(), node)
    except HookError:
        del book.entries[request.id]
        book.save()
        follow(book, node, grow=True)
        book.written()
        _record(node, key, request.id, None)
        raise
    others += follow(book, node, grow=True)  # what somebody dead has left
    book.written()
    tell_others(others, node)
    node.log(INFO, f"placed container {request.id[:12]}: {decision.why}; CPUs {format_list(entry.applied)}", key=key)


def _decide(book: Book, request: "Request", node: "Node") -> Decision:
    """Asks the policy, and holds it to what none may do.

    A container that crashes in a loop leaves a dead one behind each time, whose poststop may come hours later.
    """
    choose = policy_of(node.settings)
    book.drop_dead(node, request.key)
    usage = book.usage()
    decision = choose(book.topology, usage, request)
    if request.exclusive and not decision.owned and book.drop_dead(node):
        usage = book.usage()
        decision = choose(book.topology, usage, request)
    check(decision, usage, book.topology)
    return decision


def _record(node: "Node", key: str, container: str, decision: "Decision | None") -> None:
    """Writes a decision into the container's own record."""
    record = node.ledger.read_member(key, container)
    if record is None:
        return
    for step in record.get("steps", []):
        if step["feature"] == NAME:
            step["needs"].pop("decision", None)
            if decision is not None:
                step["needs"]["decision"] = {**decision.as_record(), "why": decision.why}
    node.ledger.write_member(key, container, record)


def undo(step: "Step", member: "Record", held: "HeldKey", node: "Node") -> None:
    """Gives a dead container's CPUs back, to its pool's other containers first of all."""
    with lock(node):
        book = Book(node)
        if book.entries.pop(member["id"], None) is None:
            return
        book.save()
        others = follow(book, node, grow=True)
        book.written()
        tell_others(others, node)


def mend(node: "Node", known: "set[str]") -> int:
    """Makes book, records and cpusets agree again: after killed hooks, and after a runtime or systemd undid something.

    Returns how many containers had to be mended.

    Raises:
        HookError: some could not be.
    """
    problems: "list[str]" = []
    with lock(node):
        book = Book(node)
        mended = _forget_dead(book, known, node)
        for container in sorted(known):
            key = node.ledger.key_of(container)
            record = node.ledger.read_member(key, container) if key else None
            needs = next((step["needs"] for step in (record or {}).get("steps", []) if step["feature"] == NAME), None)
            if record is None or needs is None or record_is_dead(record, node.monitor.boot, node.proc):
                continue
            try:
                mended += _mend_one(container, key, record, needs, book, node)
            except HookError as error:
                problems.append(f"{container[:12]}: {error}")
        book.save()
        done = follow(book, node, grow=False, checked=True)
        done += follow(book, node, grow=True, checked=True)
        mended += len({entry.id for entry in done})
        book.written()
        tell_all(book, done, node)
    if problems:
        raise PlacementError(f"{len(problems)} containers can't be placed: {'; '.join(problems[:5])}")
    return mended


def _forget_dead(book: Book, known: "set[str]", node: "Node") -> int:
    # One that is not among the known may have come after these were listed.
    gone = [
        entry.id
        for entry in book.entries.values()
        if (entry.id not in known and not node.ledger.key_of(entry.id)) or entry.is_dead(node)
    ]
    for id_ in gone:
        del book.entries[id_]
    return len(gone)


def _mend_one(container: str, key: str, record: "Record", needs: "Record", book: Book, node: "Node") -> int:
    """A living container that the book lacks: as its record decided if that is still possible, else anew."""
    entry = book.entries.get(container)
    if entry is not None and (entry.pid, entry.start) == (record.get("pid"), record.get("start")):
        if needs.get("decision") is None:
            _record(node, key, container, entry.decision)
        return 0
    kept = needs.get("decision")
    if kept is not None:
        try:
            decision = Decision.of_record(kept)
            check(decision, book.usage(), book.topology)
            leaf = leaf_of(node, record["pid"], container)
            if leaf is not None:
                unit, folder = (leaf.unit, leaf.unit_folder) if leaf.own_scope else ("", "")
                book.entries[container] = Entry(
                    container, key, record["pid"], record["start"], leaf.folder, decision, unit=unit, unit_folder=folder
                )
            return 1
        except (PlacementError, KeyError, TypeError, ValueError, AttributeError):
            pass  # somebody else has these CPUs by now
    _place(request_from(needs["request"], container, key, node.settings.placement), record["pid"], book, key, node)
    return 1


def _policy_name(settings: "Settings") -> str:
    name: str = settings.placement.get("policy") or TOPOLOGY_AWARE
    return name


def policy_of(settings: "Settings") -> "Choose":
    """The policy that the settings name: one of ours, or a file of the operator's.

    Raises:
        PlacementError: there is none of that name, or the file can't be used.
    """
    name = _policy_name(settings)
    if name == TOPOLOGY_AWARE:
        from . import policy_topology

        return policy_topology.choose
    if name == POOLS:
        from . import policy_pools

        return policy_pools.choose
    if name[:1] == "/":
        from .policy_file import load_policy

        return load_policy(name)
    raise PlacementError(
        f"there is no placement policy {name!r}",
        hint=f"write {TOPOLOGY_AWARE}, {POOLS}, or the path of a policy's file",
    )
