"""A monitoring group, its origin, and its name."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..records import PodRecord
    from .filesystem import Resctrl

CREATED = "created"
ADOPTED = "adopted"
SHARED = "shared"

PREFIX = "prefix+"
"""Begins the names of the ledger's files with the prefixes of recorded groups (`group_names`)."""


def name_of(record: "PodRecord | None", rdt_class: str, usual: str) -> str:
    """Return the name of a key's group in a class.

    Args:
        record: the key's record; None without one.
        rdt_class: the class.
        usual: the name of a new group, by the present prefix. It is also that of a group whose record has no names, as
            those of version 0.2.
    """
    if record is None or rdt_class not in record.get("groups", ()):
        return usual
    return record.get("names", {}).get(rdt_class, usual)


class Group:
    """A monitoring group.

    Args:
        key: the workload.
        rdt_class: its RDT class, a ctrl_group's name; empty for the root class.
        path: its folder.
        origin: ``created`` by us; ``adopted``, if it was declared as ours later; ``shared``, if it is a foreign group,
            which we never remove.
    """

    __slots__ = ("key", "origin", "path", "rdt_class")

    def __init__(self, key: str, rdt_class: str, path: str, origin: str) -> None:
        self.key = key
        self.rdt_class = rdt_class
        self.path = path
        self.origin = origin

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.rpartition("/")[2]

    @property
    def how(self) -> str:
        """The origin, as version 0.2 calls it."""
        return self.origin

    def __repr__(self) -> str:
        return f"Group(key={self.key!r}, rdt_class={self.rdt_class!r}, path={self.path!r}, origin={self.origin!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and (self.key, self.path) == (other.key, other.path)

    def __hash__(self) -> int:
        return hash((self.key, self.path))


class RecordedGroups:
    """The groups in a key's record.

    Args:
        key: the workload.
        usual_name: the name of a new group.
        resctrl: the mount.
        ledger: the records.
    """

    def __init__(self, key: str, usual_name: str, resctrl: "Resctrl", ledger: "Ledger") -> None:
        self.key = key
        self.usual_name = usual_name
        self._resctrl = resctrl
        self._ledger = ledger
        self.record: "PodRecord" = {"groups": {}}

    @property
    def name(self) -> str:
        """The name of a new group, as version 0.2 calls it."""
        return self.usual_name

    @property
    def origins(self) -> "dict[str, str]":
        """The origins of the key's groups, by RDT class."""
        groups: "dict[str, str]" = self.record["groups"]
        return groups

    @property
    def how(self) -> "dict[str, str]":
        """The origins under their name in version 0.2."""
        return self.origins

    @property
    def limited_to(self) -> "str | None":
        """The class in which the pod is kept for a time; None without one, or if it was removed."""
        name = self.record.get("limitedTo")
        return name if name is not None and self._resctrl.fs.is_folder(self._resctrl.class_folder(name)) else None

    def class_for(self, rdt_class: str) -> str:
        """Return the class for a thread that is in class ``rdt_class``, ``?`` if that is unknown.

        A thread of a pod that is kept in a class for a time belongs there, unless another program has moved it since.
        """
        limited = self.limited_to
        usual = ("?", "", *self.record.get("limitedFrom", {}).values())
        return limited if limited is not None and rdt_class in usual else rdt_class

    def name_in(self, rdt_class: str) -> str:
        """Return the name of the key's group in class ``rdt_class``; without one, the name that a new group gets."""
        return name_of(self.record, rdt_class, self.usual_name)

    def names(self) -> "dict[str, str]":
        """Return the names of the key's groups, by class."""
        return {rdt_class: self.name_in(rdt_class) for rdt_class in self.origins}

    def note_group(self, rdt_class: str, origin: str, name: str = "") -> None:
        """Put a group into the record; the caller saves it.

        Args:
            rdt_class: the group's class.
            origin: its origin.
            name: its name; that of a new group by default.
        """
        name = name or self.usual_name
        if name != self.key:
            from ..flags import set_flag  # most nodes have no prefix

            set_flag(self._ledger, f"{PREFIX}{name[: -len(self.key)]}", on=True)
        self.origins[rdt_class] = origin
        self.record.setdefault("names", {})[rdt_class] = name

    def forget_groups(self, *classes: str) -> None:
        """Drop the groups in these ``classes`` from the record; the caller saves it."""
        known = self.origins, self.record.get("names", {}), self.record.get("identities", {})
        for rdt_class in classes:
            for fields in known:
                fields.pop(rdt_class, None)

    def finish_renaming(self) -> bool:
        """Correct the names of groups that a killed process was renaming; return whether there were any."""
        renaming = self.record.pop("renaming", None)
        for rdt_class, new in (renaming or {}).items():
            there = rdt_class in self.origins and self._resctrl.exists(rdt_class, new)
            if there and not self._resctrl.exists(rdt_class, self.name_in(rdt_class)):
                self.note_group(rdt_class, self.origins[rdt_class], new)
        return renaming is not None

    def group(self, rdt_class: str) -> Group:
        """Return the recorded group in class ``rdt_class``; KeyError without such a group."""
        path = self._resctrl.group_folder(rdt_class, self.name_in(rdt_class))
        return Group(self.key, rdt_class, path, self.origins[rdt_class])

    def groups(self) -> "list[Group]":
        """Return all recorded groups of the key."""
        return [self.group(rdt_class) for rdt_class in sorted(self.origins)]
