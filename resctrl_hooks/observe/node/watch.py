"""A watch over values that are changed for a time: a stopped, hung or killed program keeps no limit."""

from ...core.node.fault_report import as_hook_error
from ...core.node.host.instance import RunningError
from ...core.node.log import ERROR
from ...core.node.part import load
from ...core.node.reconcile.repaired import changed_values
from .guard.resident import log_restored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.context import Context

INTERVAL = 5.0


class Watch:
    """Restores the values of programs that have ended, or whose time is over."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._due = float("-inf")
        self._logged: "dict[str, str]" = {}

    def step(self, now: float) -> None:
        """Look for such values, at most once in `INTERVAL` seconds of the monotonic clock. Never raises."""
        if now >= self._due:
            self._due = now + INTERVAL
            self.restore()

    def restore(self) -> None:
        """Restore them. Never raises."""
        for name, _, function in changed_values(self._context):
            self._restore(name, function)

    def _restore(self, name: str, function: str) -> None:
        try:
            result = load(function)(self._context)
        except RunningError:
            return
        except Exception as error:  # noqa: BLE001  # the residents continue
            problem = str(as_hook_error(error))
            if problem != self._logged.get(name):
                what = f"{name}: cannot restore the values of a program that has ended: {problem}"
                self._context.log(ERROR, what, stage=name)
        else:
            problem = "; ".join(result.failed)
            if not problem or problem != self._logged.get(name):
                log_restored(self._context, result, name)
        self._logged[name] = problem
