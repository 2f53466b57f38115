"""The monitoring feature: a workload's processes join their pod's mon_group."""

import time

from .. import errors
from ..feature import INTO_CLASS, SKIP, Feature, Step, describe, obtain_group
from ..feature_table import AUTO
from ..host.procfs import resctrl_groups_of
from ..resctrl.filesystem import ASSIGNMENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..container.workload import Workload
    from ..context import Context
    from ..feature import Container
    from ..records import ClassNeeds
    from ..resctrl.filesystem import Resctrl
    from ..resctrl.locked_key import LockedKey

NAME = "monitoring"


class Monitoring(Feature):
    """The mon_group of a container's pod; it ends when `lifecycle.release_key` finds that the pod has ended."""

    name = NAME

    def plan(self, workload: "Workload", context: "Context", earlier: "Sequence[Step]" = ()) -> "list[Step]":
        """Join the pod's group in the class of the process, or stay in the runtime's group.

        A filter may forbid it. A node whose resctrl cannot monitor has no groups; there the step is skipped, and under
        ``enabled: auto`` the container is only recorded.

        Raises:
            InputError: the label selector needs the pod's labels, and they are unreadable.
            TaskGoneError: the process has ended.
        """
        reason = why_not(workload, context)
        if reason:
            return [Step(NAME, SKIP, {}, reason)]
        if not context.monitor.resctrl.has_monitoring():
            from ..resctrl.absence import why_no_monitoring  # few nodes have none

            error = why_no_monitoring(context.monitor.resctrl)
            if error is not None:
                return [Step(NAME, SKIP, {}, str(error), noted=context.settings.monitoring["enabled"] == AUTO)]
        into = [step for step in earlier if step.action == INTO_CLASS]
        if into:
            rdt_class, source = into[-1].parameters["class"], "the class of the previous step"
        else:
            rdt_class, source = class_of(workload, context)
        what = "pod" if workload.in_pod else "container"
        why = f"group of {what} {workload.key} in {rdt_class or 'the root class'}, {source}"
        if workload.bundle.monitored and not context.settings.monitoring["takeOver"]:
            why += "; a group of the runtime (linux.intelRdt.enableMonitoring) is used in its place and counts for it"
        needs: "ClassNeeds" = {"class": rdt_class}
        return [Step(NAME, "join", needs, why)]

    def apply(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Create or find the group and move the process into it."""
        needs: "ClassNeeds" = step.parameters
        rdt_class = needs["class"]
        if context.settings.rdt["enabled"] and container.pid:
            where = resctrl_groups_of(context.proc, container.pid)
            rdt_class = where[0] if where is not None else rdt_class  # the previous step may have failed
        describe(container, locked)
        limited = locked.limited_to
        if limited is not None:
            locked.record.setdefault("limitedFrom", {}).setdefault(container.id, rdt_class)
            locked.save()
            rdt_class = limited
            context.monitor.resctrl.move_all(limited, "", lambda: container.threads(context.proc))
        if container.asks:
            from ..sharing.runtimes_group import count_group  # few containers ask for a group of their runtime

            if count_group(container, rdt_class, locked, context):
                return
        new = rdt_class not in locked.origins
        obtain_group(locked, rdt_class, context, container)
        try:
            locked.assign_pid(container.pid, rdt_class)
        except errors.ResctrlError:
            if new:
                locked.remove_unused(rdt_class)
            raise
        event = context.settings.monitoring["events"][0]
        if lacks_counter(context.monitor.resctrl, rdt_class, locked.name_in(rdt_class), event):
            from ..sharing.bandwidth_counters import ensure_counted  # only for exhausted assigned counters

            ensure_counted(context, locked.key)

    def holds(self, step: "Step", container: "Container", context: "Context") -> bool:
        """Return whether its init process is in its key's group; true if unknown or ended."""
        from ..host.procfs import groups_of_process  # a start does not ask

        try:
            where = groups_of_process(context.proc, container.pid)
        except ProcessLookupError:
            return True
        if where is None or where[1] in (context.monitor.group_prefix + container.key, container.id):
            return True
        from ..resctrl.group_names import current_name  # few groups have a former prefix

        return where[1] == current_name(context.monitor, container.key, where[0])

    def withdraw(self, context: "Context") -> None:
        """Assign the classes' own groups the bandwidth counters that were released for pods."""
        from ..sharing.released_counters import give_back

        give_back(context)

    def reserve(self, step: "Step", container: "Container", locked: "LockedKey", context: "Context") -> None:
        """Create the group, so that an RMID is there when the container starts, unless its runtime creates one.

        A class that the runtime creates for the container does not exist yet, and has an RMID of its own.
        """
        needs: "ClassNeeds" = step.parameters
        describe(container, locked)
        bundle = container.planned(context.settings).bundle
        if bundle.has_own_class or (bundle.monitored and not context.settings.monitoring["takeOver"]):
            return
        limited = locked.limited_to
        rdt_class = needs["class"] if limited is None else limited
        obtain_group(locked, rdt_class, context, container)
        if locked.members():  # the group is not given away before this one starts
            locked.record["reserved"] = {rdt_class: round(time.clock_gettime(time.CLOCK_BOOTTIME), 3)}
            locked.save()


def why_not(workload: "Workload", context: "Context") -> str:
    """Return why a workload is excluded from monitoring, or an empty string."""
    settings = context.settings
    reason = settings.selects(workload.namespace)
    if not reason and settings.label_selector:
        from ..container.labels import pod_labels  # few nodes select by labels

        reason = settings.selects_labels(pod_labels(workload))
    return reason


def class_of(workload: "Workload", context: "Context") -> "tuple[str, str]":
    """Return the RDT class of a workload, and its source: the task's class, else the bundle's."""
    if workload.pid:
        try:
            where = resctrl_groups_of(context.proc, workload.pid)
        except ProcessLookupError as error:
            raise errors.TaskGoneError.of(workload.pid) from error
        if where is not None:
            return where[0], "the class of its process"
    bundle = workload.bundle
    if bundle.class_name:
        return bundle.class_name, "by linux.intelRdt.closID in its bundle"
    resctrl = context.monitor.resctrl
    # A runtime without RDT support creates no class, which shows when the process is there.
    if bundle.has_own_class and (not workload.pid or resctrl.fs.is_folder(resctrl.class_folder(workload.id))):
        return workload.id, "because its bundle has linux.intelRdt without closID"
    return "", "because its bundle names no class"


def lacks_counter(resctrl: "Resctrl", rdt_class: str, name: str, event: str) -> bool:
    """Return whether a group has no assignable counter for an event in some domain."""
    folder, start = resctrl.group_folder(rdt_class, name), event.encode()
    try:
        files = [file for file in resctrl.fs.listdir(folder) if file.endswith(ASSIGNMENTS)]
    except OSError:
        return False
    for file in files:
        try:
            lines = resctrl.fs.read(f"{folder}/{file}").split(b"\n")
        except OSError:
            continue  # of a resource whose counters are not assigned
        if any(line.startswith(start) and b"=_" in line for line in lines):
            return True
    return False


FEATURE = Monitoring()
