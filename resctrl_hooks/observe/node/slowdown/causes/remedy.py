"""What helps a slowed pod: a line for people and, where a command of this node can do it, what that command sets.

A remedy is checked against the facts of the node before it is offered: a limit of the victim's own class would slow the
victim, too, and a processor without memory bandwidth allocation has none.
"""

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..case import Culprit

MB, L3, CPU_WEIGHT, CPU_MAX, IO_WEIGHT = "mb", "l3", "cpu-weight", "cpu-max", "io-weight"
"""What a remedy sets: values of a class, or of a pod's cgroup."""
NOWHERE = ""
"""Not to be set on this node: another configuration, another node."""


class Remedy(NamedTuple):
    """One remedy."""

    text: str
    sets: str = NOWHERE
    """One of the values above."""
    classes: "tuple[str, ...]" = ()
    """The RDT classes that it limits; empty for the root class."""
    pods: "tuple[str, ...]" = ()
    """The keys of the pods that it limits."""


class Facts(NamedTuple):
    """What decides which remedies can act."""

    key: str
    """The victim."""
    names: "Mapping[str, str]"
    """Of pods by key."""
    classes: "Mapping[str, str]"
    """RDT classes of pods by key; empty for the root class."""
    has_mb: bool = True
    """Whether the node can limit memory bandwidth."""
    has_l3: bool = True
    """Whether it can divide the cache."""

    @property
    def name(self) -> str:
        """The victim's name."""
        return self.name_of(self.key)

    def name_of(self, key: str) -> str:
        """Return a pod's name."""
        return self.names.get(key, key)

    def by_class(self, culprits: "Sequence[Culprit]") -> "Iterator[tuple[str, tuple[str, ...]]]":
        """Yield the classes of the culprits that are pods, with the keys of theirs."""
        found: "dict[str, list[str]]" = {}
        for one in culprits:
            if not one.outside:
                found.setdefault(self.classes.get(one.key, ""), []).append(one.key)
        for name, keys in found.items():
            yield name, tuple(keys)

    def called(self, keys: "Sequence[str]") -> str:
        """Return the names of pods for a line."""
        return ", ".join(map(self.name_of, keys))


ELSEWHERE = Remedy("or run one of them on another node")
_UNITS = (".service", ".scope", ".slice")


def less_for_units(culprits: "Sequence[Culprit]", setting: str) -> "Iterator[Remedy]":
    """Yield a systemd command with a setting for each culprit that is a unit and no pod."""
    for one in culprits:
        unit = one.key.rpartition("/")[2]
        if one.outside and unit.endswith(_UNITS):
            yield Remedy(f"less for {one.key}: `systemctl set-property --runtime {unit} {setting}`")


class ClassLimit(NamedTuple):
    """The limit of a shared resource by RDT classes: what it sets, and a line for each place of a culprit.

    A line may have ``{rdt_class}``, ``{pods}`` and ``{name}``, the victim.
    """

    sets: str
    in_class: str
    in_root: str
    in_own: str
    """In the class of the victim, whose limit would slow the victim, too."""

    def remedies(self, culprits: "Sequence[Culprit]", facts: Facts) -> "Iterator[Remedy]":
        """Yield a remedy for each class with a culprit."""
        for rdt_class, keys in facts.by_class(culprits):
            is_own = rdt_class == facts.classes.get(facts.key, "")
            line = self.in_root if not rdt_class else self.in_own if is_own else self.in_class
            text = line.format(rdt_class=rdt_class, pods=facts.called(keys), name=facts.name)
            yield Remedy(text, self.sets, () if is_own or not rdt_class else (rdt_class,), keys)
