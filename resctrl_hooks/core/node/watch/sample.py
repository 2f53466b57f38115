"""One check of recorded containers, all or one, for threads outside their groups, in place of events."""

from ..errors import LockTimeoutError
from ..ledger import WAITING
from ..reconcile.discovery import observe
from ..reconcile.enforce import sweep
from ..reconcile.report import Report
from ..reconcile.tasks import gather

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..context import Context
    from .containers import Containers, Member


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
    return report.number("moved")


def sample_some(context: "Context", containers: "Containers", ids: "Iterable[str]") -> int:
    """Move the threads of some containers that are outside their groups; return how many.

    Containers of pods without a group, and of those that another process works on, are left to reconcile.
    """
    report = Report()
    for id_ in ids:
        member = containers.of_id(id_)
        if member is not None:
            with report.catching(context, id_):
                report.count("moved", _sample_one(context, member))
    return report.number("moved")


def _sample_one(context: "Context", member: "Member") -> int:
    try:
        locked = context.monitor.hold(member.key, 0.0)
    except LockTimeoutError:
        return 0
    with locked:
        if not locked.tracked or not locked.origins:
            return 0
        return gather(locked, context, member.cgroup, member.pid, next(iter(locked.origins))).moved
