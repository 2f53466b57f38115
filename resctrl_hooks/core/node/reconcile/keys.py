"""Corrects the records of keys, which are read once for that: names, cgroups of pods, and groups that are elsewhere.

Another program may have renamed or removed a group; and records of version 0.2 have no names, if an upgrade also
changed the prefix.
"""

from ..host.files import is_folder
from ..log import INFO, WARNING
from ..resctrl.identities import lacks_identity, mounted, note_identities
from ..resctrl.prefix_change import use_present_prefix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..container.running import Running
    from ..context import Context
    from ..resctrl.locked_key import LockedKey
    from .groups import Groups
    from .report import Report


def correct_keys(
    context: "Context", keys: "Iterable[str]", containers: "list[Running]", groups: "Groups", report: "Report"
) -> None:
    """Correct keys' records by living members, and forget missing groups that no container needs.

    A member without a namespace may have come first, or one whose pod's cgroup was not known. Groups that a living
    container needs were created again by `adopt`. The totals of a forgotten group stay: those are kept apart from
    groups. A key of another program is that program's to judge.
    """
    names = {one.key: {"namespace": one.namespace, "pod": one.pod} for one in containers if one.namespace}
    cgroups = {one.key: one.pod_cgroup for one in containers if one.pod_cgroup}
    needed: "dict[str, set[str | None]]" = {}
    for container in containers:
        needed.setdefault(container.key, set()).update((container.rdt_class, container.recorded_class))
    prefix = context.monitor.group_prefix
    mount = mounted(context.monitor.resctrl)
    is_mounted: "bool | None" = None if mount else False
    for key in sorted(keys):
        with report.catching(context, key):
            record = context.ledger.read_pod(key)
            if record is None:
                continue
            cgroup, now = record.get("cgroup", ""), cgroups.get(key, "")
            if now not in ("", cgroup) and not is_folder(cgroup) and is_folder(now):
                _correct(context, key, {"cgroup": now}, report)
            of_groups = dict.fromkeys(record["groups"], prefix + key)
            if of_groups and record.get("names") != of_groups and (cgroup or key in needed):
                _correct_group_names(context, key, report)
            if lacks_identity(record, mount):
                is_mounted = groups.is_mounted() if is_mounted is None else is_mounted
                if is_mounted:
                    _note_identities(context, key)
            if key in names and record.get("namespace") != names[key]["namespace"]:
                _correct(context, key, names[key], report)
            unneeded = record.get("groups", {}).keys() - needed.get(key, set())
            gone = {one for one in unneeded if not groups.has(one, key)}
            if gone and record.get("cgroup") and groups.is_mounted():
                _forget(context, key, gone, report)


def _correct(context: "Context", key: str, fields: "dict[str, str]", report: "Report") -> None:
    with context.monitor.hold(key) as locked:
        if locked.tracked:
            locked.record.update(fields)  # type: ignore[typeddict-item]  # its keys are PodRecord's
            locked.save()
            report.count("repaired")


def _correct_group_names(context: "Context", key: str, report: "Report") -> None:
    """Record the names of a key's groups where they are not recorded, and let its groups have the present prefix."""
    with context.monitor.hold(key) as locked:
        usual = locked.usual_name
        for rdt_class in locked.origins.keys() - locked.record.get("names", {}).keys():
            if context.monitor.resctrl.exists(rdt_class, usual):
                locked.note_group(rdt_class, locked.origins[rdt_class])
                locked.save()
        for rdt_class in use_present_prefix(locked, context.monitor):
            report.count("repaired")
            context.log(INFO, f"renamed the group of {key} in class {rdt_class!r} to {usual}", key=key)


def _note_identities(context: "Context", key: str) -> None:
    with context.monitor.hold(key) as locked:
        if locked.tracked and note_identities(locked, context.monitor.resctrl):
            locked.save()


def _forget(context: "Context", key: str, classes: "set[str]", report: "Report") -> None:
    resctrl = context.monitor.resctrl
    with context.monitor.hold(key) as locked:
        report.count("repaired", find_again(locked, context))
        for rdt_class in classes:
            if rdt_class in locked.origins and not resctrl.exists(rdt_class, locked.name_in(rdt_class)):
                locked.forget_groups(rdt_class)
                locked.save()
                report.count("repaired")
                context.log(INFO, f"dropped the record of the missing group of {key} in class {rdt_class!r}", key=key)


def find_again(locked: "LockedKey", context: "Context") -> bool:
    """Let groups of a key that another program has renamed be its own again; return whether there were any."""
    found = locked.find_again()
    for (old, name), place in found:
        what = f"another program renamed the group of {locked.key} from {old or 'the root class'}/{name}"
        what = f"{what} to {place[0] or 'the root class'}/{place[1]}"
        context.log(WARNING, f"{what}; it is the pod's group again", stage="reconcile", key=locked.key)
    return bool(found)


def recognize(locked: "LockedKey", context: "Context", rdt_class: str, containers: "Iterable[Running]") -> bool:
    """Record the name of a key's missing group in a class if there is evidence of it; return whether there is.

    The evidence is a group whose name ends in the key, with the init process of one of the key's ``containers`` in it.
    """
    if rdt_class in locked.record.get("names", {}):
        return False
    pids = {one.pid for one in containers if one.key == locked.key}
    for name in context.monitor.resctrl.groups(rdt_class):
        if name.endswith(locked.key) and not pids.isdisjoint(context.monitor.resctrl.tasks(rdt_class, name)):
            locked.note_group(rdt_class, locked.origins[rdt_class], name)
            locked.save()
            context.log(INFO, f"recognized the group of {locked.key}: {name}", stage="reconcile", key=locked.key)
            return True
    return False
