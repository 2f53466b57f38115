"""The identities of a key's groups in its record: device and inode number, which no rename by another program changes.

Reconcile records them, so that a hook need not. A group that is renamed before the first pass is unknown, as is one
that another program creates in place of a removed one: it is foreign.
"""

import posix

from ..errors import ResctrlError
from ..host.files import GONE
from .counter_files import identity_of
from .group import SHARED
from .mounts import is_same_mount, witnesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..records import PodRecord
    from .filesystem import Resctrl
    from .group import RecordedGroups

    Place = tuple[str, str]  # class and name

_NONE: "dict[str, str]" = {}


def mounted(resctrl: "Resctrl") -> str:
    """Return the present mount as identities in records have it at their end; empty if it cannot be read."""
    times, _ = witnesses(resctrl.root, [])
    return "".join(f" {time}" for time in times) if any(times) else ""


def lacks_identity(record: "PodRecord", mount: str) -> bool:
    """Return whether a record lacks the identity of one of the key's own groups in this mount (`mounted`)."""
    known = record.get("identities", _NONE)
    for rdt_class, origin in record["groups"].items():
        if origin != SHARED and not known.get(rdt_class, "").endswith(mount):
            return True
    return False


def note_identities(locked: "RecordedGroups", resctrl: "Resctrl") -> bool:
    """Put the missing identities of a key's own groups into its record; return whether it changed. The caller saves."""
    mount = mounted(resctrl)
    if not mount:  # it cannot be seen now
        return False
    before, known = locked.record.get("identities", _NONE), identities(locked.record, resctrl)
    for rdt_class, origin in locked.origins.items():
        if origin != SHARED and rdt_class not in known:
            known[rdt_class] = identity_at(resctrl, rdt_class, locked.name_in(rdt_class)) or ""
    found = {rdt_class: identity + mount for rdt_class, identity in known.items() if identity}
    locked.record["identities"] = found
    return found != before


def identities(record: "PodRecord", resctrl: "Resctrl") -> "dict[str, str]":
    """Return the identities in a record by class; none if resctrl may have been mounted again since.

    Raises:
        ResctrlError: the mount cannot be read.
    """
    known = record.get("identities", _NONE)
    times = witnesses(resctrl.root, [])[0] if known else []
    if known and not any(times):
        raise ResctrlError(f"cannot read {resctrl.root}")
    found: "dict[str, str]" = {}
    for rdt_class, noted in known.items():
        identity, *before = noted.split(" ")
        if before and is_same_mount(times, before) and record["groups"].get(rdt_class, SHARED) != SHARED:
            found[rdt_class] = identity
    return found


def is_one_of(record: "PodRecord", resctrl: "Resctrl", place: "Place") -> bool:
    """Return whether the group at a place is one of a record's own, perhaps renamed; false if unknown."""
    try:
        return identity_at(resctrl, *place) in identities(record, resctrl).values()
    except ResctrlError:
        return False


def identity_at(resctrl: "Resctrl", rdt_class: str, name: str) -> str:
    """Return the identity of a group; empty without one.

    Raises:
        ResctrlError: it cannot be read now.
    """
    path = resctrl.group_folder(rdt_class, name)
    try:
        return identity_of(posix.stat(path))
    except OSError as error:
        if error.errno in GONE:
            return ""
        raise resctrl.refused(error, f"cannot read mon_group {path}", rdt_class) from error
