"""The restoration of temporary changes that are over, or whose process has ended.

Each pass of reconcile does it, a resident process, an experiment's watchdog, and an uninstallation (``values`` in
`observe.node.part`), which also ends changes without a process before their time.
"""

from ....core.node.restored import Restored
from .store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.node.context import Context


def restore_ended(context: "Context") -> Restored:
    """Restore them.

    Raises:
        TemporaryError: the file of changes cannot be read or written; it stays.
        OSError: the lock's file cannot be opened.
    """
    return Store(context).restore_over(all_without_process=context.withdrawing)
