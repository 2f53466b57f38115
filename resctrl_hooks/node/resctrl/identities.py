"""The identities of a key's groups in its record, by which a group is known that another program has renamed.

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


def lacks_identity(record: "PodRecord", mount: "list[str]") -> bool:
    """Return whether a record lacks the identity of one of the key's own groups in this mount (`mounts.witnesses`)."""
    known, noted = record.get("identities", ()), record.get("mount", [])
    is_same = mount == noted or is_same_mount(mount, noted)
    return any(origin != SHARED and not (is_same and one in known) for one, origin in record["groups"].items())


def note_identities(locked: "RecordedGroups", resctrl: "Resctrl") -> bool:
    """Put the missing identities of a key's own groups into its record; return whether it changed. The caller saves."""
    record = locked.record
    known, before = record.get("identities", {}), record.get("mount", [])
    mount, is_same = witnesses(resctrl.root, before)
    if not any(mount):  # it cannot be seen now
        return False
    found = {**known} if is_same else {}
    for rdt_class, origin in locked.origins.items():
        if origin != SHARED and rdt_class not in found:
            identity = identity_at(resctrl, rdt_class, locked.name_in(rdt_class))
            if identity:
                found[rdt_class] = identity
    record["identities"], record["mount"] = found, mount
    return (found, mount) != (known, before)


def identities(record: "PodRecord", resctrl: "Resctrl") -> "dict[str, str]":
    """Return the identities in a record by class; none if resctrl may have been mounted again since.

    Raises:
        ResctrlError: the mount cannot be read.
    """
    known = record.get("identities", {})
    if not known:
        return {}
    mount, _ = witnesses(resctrl.root, [])
    if not any(mount):
        raise ResctrlError(f"cannot read {resctrl.root}")
    if not is_same_mount(mount, record.get("mount", [])):
        return {}
    return {rdt_class: one for rdt_class, one in known.items() if record["groups"].get(rdt_class, SHARED) != SHARED}


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
