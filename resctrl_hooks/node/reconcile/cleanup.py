"""Cleanup of the state directory: dangling marks and pointers, files of killed writers, unfolded call metrics."""

import posix
import time

from ..call_metrics import fold
from ..guard.lease import restore_ended
from ..host.files import UNFINISHED, list_folder, remove_file
from ..host.instance import RunningError
from ..host.procfs import start_time
from ..ledger import CHANGING, WAITING
from ..log import NOTICE, WARNING
from ..pointers import forget, forget_unusable, has_member
from ..resctrl.totals_file import CLASSES, KEYS, share_with_earlier

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
    """Remove marks and pointers that lead nowhere, and what killed writers left; add the calls up, share the totals.

    ``pointed`` are the ids of containers in the ledger, and ``marked`` the keys marked as waiting, if these were listed
    a moment ago.
    """
    with report.catching(context, "stateDir"):
        fold(context.ledger)
        report.tidied += remove_unfinished(context.ledger.folder, context.proc)
        for name in (KEYS, CLASSES):
            share_with_earlier(context.ledger, name)
    _restore_limits(context, report)
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
                        report.tidied += 1
    for key in context.ledger.marked(WAITING) if marked is None else marked:
        if key not in living and not context.ledger.members(key):
            report.tidied += context.ledger.unmark(WAITING, key)
    for key in context.ledger.marked(CHANGING):
        _finish_change(context, key, report)


def _finish_change(context: "Context", key: str, report: "Report") -> None:
    """Remove the mark that a killed program left, once every recorded group of the key exists."""
    with report.catching(context, key), context.monitor.hold(key) as locked:
        if all(context.monitor.resctrl.exists(rdt_class, locked.name_in(rdt_class)) for rdt_class in locked.origins):
            report.tidied += context.ledger.unmark(CHANGING, key)


def _restore_limits(context: "Context", report: "Report") -> None:
    """Restore the MB values that a killed bandwidth guard left lowered."""
    with report.catching(context, "guard"):
        try:
            restored = restore_ended(context.monitor.resctrl, context.ledger.folder, context.proc)
        except RunningError:
            return  # its guard restores them
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
