"""Records of running containers on a node without groups, for commands that measure them without an installation."""

from ..errors import HookError
from ..feature_table import AUTO
from ..host.procfs import sees_processes
from ..lifecycle import reap
from ..resctrl.absence import why_no_monitoring
from .discovery import observe
from .join import record_late

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context


def note_running(context: "Context") -> "list[str]":
    """Record the running containers that no hook has recorded and that no feature serves; return their ids.

    Records of ended containers are removed: without an installation, nothing else does that.
    Nothing is done for a node that can have groups, where a record without a group would be incomplete, and in a
    container without the node's PID namespace. Without permission, and for a container whose key is held, nothing is
    recorded.
    """
    if context.settings.groups["enabled"] != AUTO or why_no_monitoring(context.monitor.resctrl) is None:
        return []
    if not sees_processes(context.proc):
        return []
    noted = []
    try:
        reap(context, context.ledger.keys())
        for container in observe(context).containers:
            if container.noted and not container.recorded and not container.record["steps"]:
                with context.monitor.hold(container.key) as locked:
                    if locked.member(container.id) is None and container.revalidate(context.proc):
                        record_late(container, locked)
                        noted.append(container.id)
    except (HookError, OSError):
        pass  # what is recorded already is measured
    return noted
