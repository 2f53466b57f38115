"""What helps a slowed pod: a line for people and, where a command of this node can do it, what that command sets.

A remedy is checked against the facts of the node before it is offered: a limit of the victim's own class would slow the
victim, too, and a processor without memory bandwidth allocation has none.
"""

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..case import Culprit

MB, L3, CPU_WEIGHT, CPU_MAX, IO_WEIGHT = "mb", "l3", "cpu-weight", "cpu-max", "io-weight"
BFQ_WEIGHT, IO_MAX, MEMORY_HIGH, MEMORY_MAX = "io-bfq-weight", "io-max", "memory-high", "memory-max"
"""What a remedy sets: values of a class, or of a pod's cgroup."""
OWN_WEIGHT, OWN_MAX = "own-cpu-weight", "own-cpu-max"
"""Of the victim's own cgroup."""
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
    value: float = 0.0
    """What it sets, if a number: CPUs of a limit, operations by second, a weight or its multiple."""


def _no_folders(_: str) -> "Sequence[str]":
    return ()


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
    folders: "Callable[[str], Sequence[str]]" = _no_folders
    """Returns the folders of a pod's cgroup."""

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

    def command(self, culprits: "Sequence[Culprit]", sets: str, value: str) -> str:
        """Return the command that sets a value of these cgroups, of pods or not, as the end of a line.

        It is systemd's where it has a unit for the cgroup, as it would restore another program's value. Empty: the
        cgroup is not known.
        """
        places = [place for one in culprits for place in ([one.key] if one.outside else self.folders(one.key))]
        found = [text for place in places if (text := _command(place, sets, value))]
        return f": `{' && '.join(found)}`" if found else ""

    def called(self, keys: "Sequence[str]") -> str:
        """Return the names of pods for a line."""
        return ", ".join(map(self.name_of, keys))


ELSEWHERE = Remedy("or run one of them on another node")
_UNITS = (".service", ".scope", ".slice")
_SETTINGS = {
    CPU_MAX: ("CPUQuota={0}%", "cpu.max"),
    CPU_WEIGHT: ("CPUWeight={0}", "cpu.weight"),
    IO_WEIGHT: ("IOWeight={0}", "io.weight"),
    BFQ_WEIGHT: ("IOWeight={0}", "io.bfq.weight"),
    IO_MAX: ('IOReadIOPSMax="{0}" IOWriteIOPSMax="{0}"', "io.max"),
    MEMORY_HIGH: ("MemoryHigh={0}", "memory.high"),
    MEMORY_MAX: ("MemoryMax={0}", "memory.max"),
}
"""systemd.resource-control(5): the property, and the file of the cgroup."""


def _command(place: str, sets: str, value: str) -> str:
    """Return the command that sets a value of one cgroup: its folder, or its path below the root; empty: no cgroup."""
    setting, file = _SETTINGS[sets]
    unit = place.rpartition("/")[2]
    if unit.endswith(_UNITS):
        return f"systemctl set-property --runtime {unit} {setting.format(value)}"
    if not place.startswith("/") or sets in (IO_MAX, MEMORY_HIGH):  # a device by number, a part of the memory
        return ""
    return (
        f"echo {int(float(value) * 1000)} 100000 > {place}/{file}"
        if sets == CPU_MAX
        else (f"echo {value} > {place}/{file}")
    )


def limitable(culprits: "Sequence[Culprit]") -> "list[Culprit]":
    """Return the culprits that have a cgroup of their own: pods, and systemd's units."""
    return [one for one in culprits if not one.outside or one.key.endswith(_UNITS)]


def less_for_units(culprits: "Sequence[Culprit]", facts: Facts, sets: str, value: str) -> "Iterator[Remedy]":
    """Yield a command that sets a value of all culprits that are units and no pods."""
    units = [one for one in culprits if one.outside and one.key.endswith(_UNITS)]
    if units:
        yield Remedy(f"less for {', '.join([one.key for one in units])}{facts.command(units, sets, value)}")


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
