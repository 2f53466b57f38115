"""Names of groups where there is more than one prefix: each key's record has the names of its groups.

The state directory has an empty file for each prefix with which a group was recorded, except the empty prefix. While
all names have the present prefix, which is usual, they follow from the keys, and no record is read.
"""

from ..errors import LedgerError
from ..host.files import UNFINISHED, list_folder
from ..names import default_key_validator
from .group import PREFIX, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Protocol

    from ..ledger import Ledger
    from ..records import PodRecord
    from .filesystem import Resctrl

    class Named(Protocol):
        """The part of a `Monitor` that names need."""

        resctrl: Resctrl
        ledger: Ledger
        group_prefix: str


def prefixes(ledger: "Ledger") -> "set[str]":
    """Return every prefix with which a group was recorded, except an empty one; version 0.2 recorded none.

    Raises:
        LedgerError: the kernel refuses.
    """
    try:
        names = list_folder(ledger.folder)
    except OSError as error:
        raise LedgerError.of_file(error, ledger.folder) from error
    return {name[len(PREFIX) :] for name in names if name.startswith(PREFIX) and UNFINISHED not in name}


def current_name(node: "Named", key: str, rdt_class: str) -> str:
    """Return the name of a key's group in a class by its present record."""
    return Names(node).of(key, rdt_class)


class Names:
    """The names of keys' groups at one moment.

    Raises:
        LedgerError: from every method, if the state directory is unreadable.
    """

    def __init__(self, node: "Named") -> None:
        self._resctrl = node.resctrl
        self._ledger = node.ledger
        self._prefix = node.group_prefix
        self._former = sorted({"", *prefixes(node.ledger)} - {node.group_prefix})  # empty if names follow from keys
        self._records: "dict[str, PodRecord | None]" = {}

    @property
    def usual_prefix(self) -> "str | None":
        """The prefix from which all names follow; None where records have them."""
        return None if self._former else self._prefix

    def of(self, key: str, rdt_class: str) -> str:
        """Return the name of a key's group in a class; without one, that of a new group.

        Another program may have moved a group with a former prefix into the class.
        """
        usual = self._prefix + key
        if not self._former:
            return usual
        record = self._record(key) or {}
        if rdt_class not in record.get("groups", ()) and record.get("identities"):
            from .identities import is_one_of  # few keys have groups that are not recorded

            names = (prefix + key for prefix in self._former)
            return next((name for name in names if is_one_of(record, self._resctrl, (rdt_class, name))), usual)
        name = name_of(record, rdt_class, usual)
        new = record.get("renaming", {}).get(rdt_class)
        return new if new and not self._resctrl.exists(rdt_class, name) else name  # its renamer may have been killed

    def found(self, rdt_class: str, listed: "Collection[str]", keys: "Collection[str]") -> "dict[str, str]":
        """Return the names of those groups that are among the listed ones of a class, by key."""
        size = len(self._prefix)
        found = {name[size:]: name for name in listed if name[size:] in keys and name.startswith(self._prefix)}
        for prefix in self._former:
            for name in listed:
                key = name[len(prefix) :]
                if key in keys and name.startswith(prefix):
                    found[key] = self.of(key, rdt_class)
        if not self._former:
            return found
        there = set(listed)
        return {key: name for key, name in found.items() if name in there}

    def owner(self, rdt_class: str, name: str) -> str:
        """Return the key whose group in a class has this name; empty for a foreign group."""
        for prefix in (self._prefix, *self._former):
            key = name[len(prefix) :]
            if name.startswith(prefix) and default_key_validator(key):
                record = self._record(key)
                if record and rdt_class in record["groups"] and self.of(key, rdt_class) == name:
                    return key
        return ""

    def _record(self, key: str) -> "PodRecord | None":
        if key not in self._records:
            self._records[key] = self._ledger.read_pod(key)
        return self._records[key]
