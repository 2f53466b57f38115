"""One read of the node's counters, of which `top`, `record` and the metrics are views; each file is read once.

A class's own file is the kernel's sum over the class's tasks and groups (kernel, resctrl.rst, "Resource monitoring
rules"). Where a part has no number the kernel leaves it out and reports the others' sum, so that sum is not the class.
One rule for all views: while the value of any part is unknown, the class has no value, nor have its ungrouped tasks.
"""

import resource
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from resctrl_hooks.node.context import Context
from resctrl_hooks.node.resctrl.assignment import EVENTS, Assignments
from resctrl_hooks.node.resctrl.counter_files import OpenFiles, read_group
from resctrl_hooks.node.resctrl.counters import INCOMPLETE, L3, PERF, UNAVAILABLE, Reading, Slot

_OTHER_FILES = 128  # that a process needs besides
Raw = int | float | str | None
"""A number, a word that says why there is none, or None where there is no such file."""
Values = dict[str, Raw]
"""By path below ``mon_data``."""


@dataclass(slots=True)
class Counts:
    """What a group's files say, and which folder that is: a group that is created again has another identity."""

    identity: str
    values: Values


@dataclass(slots=True)
class ClassCounts:
    """An RDT class.

    Attributes:
        identity: which folder the class has.
        whole: the class with all of its groups.
        ungrouped: the tasks of the class that are in no group.
        groups: what each group says itself, by its identity.
        unknown: by path, how many groups have no number, where the class has none for that or for its own tasks.
    """

    identity: str
    whole: Values
    ungrouped: Values
    groups: dict[str, Values]
    unknown: dict[str, int]


@dataclass(slots=True)
class Snapshot:
    """All counters of the node at one moment.

    Attributes:
        when: in seconds since the boot.
        slots: the files of each group, by path.
        pods: the readings of each key by class, cumulative ones as totals that never go back.
        held: by key, the classes in which it has a group now.
        foreign: the groups that other programs created, by class and name.
        classes: by name; the root class's is empty.
        rmids: how many RMIDs are in use: one for each group and each class.
        turns: by key, the seconds and bytes of each of the last turns of those that take turns.
    """

    when: float
    slots: dict[str, Slot]
    pods: dict[str, list[Reading]] = field(default_factory=dict)
    held: dict[str, set[str]] = field(default_factory=dict)
    foreign: dict[tuple[str, str], Counts] = field(default_factory=dict)
    classes: dict[str, ClassCounts] = field(default_factory=dict)
    rmids: int = 0
    turns: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def open_files() -> OpenFiles:
    """Return files to look again and again with: as many as this process may have open, less some for all else."""
    return OpenFiles(max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_FILES, 0))


def take(context: Context, files: OpenFiles | None = None) -> Snapshot:
    """Read everything once.

    Args:
        context: what the node is read with.
        files: those that are kept open from look to look.

    Raises:
        HookError: there is no resctrl, or the state directory can't be used.
    """
    resctrl = context.monitor.resctrl
    resctrl.classes()  # first of all: where there is no resctrl, nothing is to be created for it
    look = context.monitor.look(files)
    read = read_group if files is None else files.read_group
    paths = [slot.path for slot in look.slots]
    found = Snapshot(look.when, dict(zip(paths, look.slots, strict=True)), look.readings, turns=look.turns)
    prefix = context.monitor.group_prefix
    ours = {(rdt_class, prefix + key): group for (rdt_class, key), group in look.groups.items()}
    for rdt_class, key in look.groups:
        found.held.setdefault(key, set()).add(rdt_class)
    assigned = Assignments(resctrl)
    assignable = assigned.enabled()
    for rdt_class, names in look.listed.items():
        groups: dict[str, Values] = {}
        found.rmids += 1 + len(names)
        for name in sorted(names):
            identity, values = ours.get((rdt_class, name)) or _read(
                read, resctrl.group_folder(rdt_class, name), look.slots
            )
            if identity:
                groups[identity] = dict(zip(paths, values, strict=True))
                if (rdt_class, name) not in ours:
                    found.foreign[rdt_class, name] = Counts(identity, groups[identity])
        folder = resctrl.class_folder(rdt_class)
        identity, values = _read(read, folder, look.slots)
        if identity:
            states = assigned.of(folder) if assignable else {}
            uncounted = {path for path, slot in found.slots.items() if not _is_assigned(slot, states)}
            whole = dict(zip(paths, values, strict=True))
            found.classes[rdt_class] = _class_of(identity, whole, groups, uncounted, found.slots)
    if files is not None:
        files.forget_unseen()
    return found


def in_domain(snapshot: Snapshot, folder: str) -> Snapshot:
    """Return what a snapshot has of one domain, such as ``mon_L3_01``, as if the node had no other."""
    slots = {path: slot for path, slot in snapshot.slots.items() if _is_in(slot.domain.folder, folder)}

    def values(found: Values) -> Values:
        return {path: value for path, value in found.items() if path in slots}

    def of_class(found: ClassCounts) -> ClassCounts:
        groups = {identity: values(group) for identity, group in found.groups.items()}
        unknown = {path: number for path, number in found.unknown.items() if path in slots}
        return ClassCounts(found.identity, values(found.whole), values(found.ungrouped), groups, unknown)

    return replace(
        snapshot,
        slots=slots,
        pods={
            key: [reading for reading in readings if _is_in(reading.domain.folder, folder)]
            for key, readings in snapshot.pods.items()
        },
        foreign={name: Counts(one.identity, values(one.values)) for name, one in snapshot.foreign.items()},
        classes={name: of_class(found) for name, found in snapshot.classes.items()},
    )


def _is_in(folder: str, domain: str) -> bool:
    return folder == domain or folder.startswith(f"{domain}/")


def is_known(slot: Slot, value: Raw) -> bool:
    """Return whether a value is one that can be added up.

    Energy of a package is ``Unavailable`` until a task of the group has run there: what was used until then is nothing.
    """
    return isinstance(value, (int, float)) or (slot.domain.resource == PERF and value == UNAVAILABLE)


def _class_of(
    identity: str, whole: Values, groups: dict[str, Values], uncounted: set[str], slots: dict[str, Slot]
) -> ClassCounts:
    found = ClassCounts(identity, {}, {}, groups, {})
    for path, value in whole.items():
        if value is None:
            continue
        parts = [values[path] for values in groups.values()]
        unknown = sum(not is_known(slots[path], part) for part in parts)
        if isinstance(value, str):
            found.whole[path] = found.ungrouped[path] = value
            found.unknown[path] = unknown
        elif unknown or path in uncounted:
            found.whole[path] = found.ungrouped[path] = INCOMPLETE
            found.unknown[path] = unknown
        else:
            grouped = sum(part for part in parts if isinstance(part, (int, float)))
            found.whole[path] = value
            found.ungrouped[path] = max(value - grouped, 0)  # the groups were read a moment before
    return found


def _is_assigned(slot: Slot, states: dict[str, dict[int, bool]]) -> bool:
    """Return whether a class's own tasks have a counter, where the kernel assigns them."""
    if slot.domain.resource != L3 or slot.counter.name not in EVENTS:
        return True
    return states.get(slot.counter.name, {}).get(slot.domain.id, True)


def _read(
    read: Callable[[str, list[Slot]], tuple[str, list[Raw]]], folder: str, slots: list[Slot]
) -> tuple[str, list[Raw]]:
    """Return a group's identity and what its files say; an empty identity for one that was removed a moment ago."""
    try:
        return read(folder, slots)
    except OSError:
        return "", []
