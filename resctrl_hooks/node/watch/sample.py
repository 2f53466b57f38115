"""One check of all recorded containers for threads outside their groups, in place of events."""

from ..ledger import WAITING
from ..reconcile.discovery import observe
from ..reconcile.enforce import sweep
from ..reconcile.report import Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context


def sample(context: "Context") -> int:
    """Move the threads of recorded containers that are outside their groups; return how many.

    Containers without a record and pods that wait for an RMID are left to reconcile.

    Raises:
        HookError: the node can't be observed.
    """
    waiting = set(context.ledger.marked(WAITING))
    containers = [one for one in observe(context).containers if one.recorded and one.key not in waiting]
    report = Report()
    sweep(context, containers, report)
    return report.moved
