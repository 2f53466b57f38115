"""What helps a slowed pod: a line for people and, where a command of this node can do it, what that command sets.

A remedy is checked against the facts of the node before it is offered: a limit of the victim's own class would slow the
victim, too, and a processor without memory bandwidth allocation has none.
"""

import re
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
MOST_NAMED = 10
"""Pods that a line names, and a command limits, at most."""
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_SAFE = re.compile(r"[A-Za-z0-9@%+=:,./_-]+")
_OPTIONS = {
    CPU_MAX: "--cpu {}%",
    CPU_WEIGHT: "--cpu-weight {}",
    IO_WEIGHT: "--io-weight {}",
    BFQ_WEIGHT: "--io-weight {}",
    IO_MAX: "--iops {}",
}
"""Those of `limit`, for values of cgroups."""


class Call(NamedTuple):
    """A call of `limit`."""

    keys: "tuple[str, ...]"
    """The pods."""
    option: str
    """Such as ``--cpu 50%``."""


class Limit(NamedTuple):
    """A limit of pods: the command, or why there is none."""

    command: str = ""
    call: "Call | None" = None
    why_not: str = ""
    """The end of a line."""


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
    command: str = ""
    """The call of `resctrl-hook limit` that does it, for a time; empty: that command cannot."""


def _nothing(*_: str) -> "Sequence[str]":
    return ()


def _no_text(*_: object) -> str:
    return ""


def _no_lack(*_: str) -> bool:
    return False


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
    folders: "Callable[[str], Sequence[str]]" = _nothing
    """Returns the folders of a pod's cgroup, or that of a unit."""
    read: "Callable[[str, str], str]" = _no_text
    """Returns the text of a file in a cgroup's folder; empty: there is none."""
    lacks: "Callable[[str, str], bool]" = _no_lack
    """Returns whether a cgroup's folder is there without such a file: its controller is off, or it is of v1."""
    refusal: "Callable[[Sequence[Call]], str]" = _no_text
    """Returns why `limit` refuses the last of some calls, one after the other; empty: it does it."""
    owner: "Callable[[str, str], str]" = _no_text
    """Returns who has changed a value of a pod for a time, by the pod and what is set; empty: it is as declared."""
    lower: "Callable[[str, str, str, str], Sequence[str]]" = _nothing
    """Returns options of `limit` that each lower `MB` or `L3` of pods, the best first, by resource, their class, the
    victim's class and what is needed (`Cause.values`); none: there is no lower value."""

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

    def set_by(self, culprits: "Sequence[Culprit]", sets: str, value: str) -> "tuple[str, str]":
        """Return how a value of these cgroups is set, as the end of a line, and the call of `limit` that does it all.

        Pods are limited by `resctrl-hook limit`, others by systemd where it has a unit for the cgroup, as it would
        restore another program's value. Empty: the cgroup is not known.
        """
        pods = [one.key for one in culprits if not one.outside]
        units = [text for one in culprits if one.outside and (text := command_of(one.key, sets, value))]
        if sets not in _OPTIONS or not pods:
            return ended([*(text for key in pods for text in self._commands(key, sets, value)), *units]), ""
        limit = self.limit(pods, [_OPTIONS[sets].format(value.replace(" ", "="))])
        return (ended([limit.command, *units]) if limit.call else limit.why_not), "" if units else limit.command

    def own(self, sets: str, value: str) -> str:
        """Return the command that sets a value of the victim's cgroup, as the end of a line."""
        return ended(self._commands(self.key, sets, value))

    def _commands(self, key: str, sets: str, value: str) -> "list[str]":
        folders = self.folders(key) if self._has(key, sets) else ()
        return [text for folder in folders if (text := command_of(folder, sets, value))]

    def _has(self, key: str, sets: str) -> bool:
        """Return whether the pod's cgroups are known, and have the file that is set as far as they can be seen."""
        folders = self.folders(key)
        return bool(folders) and not any(self.lacks(folder, file_of(sets)) for folder in folders)

    def limit(self, keys: "Sequence[str]", options: "Sequence[str]", earlier: "Sequence[Call]" = ()) -> Limit:
        """Return the call of `limit` with the first of the options that it accepts for all of some pods.

        Args:
            keys: the pods; if they are too many for a line there is no call.
            options: as `Call.option`; the reason is that of the first one.
            earlier: the calls that come before this one.
        """
        names, why_not = list(map(self._argument, keys)), ""
        for option in options if len(keys) <= MOST_NAMED and all(names) else ():
            call = Call(tuple(keys), option)
            reason = self.refusal([*earlier, call])
            if not reason:
                return Limit(" ".join(["resctrl-hook limit", *names, option]), call)
            why_not = why_not or f"; `limit` refuses: {reason}"
        return Limit(why_not=why_not)

    def _argument(self, key: str) -> str:
        """Return a word of a command line that is one pod only; empty if there is none."""
        name = self.name_of(key)
        name = name if [*self.names.values()].count(name) == 1 else key
        return name if _WORD.fullmatch(name) else ""

    def least(self, keys: "Sequence[str]", file: str) -> "int | None":
        """Return the smallest number in a file of the cgroups of pods; None if one is unknown."""
        texts = [self.read(folder, file) for key in keys for folder in self.folders(key)]
        return min(map(int, texts)) if texts and all(text.isdecimal() for text in texts) else None

    def called(self, keys: "Sequence[str]") -> str:
        """Return the names of pods for a line, the first ones if they are many."""
        more = f" and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""
        return ", ".join(map(self.name_of, keys[:MOST_NAMED])) + more


def ended(commands: "Sequence[str]") -> str:
    """Return commands as the end of a line; empty without one."""
    return f": `{' && '.join(commands)}`" if commands else ""


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


def file_of(sets: str) -> str:
    """Return the file of a cgroup that a remedy sets; empty: it sets a class's values."""
    return _SETTINGS.get(sets, ("", ""))[1]


def command_of(place: str, sets: str, value: str) -> str:
    """Return the command that sets a value of one cgroup: its folder, or its path below the root; empty: no cgroup."""
    setting, file = _SETTINGS[sets]
    unit = place.rpartition("/")[2]
    if unit.endswith(_UNITS):
        return f"systemctl set-property --runtime {_quoted(unit)} {setting.format(value)}"
    if not place.startswith("/") or sets == IO_MAX:  # a device by number
        return ""
    text = f"{int(float(value) * 1000)} 100000" if sets == CPU_MAX else {"infinity": "max"}.get(value, value)
    return f"echo {text} > {_quoted(f'{place}/{file}')}"


def _quoted(word: str) -> str:
    """Return a word as a shell reads it: names of units have backslashes."""
    return word if _SAFE.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'"


def is_unit(key: str) -> bool:
    """Return whether the key of a culprit is the path of a unit of systemd."""
    return key.endswith(_UNITS)


def limitable(culprits: "Sequence[Culprit]") -> "list[Culprit]":
    """Return the culprits that have a cgroup of their own: pods, and systemd's units."""
    return [one for one in culprits if not one.outside or is_unit(one.key)]


def less_for_units(culprits: "Sequence[Culprit]", facts: Facts, sets: str, value: str) -> "Iterator[Remedy]":
    """Yield a command that sets a value of all culprits that are units and no pods."""
    units = [one for one in culprits if one.outside and is_unit(one.key)]
    if units:
        yield Remedy(f"less for {', '.join([one.key for one in units])}{facts.set_by(units, sets, value)[0]}")


class ClassLimit(NamedTuple):
    """The limit of a shared resource by RDT classes: what it sets, and a line for each place of a culprit.

    A line may have ``{rdt_class}``, ``{pods}`` and ``{name}``, the victim.
    """

    sets: str
    now: str
    """By `limit`, which moves the culprits to a class of their own for a time."""
    in_class: str
    in_root: str
    in_own: str
    """In the class of the victim, whose limit would slow the victim, too."""

    def remedies(self, culprits: "Sequence[Culprit]", facts: Facts, wanted: str = "") -> "Iterator[Remedy]":
        """Yield for each class with a culprit what helps now, and what helps for good."""
        own = facts.classes.get(facts.key, "")
        calls: "list[Call]" = []
        for rdt_class, keys in facts.by_class(culprits):
            words = {"rdt_class": rdt_class, "pods": facts.called(keys), "name": facts.name}
            now = self.now.format(**words)
            owner, key = next(((one, key) for key in keys if (one := facts.owner(key, self.sets))), ("", ""))
            if owner:  # the class is that of a limit
                why_not = f"{owner} has limited {facts.name_of(key)} already (`resctrl-hook limits`)"
                yield Remedy(f"{now} than class {rdt_class} has; `limit` refuses: {why_not}", self.sets, pods=keys)
                continue
            limit = facts.limit(keys, facts.lower(self.sets, rdt_class, own, wanted), calls)
            if limit.call:
                calls.append(limit.call)
                yield Remedy(f"{now}{ended([limit.command])}", self.sets, pods=keys, command=limit.command)
            line = self.in_root if not rdt_class else self.in_own if rdt_class == own else self.in_class
            text = f"{'for good, ' if limit.call else ''}{line.format(**words)}{limit.why_not}"
            yield Remedy(text, self.sets, () if rdt_class in ("", own) else (rdt_class,), keys)
