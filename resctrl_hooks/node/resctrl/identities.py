"""The identities of a key's groups in its record, by which a group is known that another program has renamed.

Reconcile records them, so that a hook need not. A group that is renamed before the first pass is unknown, as is one
that another program creates in place of a removed one: it is foreign.
"""

import posix

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
    found = {**known} if is_same else {}
    for rdt_class, origin in locked.origins.items():
        if origin != SHARED and rdt_class not in found:
            identity = identity_at(resctrl, rdt_class, locked.name_in(rdt_class))
            if identity:
                found[rdt_class] = identity
    record["identities"], record["mount"] = found, mount
    return (found, mount) != (known, before)


def identities(record: "PodRecord", resctrl: "Resctrl") -> "dict[str, str]":
    """Return the identities in a record by class; none if resctrl may have been mounted again since."""
    known = record.get("identities", {})
    if not known or not is_same_mount(witnesses(resctrl.root, [])[0], record.get("mount", [])):
        return {}
    return {rdt_class: one for rdt_class, one in known.items() if record["groups"].get(rdt_class, SHARED) != SHARED}


def is_one_of(record: "PodRecord", resctrl: "Resctrl", place: "Place") -> bool:
    """Return whether the group at a place is one of a record's own, perhaps renamed."""
    return identity_at(resctrl, *place) in identities(record, resctrl).values()


def identity_at(resctrl: "Resctrl", rdt_class: str, name: str) -> "str | None":
    """Return the identity of a group; empty without one, None if it cannot be read now."""
    try:
        return identity_of(posix.stat(resctrl.group_folder(rdt_class, name)))
    except OSError as error:
        return "" if error.errno in GONE else None
