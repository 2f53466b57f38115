"""Files of the state directory whose existence or age concerns the whole node. `Ledger.flagged` reads them."""

import posix
import time

from .errors import LedgerError
from .host.files import is_there, remove_file, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ledger import Ledger


def set_flag(ledger: "Ledger", name: str, *, on: bool) -> bool:
    """Create or remove a flag file of the state directory, which concerns the whole node; return whether it changed.

    Raises:
        LedgerError: the kernel refuses.
    """
    path = f"{ledger.folder}/{name}"
    try:
        if not on:
            return remove_file(path)
        if is_there(path):
            return False
        write_file(path, b"")
    except OSError as error:
        raise LedgerError.of_file(error, path) from error
    return True


def age(ledger: "Ledger", name: str) -> float:
    """Return the seconds since the file was touched; infinity if it does not exist, or after a clock change."""
    try:
        age = time.time() - posix.stat(f"{ledger.folder}/{name}").st_mtime
    except OSError:
        return float("inf")
    return age if age >= 0 else float("inf")


def touch(ledger: "Ledger", name: str) -> None:
    """Recreate the flag file to restart its age; failures are ignored."""
    try:
        write_file(f"{ledger.folder}/{name}", b"")
    except OSError:
        pass
