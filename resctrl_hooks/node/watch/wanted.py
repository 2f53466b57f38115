"""Whether execs are to be watched, apart from the watcher, whose modules take memory in every process with them."""

from ..host.files import is_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..settings import Settings

WATCH = "watch"


def is_wanted(settings: "Settings") -> bool:
    """Return whether the settings want execs to be watched, and /proc has the processes that the kernel tells of."""
    wanted = bool(settings.monitoring["enabled"]) and settings.monitoring["exec"] == WATCH
    return wanted and is_there(f"{settings.proc_path}/self")
