"""Return of groups that another program has renamed: their recorded identities (`identities`) find them."""

from ..errors import ResctrlError
from .group_names import Names
from .identities import identities, identity_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..ledger import Ledger
    from .filesystem import Resctrl
    from .group import RecordedGroups
    from .identities import Place


def find_again(locked: "RecordedGroups", resctrl: "Resctrl", ledger: "Ledger") -> "list[tuple[Place, Place]]":
    """Let renamed groups of a key be its own again; return their former and present places. The caller saves.

    A group in another class stays there. One with a foreign name gets the key's name, or is removed if that is taken:
    its tasks are in the class itself then.

    Raises:
        ResctrlError: a group or the mount cannot be read now.
    """
    away: "dict[str, Place]" = {}
    for rdt_class, identity in identities(locked.record, resctrl).items():
        place = rdt_class, locked.name_in(rdt_class)
        if identity_at(resctrl, *place) != identity:
            away[identity] = place
    found = _search(resctrl, away, _Node(locked, resctrl, ledger)) if away else {}
    if not found:
        return []
    since = locked.record.get("since", {})
    noted = locked.record["identities"]
    before = {one: (locked.origins[away[one][0]], since.pop(away[one][0], None), noted[away[one][0]]) for one in found}
    locked.forget_groups(*(away[one][0] for one in found))
    for identity, place in found.items():
        former, (origin, began, with_mount) = away[identity], before[identity]
        try:
            present = _keep(locked, resctrl, place, former[1])
        except ResctrlError:
            present = former  # the next pass tries again
        if present is not None:
            locked.note_group(present[0], origin, present[1])
            noted[present[0]] = with_mount
            if began is not None:
                since[present[0]] = began
    return [(away[one], place) for one, place in found.items()]


class _Node:
    """The part of a `Monitor` that names need."""

    def __init__(self, locked: "RecordedGroups", resctrl: "Resctrl", ledger: "Ledger") -> None:
        self.key = locked.key
        self.group_prefix = locked.usual_name[: -len(locked.key)]
        self.resctrl = resctrl
        self.ledger = ledger


def _search(resctrl: "Resctrl", sought: "Collection[str]", node: _Node) -> "dict[str, Place]":
    """Return the places of groups by identity, except of those that another key's record has."""
    found: "dict[str, Place]" = {}
    names = Names(node)
    for rdt_class in ["", *resctrl.classes()]:
        for name in resctrl.groups(rdt_class):
            identity = identity_at(resctrl, rdt_class, name)
            if identity and identity in sought and _is_free(node, names.owner(rdt_class, name), rdt_class, identity):
                found[identity] = rdt_class, name
    return found


def _is_free(node: _Node, owner: str, rdt_class: str, identity: str) -> bool:
    """Return whether no other key owns a group with an identity: by the group's name and by its record."""
    if owner in ("", node.key):
        return True
    known = identities(node.ledger.read_pod(owner) or {"groups": {}}, node.resctrl)
    return known.get(rdt_class, identity) != identity


def _keep(locked: "RecordedGroups", resctrl: "Resctrl", place: "Place", former: str) -> "Place | None":
    """Give a group its key's name unless it has that or its former name; None if the name is taken: it is removed.

    Raises:
        ResctrlError: the kernel refuses.
    """
    rdt_class, name = place
    own = locked.name_in(rdt_class)
    if name == own or (name == former and rdt_class not in locked.origins):
        return place
    if not resctrl.exists(rdt_class, own) and resctrl.move(rdt_class, name, rdt_class, own):
        return rdt_class, own
    resctrl.remove(rdt_class, name)
    return None
