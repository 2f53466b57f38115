"""A monitoring group, and its origin."""

CREATED = "created"
ADOPTED = "adopted"
SHARED = "shared"


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
    def how(self) -> str:
        """The origin, as version 0.2 calls it."""
        return self.origin

    def __repr__(self) -> str:
        return f"Group(key={self.key!r}, rdt_class={self.rdt_class!r}, path={self.path!r}, origin={self.origin!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and (self.key, self.path) == (other.key, other.path)

    def __hash__(self) -> int:
        return hash((self.key, self.path))
