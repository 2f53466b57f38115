"""Enforcement of each running container's features: observe what it lacks, plan the change, carry it out.

A recorded step that no longer holds is applied again, also after a killed hook. A container that no hook has seen gets
its planned steps, under one lock and with one record. A dry run only reports the planned changes.
"""

from ..errors import HookError, NotMountedError
from ..feature import Step
from ..feature_table import FEATURES, MONITORING
from ..host.cgroup_tasks import MOST_CGROUPS, CgroupThreads
from ..ledger import WAITING
from ..log import NOTICE, WARNING
from ..once import LOGGED, forget, is_new
from ..registry import features_in_use
from ..resctrl.absence import why_no_monitoring
from ..sharing.runtimes_group import group_name
from .bring_in import holds, take_in
from .budget import leave
from .change import Change, planned_change
from .groups import Groups
from .tasks import outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..container.running import Running
    from ..context import Context
    from ..feature import Feature
    from .report import Options, Report


def enforce(
    context: "Context",
    containers: "list[Running]",
    options: "Options",
    report: "Report",
    marked: "Iterable[str] | None" = None,
    groups: "Groups | None" = None,
) -> "list[Running]":
    """Apply what each container should have, under one lock each; return those that wait for an RMID.

    ``marked`` are the keys marked as waiting, where they were listed a moment ago; ``groups`` those that there are.
    """
    features = {one.name: one for one in features_in_use(context.settings)}
    joinable = can_join(context, containers, report)
    waits = set(context.ledger.marked(WAITING) if marked is None else marked)
    waiting: "list[Running]" = []
    budget = None if report.dry_run else options.budget
    for number, container in enumerate(containers):
        if options.live is not None and container.key not in options.live:
            continue
        if budget is not None and budget.is_spent and number:
            leave(context, containers[number:], len(containers))
            return waiting
        with report.catching(context, container.id):
            change = planned_change(
                container,
                missing_steps(context, container, features),
                _stray(context, container, groups, report) if joinable and container.monitored else 0,
                can_join=joinable,
                waits=container.key in waits,
            )
            if report.dry_run:
                _report_planned(change, report)
                continue
            if not change.is_empty and not take_in(context, change, report):
                waiting.append(container)
            _report_unmet(container, report)
        if budget is not None:
            budget.note_progress()
    if budget is not None:
        leave(context, [], 0)
    return waiting


def try_again(context: "Context", containers: "list[Running]", report: "Report") -> "list[Running]":
    """Let containers that wait for an RMID join their groups; return those that still wait."""
    waiting: "list[Running]" = []
    for container in containers:
        with report.catching(context, container.key):
            if not take_in(context, Change(container), report):
                waiting.append(container)
    return waiting


def sweep(context: "Context", containers: "list[Running]", report: "Report") -> None:
    """Move the threads of recorded containers that are outside their groups."""
    if not can_join(context, containers, report):
        return
    for container in containers:
        with report.catching(context, container.key):
            if container.monitored and stray_threads(context, container):
                take_in(context, Change(container), report)


def note_absence(context: "Context", *, dry_run: bool) -> bool:
    """Return whether there can be mon_groups now; otherwise log once why, if a feature uses resctrl."""
    resctrl = context.monitor.resctrl
    if resctrl.has_monitoring():
        if not dry_run and context.ledger.flagged(LOGGED):
            forget(context.ledger)
        return True
    if not dry_run and context.settings.uses_resctrl:
        error: "HookError | None" = why_no_monitoring(resctrl)
        try:
            resctrl.classes()
        except HookError as caught:  # else it was mounted meanwhile
            error = error or caught
        if error is not None and is_new(context.ledger, context.monitor.boot, error.reason):
            context.log(NOTICE if error.impossible else WARNING, str(error), stage="reconcile", reason=error.reason)
    return False


def can_join(context: "Context", containers: "list[Running]", report: "Report") -> bool:
    """Return whether there are groups to join; if resctrl is not mounted, report it once for all containers."""
    if not any(container.monitored for container in containers):
        return False
    if why_no_monitoring(context.monitor.resctrl) is not None:
        return False
    try:
        context.monitor.resctrl.classes()
    except NotMountedError as error:
        report.not_mounted = str(error)
        report.reasons.append(error.reason)
        return False
    return True


def missing_steps(
    context: "Context", container: "Running", features: "dict[str, Feature]"
) -> "list[tuple[Feature, Step]]":
    """Return the recorded or planned steps of a container that do not hold, except that of its group.

    A feature that adopts containers repairs its steps itself. Steps that replace others are returned anyhow.
    """
    found: "list[tuple[Feature, Step]]" = []
    for record in container.record["steps"]:
        name = record["feature"]
        feature = features.get(name)
        if feature is None or name == MONITORING:
            continue
        step = Step.of_record(record)
        if name in container.replanned or not (FEATURES[name].adopts or holds(feature, step, container, context)):
            found.append((feature, step))
    return found


def stray_threads(context: "Context", container: "Running", groups: "Groups | None" = None) -> int:
    """Return how many threads of a container are outside its group; takes no lock.

    ``groups`` have read the tasks of its pod's group in this pass.
    """
    recorded = container.recorded_class
    rdt_class = container.rdt_class if recorded is None else recorded
    own = (groups or Groups(context)).name(rdt_class, container.key)
    name = group_name(context, own, container.id, rdt_class, asks=container.asks)
    expected = {} if name == own and recorded is None else {rdt_class: name}
    listed = groups.tasks(rdt_class, container.key) if groups is not None and name == own and expected else None
    return len(outside(context, expected, container.cgroup, container.pid, container.in_cgroup, listed))


def _stray(context: "Context", container: "Running", groups: "Groups | None", report: "Report") -> int:
    try:
        _log_bound(context, container)
        return stray_threads(context, container, groups)
    except Exception as error:  # noqa: BLE001  # as `Report.catching`
        report.fail(context, container.key, error)
        return 0


def _log_bound(context: "Context", container: "Running") -> None:
    """Log that a container has more cgroups than are searched: threads may stay outside its group."""
    if container.in_cgroup is None and container.cgroup:
        container.in_cgroup = CgroupThreads(container.cgroup)
    if container.in_cgroup is not None and container.in_cgroup.is_partial:
        what = f"{container} has {MOST_CGROUPS} or more cgroups: threads outside the nearest {MOST_CGROUPS} are not"
        what = f"{what} monitored until the container removes some cgroups"
        context.log(WARNING, what, stage="reconcile", key=container.key, container=container.id)


def _report_planned(change: "Change", report: "Report") -> None:
    for _, step in change.classes + change.others:
        report.add(f"applied {step.feature}", change.container.id)
    report.count("moved", change.stray)
    report.add("adopted", *([change.container.id] if change.stray else []))
    report.add("placed", *change.placed)


def _report_unmet(container: "Running", report: "Report") -> None:
    """Report what a container lacks: of one adopted late everything, else the features without a plan."""
    unmet = container.record.get("unmet", {})
    reported = unmet if container.record.get("late") else container.record.get("unplanned", [])
    for name in reported:
        report.add("unmet", f"{container.id[:12]} {name}", why=unmet[name])
