"""Reconcile's part of placement: place unplaced containers, and make records, allocations and cpusets agree."""

from ...core.node.errors import HookError, InputError
from ...core.node.failure_policies import report_dropped
from ...core.node.fault_report import as_hook_error
from ...core.node.feature import SKIP
from ...core.node.host.cgroup import CgroupError, leaf_of
from ...core.node.log import DEBUG, INFO
from ...core.node.resctrl.locked_key import record_is_dead
from ...core.node.set_aside import bounded
from .allocations import Book, lock
from .cpuset_writer import follow, send_all, to_send
from .entries import Entry, needs_of, record_of
from .kubelet import check_kubelet
from .node_changes import apply_all
from .others import taken_by_others
from .placing import place, record_decision, steps_for
from .policy import NAME, Decision, PlacementError
from .request import request_from
from .usage import check, short_of_cpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.container.running import Running
    from ...core.node.container.workload import Workload
    from ...core.node.context import Context
    from ...core.node.feature import Step
    from ...core.node.host.cgroup import Leaf
    from ...core.node.records import MemberRecord
    from .policy import PlacementNeeds

_SHOWN = 5


def adopt_all(
    context: "Context", containers: "list[Running]", *, dry_run: bool
) -> "tuple[list[str], dict[str, Exception]]":
    """Record a placement step for containers that no hook has seen, or that have no place; return ids and failures.

    `repair_all` then places them. The exclusions are those of the hook.

    Raises:
        PlacementError: the kubelet places containers here, or its state cannot be read.
    """
    placed: "list[str]" = []
    failures: "dict[str, Exception]" = {}
    late = [
        one
        for one in containers
        # An unrecorded container was recorded by its plan meanwhile, or has no step yet.
        if (one.record.get("bundle") or "told" in one.record)
        and (one.recorded or not one.record["steps"])
        and not needs_of(record_of(one.id, context))
    ]
    if late:
        check_kubelet(context.settings)
    for container in late:
        try:
            workload = container.planned(context.settings)
            if workload.sandbox or not workload.bundle_path:  # without a bundle, its cpuset is unknown
                continue

            def steps_of(workload: "Workload" = workload) -> "list[Step]":
                return _steps_for(workload, context)

            steps = bounded(context, container.id, steps_of)
            if steps and (dry_run or _record_steps(container, workload, steps, context)):
                placed.append(container.id)
        except (CgroupError, InputError, ProcessLookupError) as error:
            context.log(DEBUG, f"container {container.id[:12]} is not placed: {error}", container=container.id)
        except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
            failures[container.id] = error
    return placed, failures


def _steps_for(workload: "Workload", context: "Context") -> "list[Step]":
    steps = [step for step in steps_for(workload, context, share=True) if step.action != SKIP]
    if steps:
        report_dropped(NAME, workload, context)
    return steps


def _record_steps(container: "Running", workload: "Workload", steps: "list[Step]", context: "Context") -> bool:
    with context.monitor.hold(container.key) as locked:
        if not container.revalidate(context.proc):
            return False
        record = locked.member(container.id)
        recorded = [step.as_record() for step in steps]
        if record is None:
            details: MemberRecord = {**workload.details(), "steps": recorded}
            locked.add_member(container.id, details, container.pid)
        else:
            record["steps"] = [*record.get("steps", []), *recorded]
            context.ledger.write_member(container.key, container.id, record)
    context.log(
        INFO, f"container {container.id[:12]} was running before its placement: {steps[0].why}", key=container.key
    )
    return True


def repair_all(context: "Context", known: "set[str]") -> int:
    """Make allocations, records and cpusets agree after killed hooks, and after changes by a runtime or systemd.

    Returns the number of repaired containers.

    Raises:
        HookError: a repair failed, or no CPU is left to share.
    """
    problems: "list[str]" = []
    with lock(context):
        try:
            book = Book(context)
        except Exception:
            apply_all(None, context)  # the CPUs of containers are unknown
            raise
        try:
            repaired, done = _repair_places(book, known, problems, context)
        finally:
            values = apply_all(book.usage(), context)
        repaired += values
        unsent = to_send(book, done, context)
        problems += [problem for problem in (short_of_cpus(book.usage()),) if problem]
    try:
        send_all(unsent, context)
    except HookError as error:
        problems.append(f"cannot update AllowedCPUs= of all units: {error}")
    if problems:
        more = f" and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise PlacementError("; ".join(problems[:_SHOWN]) + more)
    return repaired


def _repair_places(
    book: Book, known: "set[str]", problems: "list[str]", context: "Context"
) -> "tuple[int, list[Entry]]":
    """Return the number of repaired containers, and the entries whose cpusets were written."""
    records = {container: record_of(container, context) for container in sorted(known)}
    living = {
        container: record for container, record in records.items() if needs_of(record) and not _is_dead(record, context)
    }
    if living or book.entries:
        check_kubelet(context.settings)
    unplaced = {
        container: record
        for container, record in records.items()
        if record is not None and container not in living and container not in book.entries
    }
    book.respect(taken_by_others(context, unplaced, book.others, book.topology.online, problems))
    repaired = _forget_dead(book, known, context)
    for container, record in living.items():
        try:
            repaired += record is not None and _repair_one(container, record, book, context)
        except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
            problems.append(f"container {container[:12]} is not placed: {as_hook_error(error)}")
    book.save()
    done = follow(book, context, grow=False, checked=True)
    done += follow(book, context, grow=True, checked=True)
    book.written()
    return repaired + len({entry.id for entry in done}), done


def read_allocations(context: "Context") -> Book:
    """Return the allocations, read-only; lost ones as the records have them, until the next hook recreates the file."""
    book = Book(context, read_only=True)
    if book.lost:
        recall(book, context)
    return book


def recall(book: Book, context: "Context", but: str = "") -> None:
    """Recreate lost allocations from the records of living containers; reconcile repairs outdated ones."""
    for container in context.ledger.containers():
        record = record_of(container, context)
        step = needs_of(record)
        if container != but and record is not None and step and not _is_dead(record, context):
            try:
                _take_back(container, record, step, book, context)
            except HookError:
                continue


def _is_dead(record: "MemberRecord | None", context: "Context") -> bool:
    return record_is_dead(record, context.monitor.boot, context.proc)


def _forget_dead(book: Book, known: "set[str]", context: "Context") -> int:
    # An unknown container may have started after the list was made.
    gone = [
        entry.id
        for entry in book.entries.values()
        if (entry.id not in known and not context.ledger.key_of(entry.id)) or entry.is_dead(context)
    ]
    for id_ in gone:
        book.remove(id_)
    return len(gone)


def _repair_one(container: str, record: "MemberRecord", book: Book, context: "Context") -> int:
    """Place a living container that the allocations lack: by its recorded decision if possible, else by a new one."""
    needs, key = needs_of(record), record["key"]
    if needs is None:
        return 0
    entry = book.entries.get(container)
    if entry is not None and (entry.pid, entry.start) == (record.get("pid"), record.get("start")):
        own = entry.decision.owned & ~entry.decision.hidden
        if not own or (own & book.topology.online and not entry.decision.owned & book.taken):
            if needs.get("decision") is None:
                decision = Decision(*entry.decision.place, milli=entry.milli)
                record_decision(context, key, container, decision)
            return 0
        # All of its exclusive CPUs went offline, so the kernel would let it run on every CPU; or they are not its own.
    if entry is not None:
        book.remove(container)
    if not _take_back(container, record, needs, book, context):
        request = request_from(needs["request"], container, key, context.settings.sections["placement"])
        leaf = _cgroup_of(container, record, context)
        if leaf is None:
            raise CgroupError(f"process {record['pid']} has ended and has no cgroup")
        place(request, record["pid"], leaf, book, context, share=True)  # a running container cannot be refused
    return 1


def _take_back(container: str, record: "MemberRecord", needs: "PlacementNeeds", book: Book, context: "Context") -> bool:
    """Restore a recorded decision in the allocations, and return whether that was possible."""
    try:
        decision = Decision.of_record(needs["decision"])
        check(decision, book.usage())
    except (PlacementError, KeyError, TypeError, ValueError, AttributeError):
        return False  # no record, or the CPUs have another owner by now
    leaf = _cgroup_of(container, record, context)
    if leaf is not None:
        memory = needs["request"].get("memory", 0)
        book.add(Entry.in_leaf(container, record["key"], record["pid"], record["start"], leaf, decision, memory))
    return True


def _cgroup_of(container: str, record: "MemberRecord", context: "Context") -> "Leaf | None":
    return leaf_of(context.proc, context.settings.cgroup_path, record["pid"], container, record.get("cgroup", ""))
