"""Reconciliation of records and groups with the running containers: it completes what the hooks could not.

It observes the runtimes' state directories, cgroups, the ledger and resctrl, and decides the changes. It makes each
change under the key's lock after checking again, so it can run in parallel with hooks and with another reconcile.
"""

import time

from ..ledger import WAITING
from ..lifecycle import ENDS, fate, release_container, release_key
from ..log import INFO, WARNING
from ..registry import features_in_use
from ..resctrl.locked_key import record_is_dead
from ..set_aside import let_rest
from .budget import resumed
from .claim import claim as _claim
from .cleanup import tidy
from .discovery import observe
from .enforce import enforce, note_absence, try_again
from .groups import Groups
from .keys import correct_keys
from .repaired import features_to_repair
from .report import Options, Report
from .runtimes import put_runtimes_first
from .tasks import remove_foreign_tasks
from .unneeded import release_unneeded
from .vanished import note_vanished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..container.workload import Workload
    from ..context import Context
    from .discovery import Observation

_PATIENCE_FOR_LIMBO = 4.0
_NAP = 0.3
_MOST_SECONDS_FOR_THE_DEAD = 20.0  # thousands of records on a disk take minutes, and live containers wait for them


def reconcile(
    context: "Context", options: "Options | None" = None, listed: "Mapping[str, Workload] | None" = None
) -> Report:
    """Run one pass, and return its changes and the remaining problems.

    ``listed`` are running containers as the runtime passed them, as in `observe`.

    If RMIDs are only in limbo, it waits a few seconds for them, as long as nothing else is wrong.

    Raises:
        HookError: the node cannot be observed at all.
    """
    options = options or Options()
    context.refusable = False  # all containers run already
    has_groups = note_absence(context, dry_run=options.dry_run)
    shared = context.settings.shares_rmids and not options.dry_run and has_groups
    report = Report(dry_run=options.dry_run, shared=context.settings.shares_rmids)
    seen = observe(context, listed)
    report.add("problem", *seen.problems)
    let_rest([] if options.dry_run else seen.containers, context)
    report.count("containers", len(seen.containers))
    for container in seen.containers:
        report.learn(container.key, container.record, container.id)
    keys = _end_what_is_dead(context, seen, options, report)
    if options.claim and has_groups:
        _claim(context, seen, options, report)
    containers = seen.containers
    if shared:
        from .turns import by_rank, refresh, take_turns

        refresh(context, containers, report)
        containers = by_rank(context, containers)
    if has_groups:
        put_runtimes_first(context, seen.containers, report)
    groups = Groups(context)
    if not options.dry_run:
        backed_off = note_vanished(context, containers, groups, report)
        for container in containers:
            container.monitored = container.monitored and container.key not in backed_off
    containers = resumed(context, containers, options.budget)
    remove_foreign_tasks(context, containers, groups, report)
    marked = context.ledger.marked(WAITING)
    release_unneeded(context, seen.containers, groups, report, marked)
    waiting = enforce(context, containers, options, report, marked, groups)
    until = time.monotonic() + _PATIENCE_FOR_LIMBO
    while waiting and options.wait and not options.dry_run and time.monotonic() < until:
        if not report.only_limbo:
            break
        time.sleep(_NAP)
        report.forget_waiting()
        waiting = try_again(context, waiting, report)
    if shared:
        take_turns(context, containers, report)
    if not options.dry_run:
        correct_keys(context, keys, seen.containers, groups, report)
    _count(context, options, report)
    _place(context, seen, options, report)
    pointed = context.ledger.containers()
    _end_orphans(context, pointed, options, report)
    if not options.dry_run:
        tidy(context, seen.containers, report, pointed, None if shared else marked)  # turns mark keys
    _log(context, report)
    return report


def _log(context: "Context", report: Report) -> None:
    """Log the changes and problems of a pass; the problem that resctrl is not mounted was logged once."""
    if report.changed or not report.ok:
        context.log(INFO if report.ok else WARNING, report.as_line(), stage="reconcile")
    if report.not_mounted:
        report.add("problem", report.not_mounted)


def _end_what_is_dead(context: "Context", seen: "Observation", options: Options, report: Report) -> "set[str]":
    """Release keys whose pod or last member has ended, and forget members whose init has ended: this may free RMIDs.

    Return the keys that had a record before.
    """
    living = {container.id: container.key for container in seen.containers if container.recorded}
    keys = set(context.ledger.keys())
    suspects = keys.difference(living.values())
    suspects.update(context.ledger.key_of(member) for member in seen.pointed if member not in living)
    todo = sorted(keys if options.live is not None else suspects & keys)
    end = time.monotonic() + _MOST_SECONDS_FOR_THE_DEAD
    for done, key in enumerate(todo):
        if time.monotonic() > end:
            what = f"{len(todo) - done} of {len(todo)} keys left to the next pass"
            context.log(INFO, what, stage="reconcile")
            context.ledger.wake()
            break
        excluded = options.live is not None and key not in options.live
        with report.catching(context, key):
            report.learn(key, context.ledger.read_pod(key) or {})
            if options.dry_run:
                _report_dead(context, key, excluded, report)
                continue
            with context.monitor.hold(key) as locked:
                groups = len(locked.origins)
                known = context.ledger.has_records(key)  # otherwise a hook is about to hold it, or was killed then
                for member in locked.members():
                    if excluded or locked.member_is_dead(member):
                        report.count("cleaned", release_container(locked, member, context))
                if release_key(locked, context, ended=excluded) and known:
                    report.add("released", key)
                    report.count("freed", groups)
    return keys


def _report_dead(context: "Context", key: str, excluded: bool, report: Report) -> None:  # noqa: FBT001  # one caller
    record = context.ledger.read_pod(key) or {}
    members = {member: context.ledger.read_member(key, member) for member in context.ledger.members(key)}
    living = [
        one for one in members.values() if not excluded and not record_is_dead(one, context.monitor.boot, context.proc)
    ]
    report.count("cleaned", len(members) - len(living))
    if excluded or record.get("boot") != context.monitor.boot or fate(record, living, context) == ENDS:
        report.add("released", key)
        report.count("freed", len(record.get("groups", {})))


def _count(context: "Context", options: Options, report: Report) -> None:
    """Assign the bandwidth counters where the kernel assigns them; a lack of counters is not a failure."""
    from ..sharing.bandwidth_counters import balance

    if not context.settings.groups["enabled"]:
        return
    with report.catching(context, "bandwidth counters"):
        found = balance(context, dry_run=options.dry_run, in_turns=True)
        if found is not None:
            for change in found.changes:
                report.count("assigned" if change.give else "unassigned")
            for key, domains in found.uncounted.items():
                report.add("uncounted", key, why=f"in {found.resource} domain {', '.join(map(str, domains))}")


def _place(context: "Context", seen: "Observation", options: Options, report: Report) -> None:
    """Let features of the whole node adopt the containers that their hook has missed; `_end_orphans` places these."""
    for feature in features_in_use(context.settings):
        with report.catching(context, feature.name):
            placed, failures = feature.adopt(context, seen.containers, dry_run=report.dry_run)
            report.add("placed", *placed)
            for container, problem in failures.items():
                report.fail(context, container, problem)


def _end_orphans(context: "Context", pointed: "Iterable[str]", options: Options, report: Report) -> None:
    """Let each feature stop what it started for containers without a record, and repair its other state."""
    known = set(pointed)
    for feature in features_to_repair(context):
        with report.catching(context, feature.name):
            if not options.dry_run:
                report.count("repaired", feature.repair(context, known))
            else:
                report.add("orphan", *(f"{feature.name} {path}" for path in feature.orphans(context, known)))
