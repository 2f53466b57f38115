"""The history as a resident of the sampling process, which imports SQLite only if the history is on."""

from ....core.node.errors import HookError
from .section import section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ....core.node.context import Context
    from .writer import HistoryResident


def start(context: "Context") -> "HistoryResident | None":
    """Open the history for writing; None if it is off.

    Raises:
        HookError: another process writes it, it cannot be created, or this Python has no SQLite.
        OSError: its folder or file is not root's alone.
    """
    settings = section(context.settings)
    if not settings["enabled"]:
        return None
    try:
        from .writer import open_history
    except ImportError as error:
        hint = "install the whole standard library of the host's Python (Debian: libpython3-stdlib)"
        raise HookError(f"the history needs SQLite: {error}", hint=hint) from None
    return open_history(context, settings)
