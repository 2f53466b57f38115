"""Adoption of groups after a loss of the ledger (``reconcile --claim``), also of those with a former prefix."""

from ..feature import describe
from ..log import INFO
from ..names import workload_key_validator
from ..resctrl.group import ADOPTED, SHARED, name_of
from ..resctrl.group_names import prefixes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..container.running import Running
    from ..context import Context
    from ..resctrl.locked_key import LockedKey
    from .discovery import Observation
    from .report import Options, Report

_MOST_ROUNDS = 20


def claimable_prefixes(context: "Context") -> "list[str]":
    """Return the present prefix, and those of former configurations and of earlier records."""
    present = context.monitor.group_prefix
    former = {*prefixes(context.ledger), *context.settings.former_prefixes} - {present}
    return [present, *sorted(former)]


def claim(context: "Context", seen: "Observation", options: "Options", report: "Report") -> None:
    """Adopt unrecorded groups of live pods with names like ours, and remove unused ones.

    Groups of containers that the filters exclude, and groups that a runtime created for itself, are foreign.
    """
    living = {container.key: container for container in seen.containers if container.monitored}
    for rdt_class, key, name in list(unrecorded(context)):
        with report.catching(context, key):
            if key in living and living[key].asks and name == living[key].id:
                continue
            used = key in living or seen.in_use(context, rdt_class, key, name)
            if options.dry_run:
                if key in living or not used:
                    report.add("claimed", key)
                continue
            with context.monitor.hold(key) as locked:
                if _is_recorded(locked, rdt_class, name):
                    continue
                if key in living:
                    report.count("freed", _adopt(context, locked, living[key], rdt_class, name))
                    report.add("claimed", key)
                elif not used:
                    context.monitor.resctrl.remove(rdt_class, name)
                    report.add("claimed", key)
                    report.count("freed")
                    context.log(INFO, f"removed the group of {key}: no pod or container uses it", key=key)


def unrecorded(context: "Context") -> "Iterator[tuple[str, str, str]]":
    """Return groups with a prefix and a workload's key that the ledger does not know as ours: class, key and name."""
    known = claimable_prefixes(context)
    for rdt_class in ["", *context.monitor.resctrl.classes()]:
        for name in context.monitor.resctrl.groups(rdt_class):
            for prefix in known:
                key = name[len(prefix) :]
                if name.startswith(prefix) and workload_key_validator(key):
                    record = context.ledger.read_pod(key)
                    usual = context.monitor.group_prefix + key
                    origin = (record or {}).get("groups", {}).get(rdt_class, SHARED)
                    if origin == SHARED or name_of(record, rdt_class, usual) != name:
                        yield rdt_class, key, name


def _is_recorded(locked: "LockedKey", rdt_class: str, name: str) -> bool:
    return locked.origins.get(rdt_class, SHARED) != SHARED and locked.name_in(rdt_class) == name


def _adopt(context: "Context", locked: "LockedKey", container: "Running", rdt_class: str, name: str) -> int:
    """Make a group that of a pod, or empty it into the pod's recorded one; return the number of removed groups."""
    resctrl, own = context.monitor.resctrl, locked.name_in(rdt_class)
    if locked.origins.get(rdt_class, SHARED) == SHARED or not resctrl.exists(rdt_class, own):
        describe(container, locked)
        locked.note_group(rdt_class, ADOPTED, name)
        locked.save()
        return 0
    for _ in range(_MOST_ROUNDS):
        tasks = resctrl.tasks(rdt_class, name)
        if not tasks:
            return int(resctrl.remove(rdt_class, name))
        resctrl.add_tasks(rdt_class, own, sorted(tasks))
    return 0
