"""Reconcile's part of placement: who was not placed is, the book agrees with the records, and cpusets with the book."""

from ...container.workload import workload_of
from ...errors import HookError, InputError, LedgerError
from ...fault_report import as_hook_error
from ...feature import SKIP
from ...host.cgroup import CgroupError, leaf_of
from ...log import DEBUG, INFO
from ...resctrl.locked_key import record_is_dead
from .allocations import Book, lock
from .cpuset_writer import follow, tell_all, to_tell
from .entries import Entry
from .kubelet import check_kubelet
from .placing import NAME, place, record_decision, steps_for
from .policy import Decision, PlacementError
from .request import request_from
from .usage import check, short_of_cpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...container.running import Running
    from ...container.workload import Workload
    from ...context import Context
    from ...feature import Step
    from ...host.cgroup import Leaf
    from ...records import MemberRecord, PlacementNeeds

_SHOWN = 5


def adopt_all(
    context: "Context", containers: "list[Running]", *, dry_run: bool
) -> "tuple[list[str], dict[str, Exception]]":
    """Records that containers are to be placed which no hook has seen, or only one without placement.

    `repair_all` then places them. What leaves a container out in a hook does so here. Says which these are, and
    with which it failed.

    Raises:
        PlacementError: the kubelet places containers here.
    """
    placed: "list[str]" = []
    failures: "dict[str, Exception]" = {}
    late = [
        one
        for one in containers
        # One that is not recorded is so now by what it was planned, or has no step yet.
        if one.bundle and (one.recorded or not one.steps) and not _needs_of(_record_of(one.id, context))
    ]
    if late:
        check_kubelet(context.settings)
    for container in late:
        try:
            workload = workload_of(
                container.id, container.pid, container.bundle, context.proc, context.settings.cgroup_path
            )
            if workload.sandbox:
                continue
            steps = [step for step in steps_for(workload, context, share=True) if step.action != SKIP]
            if steps and (dry_run or _record_steps(container, workload, steps, context)):
                placed.append(container.id)
        except (CgroupError, InputError, ProcessLookupError) as error:
            context.log(DEBUG, f"container {container.id[:12]} can't be placed: {error}", container=container.id)
        except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
            failures[container.id] = error
    return placed, failures


def _record_steps(container: "Running", workload: "Workload", steps: "list[Step]", context: "Context") -> bool:
    with context.monitor.hold(container.key) as locked:
        if not container.look_again(context.proc):
            return False
        record = locked.member(container.id)
        recorded = [step.as_record() for step in steps]
        if record is None:
            details: MemberRecord = {**workload.details(), "steps": recorded}
            locked.add_member(container.id, details, container.pid)
        else:
            record["steps"] = [*record.get("steps", []), *recorded]
            context.ledger.write_member(container.key, container.id, record)
    context.log(INFO, f"container {container.id[:12]} ran before it was placed: {steps[0].why}", key=container.key)
    return True


def repair_all(context: "Context", known: "set[str]") -> int:
    """Make book, records and cpusets agree again: after killed hooks, and after a runtime or systemd undid something.

    Returns how many containers had to be repaired.

    Raises:
        HookError: some could not be, or no CPU is left for those who share.
    """
    problems: "list[str]" = []
    with lock(context):
        book = Book(context)
        records = {container: _record_of(container, context) for container in sorted(known)}
        living = {
            container: record
            for container, record in records.items()
            if _needs_of(record) and not _is_dead(record, context)
        }
        if living or book.places:
            check_kubelet(context.settings)
        repaired = _forget_dead(book, known, context)
        for container, record in living.items():
            try:
                repaired += record is not None and _repair_one(container, record, book, context)
            except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
                problems.append(f"container {container[:12]} can't be placed: {as_hook_error(error)}")
        book.save()
        done = follow(book, context, grow=False, checked=True)
        done += follow(book, context, grow=True, checked=True)
        repaired += len({entry.id for entry in done})
        book.written()
        untold = to_tell(book, done, context)
        problems += [problem for problem in (short_of_cpus(book.usage()),) if problem]
    try:
        tell_all(untold, context)
    except HookError as error:
        problems.append(f"systemd can't be told of all CPUs: {error}")
    if problems:
        more = f" and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise PlacementError("; ".join(problems[:_SHOWN]) + more)
    return repaired


def recall(book: Book, context: "Context", but: str = "") -> None:
    """Fill a book that was lost from the records of living containers; reconcile repairs what is not so any more."""
    for container in context.ledger.containers():
        record = _record_of(container, context)
        step = _needs_of(record)
        if (
            container != but
            and record is not None
            and step
            and not record_is_dead(record, context.monitor.boot, context.proc)
        ):
            try:
                _take_back(container, record, step, book, context)
            except HookError:
                continue


def _record_of(container: str, context: "Context") -> "MemberRecord | None":
    """Return a container's record, None also for one that can't be read: `discovery` says so."""
    try:
        key = context.ledger.key_of(container)
        return context.ledger.read_member(key, container) if key else None
    except LedgerError:
        return None


def _is_dead(record: "MemberRecord | None", context: "Context") -> bool:
    return record_is_dead(record, context.monitor.boot, context.proc)


def _needs_of(record: "MemberRecord | None") -> "PlacementNeeds | None":
    """Return the needs of a record's placement; None for none."""
    steps = record.get("steps", []) if record is not None else []
    return next((step["needs"] for step in steps if step["feature"] == NAME), None)


def _forget_dead(book: Book, known: "set[str]", context: "Context") -> int:
    # One that is not among the known may have come after these were listed.
    gone = [
        entry.id
        for entry in book.entries.values()
        if (entry.id not in known and not context.ledger.key_of(entry.id)) or entry.is_dead(context)
    ]
    for id_ in gone:
        book.remove(id_)
    return len(gone)


def _repair_one(container: str, record: "MemberRecord", book: Book, context: "Context") -> int:
    """Return a living container that the book lacks: as its record decided if that is still possible, else anew."""
    needs, key = _needs_of(record), record["key"]
    if needs is None:
        return 0
    entry = book.find(container)
    if entry is not None and (entry.pid, entry.start) == (record.get("pid"), record.get("start")):
        own = entry.decision.owned & ~entry.decision.hidden
        if not own or own & book.topology.online:
            if needs.get("decision") is None:
                record_decision(context, key, container, entry.decision)
            return 0
        # All CPUs of its own went offline, and the kernel would let it run on everybody's.
    if entry is not None:
        book.remove(container)
    if not _take_back(container, record, needs, book, context):
        request = request_from(needs["request"], container, key, context.settings.placement)
        leaf = _cgroup_of(container, record, context)
        if leaf is None:
            raise CgroupError(f"process {record['pid']} has ended, so it has no cgroup")
        place(request, record["pid"], leaf, book, context, share=True)  # it runs, so it can't be refused any more
    return 1


def _take_back(container: str, record: "MemberRecord", needs: "PlacementNeeds", book: Book, context: "Context") -> bool:
    """Put a recorded decision back into the book, and say whether that was possible."""
    try:
        decision = Decision.of_record(needs["decision"])
        check(decision, book.usage(), book.topology)
    except (PlacementError, KeyError, TypeError, ValueError, AttributeError):
        return False  # there is none, or somebody else has these CPUs by now
    leaf = _cgroup_of(container, record, context)
    if leaf is not None:
        unit = leaf.unit if leaf.own_scope else ""
        pid, start = record["pid"], record["start"]
        book.add(Entry(container, record["key"], pid, start, leaf.folder, decision, unit=unit, scope=leaf.scope))
    return True


def _cgroup_of(container: str, record: "MemberRecord", context: "Context") -> "Leaf | None":
    return leaf_of(context.proc, context.settings.cgroup_path, record["pid"], container, record.get("cgroup", ""))
