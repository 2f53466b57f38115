"""Cleanup of the state directory: dangling marks and pointers, files of killed writers, unfolded call metrics."""

import posix
import time

from ..call_metrics import fold
from ..guard.lease import restore_left
from ..host.files import UNFINISHED, list_folder, remove_file
from ..host.procfs import start_time
from ..ledger import CHANGING
from ..log import NOTICE, WARNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..container.running import Running
    from ..context import Context
    from .report import Report

_OLD = 60.0  # seconds; a write takes a fraction of one, and a writer's pid may belong to another namespace


def tidy(
    context: "Context",
    containers: "list[Running]",
    report: "Report",
    pointed: "Iterable[str] | None" = None,
    marked: "Iterable[str] | None" = None,
) -> None:
    """Remove marks and pointers that lead nowhere, and what killed writers left; add the calls up.

    Args:
        context: the node.
        containers: the living containers.
        report: what is counted there.
        pointed: the ids of containers in the ledger, if they were listed a moment ago.
        marked: the keys marked as waiting, likewise.
    """
    try:
        fold(context.ledger)
        report.tidied += remove_unfinished(context.ledger.folder, context.proc)
    except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
        report.fail(context, "stateDir", error)
    _restore_limits(context, report)
    living = {container.key for container in containers}
    recorded = {container.id for container in containers if container.recorded}
    for container in context.ledger.containers() if pointed is None else pointed:
        if container in recorded:
            continue
        key = context.ledger.key_of(container)
        try:
            if not key:
                context.ledger.forget_unusable(container)
            elif not context.ledger.has_member(key, container):
                with context.monitor.hold(key) as locked:
                    if locked.member(container) is None and context.ledger.key_of(container) == key:
                        context.ledger.forget(container)
                        report.tidied += 1
        except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
            report.fail(context, container, error)
    for key in context.ledger.marked("waiting") if marked is None else marked:
        if key not in living and not context.ledger.members(key):
            report.tidied += context.ledger.unmark("waiting", key)
    for key in context.ledger.marked(CHANGING):
        _finish_change(context, key, report)


def _finish_change(context: "Context", key: str, report: "Report") -> None:
    """Remove the mark that a killed program left, once every recorded group of the key exists."""
    try:
        with context.monitor.hold(key) as locked:
            if all(context.monitor.resctrl.exists(rdt_class, locked.name) for rdt_class in locked.origins):
                report.tidied += context.ledger.unmark(CHANGING, key)
    except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
        report.fail(context, key, error)


def _restore_limits(context: "Context", report: "Report") -> None:
    """Restore the MB values that a killed bandwidth guard left lowered."""
    try:
        restored = restore_left(context.monitor.resctrl, context.ledger.folder, context.proc, only_ended=True)
    except Exception as error:  # noqa: BLE001  # see fault_report.as_hook_error
        report.fail(context, "guard", error)
        return
    report.repaired += len(restored.done)
    report.problems += [f"cannot restore {line}" for line in restored.failed]
    for line in restored.done:
        context.log(NOTICE, f"restored after the guard ended: {line}", stage="reconcile")
    for line in restored.foreign:
        context.log(WARNING, f"left by a guard that has ended: {line}", stage="reconcile")


def remove_unfinished(folder: str, proc: str) -> int:
    """Remove unfinished files of killed writers from a folder, and return their number.

    `files.write_file` names them by the writer's pid.
    """
    removed = 0
    for name in list_folder(folder):
        _, mark, pid = name.rpartition(UNFINISHED)
        if mark and pid.isdecimal() and not start_time(proc, int(pid)) and _age(f"{folder}/{name}") > _OLD:
            removed += remove_file(f"{folder}/{name}")
    return removed


def _age(path: str) -> float:
    try:
        return time.time() - posix.lstat(path).st_mtime
    except OSError:
        return 0.0
