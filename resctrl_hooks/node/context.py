"""What one call works with: the settings in force, the log, the ledger and the monitor. Every feature is handed it."""

from .log import Log
from .resctrl.monitor import Monitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .settings import Settings

_PATIENCE = 0.8  # of a hook's deadline is what it may spend on waiting for a lock


class Context:
    """What every step works on: the settings in force, the monitor with its ledger, and the log.

    ``failures`` gathers why steps failed, a word each, for the tally. ``strict`` says that a step is still to be done
    without which its feature's policy refuses the container.
    """

    def __init__(self, settings: "Settings", log: "Log | None" = None) -> None:
        self.settings = settings
        self.log = log or Log(settings.log)
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
        self.strict = False
