"""A pass on a node without mon_groups: one line after a boot, none in the later passes."""

from ..errors import HookError
from ..log import NOTICE, WARNING
from ..once import SAID, forget, is_new
from ..resctrl.absence import why_no_monitoring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context


def note_absence(context: "Context", *, dry_run: bool) -> bool:
    """Return whether there can be mon_groups now; otherwise log once why, if a feature uses resctrl."""
    resctrl = context.monitor.resctrl
    if resctrl.has_monitoring():
        if not dry_run and context.ledger.flagged(SAID):
            forget(context.ledger)
        return True
    if not dry_run and context.settings.uses_resctrl:
        error = why_no_monitoring(resctrl) or _problem(context)
        if error is not None and is_new(context.ledger, context.monitor.boot, error.reason):
            context.log(NOTICE if error.impossible else WARNING, str(error), stage="reconcile", reason=error.reason)
    return False


def _problem(context: "Context") -> "HookError | None":
    try:
        context.monitor.resctrl.classes()
    except HookError as error:
        return error
    return None  # mounted meanwhile
