"""Cleanup of the state directory: dangling marks and pointers, files of killed writers, unfolded call metrics."""

import time

from ..call_metrics import fold
from ..host.instance import RunningError
from ..host.unfinished import remove_unfinished
from ..ledger import CHANGING, WAITING
from ..log import NOTICE, WARNING
from ..part import load
from ..parts import PARTS
from ..pointers import forget, forget_unusable, has_member
from ..resctrl.totals_file import CLASSES, KEYS, share_with_earlier
from ..settings import last_valid_path
from ..state_folders import folders_of_records
from .repaired import changed_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..container.running import Running
    from ..context import Context
    from ..restored import Restored
    from .report import Report

_MOST_FOLDERS = 8
"""Pods whose folders are searched in a pass: each time others, because a full node has hundreds."""


def tidy(
    context: "Context",
    containers: "list[Running]",
    report: "Report",
    pointed: "Iterable[str] | None" = None,
    marked: "Iterable[str] | None" = None,
) -> None:
    """Remove marks and pointers that lead nowhere, and what killed writers left; add the calls up, share the totals.

    ``pointed`` are the ids of containers in the ledger, and ``marked`` the keys marked as waiting, if these were listed
    a moment ago.
    """
    with report.catching(context, "stateDir"):
        fold(context.ledger)
        report.count("tidied", _remove_unfinished(context))
        for name in (KEYS, CLASSES):
            share_with_earlier(context.ledger, name)
    _restore_values(context, report)
    living = {container.key for container in containers}
    recorded = {container.id for container in containers if container.recorded}
    for container in context.ledger.containers() if pointed is None else pointed:
        if container in recorded:
            continue
        key = context.ledger.key_of(container)
        with report.catching(context, container):
            if not key:
                forget_unusable(context.ledger, container)
            elif not has_member(context.ledger, key, container):
                with context.monitor.hold(key) as locked:
                    if locked.member(container) is None and context.ledger.key_of(container) == key:
                        forget(context.ledger, container)
                        report.count("tidied")
    for key in context.ledger.marked(WAITING) if marked is None else marked:
        if key not in living and not context.ledger.members(key):
            report.count("tidied", context.ledger.unmark(WAITING, key))
    for key in context.ledger.marked(CHANGING):
        _finish_change(context, key, report)


def _remove_unfinished(context: "Context") -> int:
    """Remove unfinished files of killed writers, wherever this program replaces files; return their number."""
    settings = context.settings
    keys = context.ledger.keys()
    most = min(len(keys), _MOST_FOLDERS)
    begin = time.monotonic_ns() % len(keys) if most < len(keys) else 0
    folders = folders_of_records(context.ledger.folder, (keys + keys)[begin : begin + most])
    removed = sum(remove_unfinished(folder, context.proc) for folder in folders)
    of_parts = (item for part in PARTS for item in part.get("files", {}).items())
    files = [f"{settings.sections[section][key]}/{name}" for section, (key, name) in of_parts]
    for path in (*files, settings.node_features_path, settings.path):
        folder, _, name = path.rpartition("/")
        removed += remove_unfinished(folder, context.proc, (name, f".{name}", last_valid_path(name))) if folder else 0
    return removed


def _finish_change(context: "Context", key: str, report: "Report") -> None:
    """Remove the mark that a killed program left, once every recorded group of the key exists."""
    with report.catching(context, key), context.monitor.hold(key) as locked:
        if all(context.monitor.resctrl.exists(rdt_class, locked.name_in(rdt_class)) for rdt_class in locked.origins):
            report.count("tidied", context.ledger.unmark(CHANGING, key))


def _restore_values(context: "Context", report: "Report") -> None:
    """Restore the values of the node that a killed, stopped or hung program of a part left changed."""
    for name, _, function in changed_values(context):
        with report.catching(context, name):
            try:
                restored: "Restored" = load(function)(context)
            except RunningError:
                continue  # its owner restores them
            report.count("repaired", len(restored.done))
            report.add("problem", *(f"cannot restore {line}" for line in restored.failed))
            for line in restored.done:
                context.log(NOTICE, f"restored after {restored.owner} ended: {line}", stage="reconcile")
            for line in restored.foreign:
                context.log(WARNING, f"left after {restored.owner} ended: {line}", stage="reconcile")
