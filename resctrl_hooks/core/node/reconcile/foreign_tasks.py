"""Removes tasks of other cgroups from pods' groups: the exec watcher can move a process whose id was used again.

A pod's tasks are those in its cgroup, at any depth. Only a task that certainly runs in another cgroup is foreign.
"""

import errno

from ..host.procfs import cgroups_of
from ..log import WARNING
from ..resctrl.group import SHARED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.running import Running
    from ..context import Context
    from .groups import Groups
    from .report import Report


def remove_foreign_tasks(context: "Context", containers: "list[Running]", groups: "Groups", report: "Report") -> None:
    """Move each foreign task from a pod's group to the group's RDT class itself; its own pod can take it in then."""
    by_key: "dict[str, list[Running]]" = {}
    for container in containers:
        if container.recorded and container.monitored:
            by_key.setdefault(container.key, []).append(container)
    for key, members in by_key.items():
        cgroup = members[0].pod_cgroup
        if not cgroup or any(one.in_cgroup is None or one.in_cgroup.is_partial for one in members):
            continue  # the pod's tasks are not known
        known = set().union(*(one.in_cgroup.tids for one in members if one.in_cgroup is not None))
        for rdt_class in {one.recorded_class for one in members}:
            if rdt_class is None:
                continue
            try:
                others = groups.tasks(rdt_class, key) - known
                if any(_is_foreign(tid, cgroup, context) for tid in others):
                    _remove(context, key, rdt_class, cgroup, report)
            except Exception as error:  # noqa: BLE001  # as `Report.catching`, and free where nothing fails
                report.fail(context, key, error)


def _remove(context: "Context", key: str, rdt_class: str, cgroup: str, report: "Report") -> None:
    resctrl = context.monitor.resctrl
    with context.monitor.hold(key) as locked:
        if locked.origins.get(rdt_class, SHARED) == SHARED:
            return
        tasks = resctrl.tasks(rdt_class, locked.name_in(rdt_class))
        found = [tid for tid in tasks if _is_foreign(tid, cgroup, context)]
        if not report.dry_run:
            resctrl.add_tasks(rdt_class, "", found)
            what = f"moved {len(found)} tasks of other cgroups out of the group of {key}: {', '.join(map(str, found))}"
            context.log(WARNING, what, stage="reconcile", key=key)
        report.count("repaired", len(found))


def _is_foreign(tid: int, cgroup: str, context: "Context") -> bool:
    """Return whether a task certainly runs outside of a pod's cgroup; false if it has ended.

    A container can make cgroups below its own whose paths are longer than the kernel can report (Linux 5.14).
    """
    try:
        folders = [one.folder(context.settings.cgroup_path) for one in cgroups_of(context.proc, tid)]
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return False
    return bool(folders) and not any(f"{folder}/".startswith(f"{cgroup}/") for folder in folders)
