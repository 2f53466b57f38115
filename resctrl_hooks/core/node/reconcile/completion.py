"""Completes the record of one container by the labels and annotations that only its runtime's NRI passes."""

from ..container.runtimes import Found
from .discovery import recorded
from .enforce import enforce
from .report import Options, Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.workload import Workload
    from ..context import Context
    from ..records import MemberRecord


def complete_record(workload: "Workload", record: "MemberRecord", context: "Context") -> Report:
    """Plan what the record's writer could not, write it, and apply it; as reconcile does for listed containers."""
    found = Found(workload.id, workload.pid, record["start"], record.get("bundle", ""))
    report = Report(shared=context.settings.shares_rmids)
    report.learn(workload.key, record, workload.id)
    enforce(context, [recorded(workload.key, found, record, context, workload)], Options(wait=False), report)
    return report
