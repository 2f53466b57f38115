"""The environment of one call: the active settings, the log, the ledger and the monitor. Every feature receives it."""

from .log import Log
from .resctrl.monitor import Monitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .log import LogCallable
    from .settings import Settings

_PATIENCE = 0.8  # maximum part of a hook's deadline for waiting for a lock


class Context:
    """The environment of every step: the active settings, the monitor with its ledger, and the log.

    ``failures`` collects the reasons of failed steps, one word each, for the call metrics. ``refusable`` is false while
    a refusal has no effect: then every failure policy is ``ignore``.
    """

    def __init__(self, settings: "Settings", log: "LogCallable | None" = None) -> None:
        self.settings = settings
        self.log: "LogCallable" = log or Log(settings.log)
        self.proc = settings.proc_path
        self.monitor = Monitor(
            settings.resctrl_path,
            state_dir=settings.state_dir,
            group_prefix=settings.group_prefix,
            log=self.log,
            proc=settings.proc_path,
            patience=settings.deadline * _PATIENCE,
        )
        self.ledger = self.monitor.ledger
        self.failures: "list[str]" = []
        self.refusable = True
