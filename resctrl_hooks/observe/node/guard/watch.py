"""A watch over leases: a stopped, hung or killed owner of MB values keeps no limit."""

from ....core.node.fault_report import as_hook_error
from ....core.node.host.instance import RunningError
from ....core.node.log import ERROR
from .guard import STAGE
from .recovery import restore_ended
from .resident import log_restored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.node.context import Context

INTERVAL = 5.0


class Watch:
    """Restores the values of leases that are over, whatever the guard's mode is."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._due = float("-inf")
        self._logged = ""

    def step(self, now: float) -> None:
        """Look for such a lease, at most once in `INTERVAL` seconds of the monotonic clock. Never raises."""
        if now >= self._due:
            self._due = now + INTERVAL
            self.restore()

    def restore(self) -> None:
        """Restore the values of a lease that is over. Never raises."""
        context = self._context
        try:
            result = restore_ended(context)
        except RunningError:
            return
        except Exception as error:  # noqa: BLE001  # the residents continue
            problem = str(as_hook_error(error))
            if problem != self._logged:
                context.log(ERROR, f"guard: cannot restore the values of an ended lease: {problem}", stage=STAGE)
        else:
            problem = "; ".join(result.failed)
            if not problem or problem != self._logged:
                log_restored(context, result)
        self._logged = problem
