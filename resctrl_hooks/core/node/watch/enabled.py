"""Whether execs are to be watched, apart from the watcher, whose modules take memory in every process with them."""

from ..host.files import is_there
from ..resctrl.absence import why_no_monitoring
from ..resctrl.filesystem import Resctrl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..settings import Settings

WATCH = "watch"


def is_enabled(settings: "Settings") -> bool:
    """Return whether the settings enable the exec watcher, and /proc shows the processes of the kernel's events."""
    enabled = bool(settings.monitoring["enabled"]) and settings.monitoring["exec"] == WATCH
    return enabled and is_there(f"{settings.proc_path}/self")


def why_useless(settings: "Settings") -> str:
    """Return why the node cannot have groups for execed processes; empty if it can."""
    missing = why_no_monitoring(Resctrl(settings.resctrl_path, proc=settings.proc_path))
    return "" if missing is None else str(missing)
