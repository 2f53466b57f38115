"""Messages on the whole node that are logged once after a boot, not by each hook and each pass of reconcile."""

from .errors import HookError
from .host.files import read_small_file, remove_file, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ledger import Ledger

LOGGED = "said"
"""The file in the state directory with the boot and the reason of the last such message."""
_LIMIT = 4096


def is_new(ledger: "Ledger", boot: str, reason: str) -> bool:
    """Return whether nothing was logged for a reason since the boot and since `forget`; remember it from now on."""
    path = f"{ledger.folder}/{LOGGED}"
    line = f"{boot} {reason}\n".encode()
    try:
        if read_small_file(path, _LIMIT) == line:
            return False
    except (OSError, ValueError):
        pass
    try:
        ledger.prepare()
        write_file(path, line)
    except (HookError, OSError):
        pass  # it is logged again
    return True


def forget(ledger: "Ledger") -> None:
    """Log the message again when its reason returns. Never raises."""
    try:
        remove_file(f"{ledger.folder}/{LOGGED}")
    except OSError:
        pass  # the next pass tries again
