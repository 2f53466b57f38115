"""Damaged and missing records of containers, which reconcile finds without a lock."""

import posix

from .host.files import is_there, remove_file
from .ledger import MEMBER
from .names import default_key_validator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ledger import Ledger


def has_member(ledger: "Ledger", key: str, member: str) -> bool:
    """Return whether a member has a record, valid or not."""
    return is_there(f"{ledger.folder}/pods/{key}/{MEMBER}{member}")


def forget(ledger: "Ledger", container: str) -> None:
    """Remove the pointer of a container whose record is gone."""
    remove_file(f"{ledger.folder}/containers/{container}")


def forget_unusable(ledger: "Ledger", container: str) -> None:
    """Remove a pointer with an invalid target. A missing one may be in the middle of a rewrite, and stays."""
    path = f"{ledger.folder}/containers/{container}"
    try:
        usable = default_key_validator(posix.readlink(path))
    except FileNotFoundError:
        return
    except OSError:
        usable = False
    if not usable:
        remove_file(path)
