"""Release of groups that no container of their pod needs any more, while other pods wait for an RMID.

A pod can have groups in several RDT classes: its containers are in different ones, an init container has ended, or a
container has changed its class. Without a waiting pod the groups stay, because a container may start in their class
again. So do those of a pod without living containers: ``monitoring.release`` decides about them.
"""

import time

from ..class_needs import needed_classes
from ..host.procfs import groups_of_process
from ..log import INFO
from ..resctrl.group import SHARED
from ..resctrl.group_moves import part_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..container.running import Running
    from ..context import Context
    from ..resctrl.locked_key import LockedKey
    from .groups import Groups
    from .report import Report

_RESERVED = 60.0  # seconds in which a container must start for which NRI has reserved a group


def release_unneeded(
    context: "Context", containers: "list[Running]", groups: "Groups", report: "Report", waiting: "Collection[str]"
) -> None:
    """Remove the unneeded groups of living pods if any pod is ``waiting``; their counts stay in the totals."""
    if not waiting or report.dry_run:
        return
    needed: "dict[str, set[str | None]]" = {}
    for container in containers:
        needed.setdefault(container.key, set()).update((container.rdt_class, container.recorded_class))
    for rdt_class in groups.classes():
        for key in groups.keys(rdt_class, needed):
            if rdt_class not in needed[key]:
                with report.catching(context, key):
                    _release(context, key, rdt_class, report)


def _release(context: "Context", key: str, rdt_class: str, report: "Report") -> None:
    resctrl = context.monitor.resctrl
    with context.monitor.hold(key) as locked:
        name = locked.name_in(rdt_class)
        if locked.origins.get(rdt_class, SHARED) == SHARED or rdt_class in _in_use(locked, context):
            return
        if resctrl.tasks(rdt_class, name) or not resctrl.exists(rdt_class, name):
            return
        others = locked.origins.keys() - {rdt_class}
        if part_with(context.monitor, key, [rdt_class], lambda: locked.release_but(others)):
            report.count("freed")
            where = f"class {rdt_class}" if rdt_class else "the root class"
            what = f"removed the group of {key} in {where}: none of its containers needs it, and a pod waits"
            context.log(INFO, what, stage="reconcile", key=key, rdt_class=rdt_class)


def _in_use(locked: "LockedKey", context: "Context") -> "set[str]":
    """Return the classes in which a living member is, belongs, or is about to start; all for a program's own member."""
    members = locked.members()
    found = needed_classes(locked, members, context)
    for member in members:
        record = locked.member(member) or {}
        if "steps" not in record:
            return set(locked.origins)
        try:
            where = groups_of_process(context.proc, record["pid"]) if record.get("pid") else None
        except ProcessLookupError:
            continue
        if where is not None:
            found.add(where[0])
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    reserved = locked.record.get("reserved", {})
    return found.union(name for name, when in reserved.items() if 0 <= now - when < _RESERVED)
