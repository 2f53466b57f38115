"""One read of all counters of the node, each file once, on which `top`, `record` and the metrics are based.

A class's own file is the kernel's sum over its tasks and groups, without parts that have no number (kernel,
resctrl.rst, "Resource monitoring rules"). So a class and its ungrouped tasks have no value while the value of any part
is unknown.
"""

import time
from typing import NamedTuple

from ....core.node.errors import HookError
from ....core.node.host.files import GONE
from ....core.node.names import name_text
from ....core.node.resctrl.absence import has_counters
from ....core.node.resctrl.assignment import Assignments
from ....core.node.resctrl.bandwidth import EVENTS, resource_of
from ....core.node.resctrl.counter_files import read_group
from ....core.node.resctrl.counters import ERROR, INCOMPLETE, UNAVAILABLE, Raw
from ....core.node.resctrl.key_counts import class_of, group_of
from ....core.node.resctrl.layouts import PERF
from ....core.node.resctrl.open_files import OpenFiles
from .cgroups import read_busy, read_used
from .pods import PodCgroups, recorded_pods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ....core.node.context import Context
    from ....core.node.resctrl.counter_totals import Scrape
    from ....core.node.resctrl.counters import Reading, Slot
    from ....core.node.resctrl.filesystem import Resctrl

    Values = dict[str, Raw]
else:
    Values = object
# Values: by path below `mon_data`.


class Files(OpenFiles):
    """What stays open, or known, between snapshots: files of groups, and the places of the pods' cgroups."""

    cgroups: "PodCgroups | None" = None


class Counts(NamedTuple):
    """The values of a group's files, and its folder's identity: a group that is created again has another identity."""

    identity: str
    values: "Values"


class ClassCounts(NamedTuple):
    """An RDT class.

    Attributes:
        identity: the folder of the class; empty if it cannot be read now.
        whole: the class with all of its groups.
        ungrouped: the ungrouped tasks of the class.
        groups: each group's own values, by its identity.
        unknown: by path, the number of groups without a value, if the class or its ungrouped tasks therefore have none.
    """

    identity: str
    whole: "Values"
    ungrouped: "Values"
    groups: "dict[str, Values]"
    unknown: "dict[str, int]"


class Snapshot:
    """All counters of the node at one moment. ``slots`` and ``classes`` are those of resctrl alone.

    Attributes:
        when: in seconds since the boot.
        bandwidth: the resource that counts memory bandwidth.
        slots: the files of each group, by path.
        pods: the readings of each key by class, cumulative ones as totals that never decrease.
        held: by key, the classes in which it has a group now.
        foreign: the foreign groups, by class and name as text (`names.name_text`).
        classes: by name; the root class's is empty.
        rmids: the number of RMIDs in use: one for each group and each class.
        turns: by key, the seconds and bytes of each of the last turns of time-sharing pods.
        is_whole: whether all groups could be read.
        mount: the times of resctrl's folders (`mounts.witnesses`).
        busy: the seconds for which the node's CPUs were busy; None if unknown, as in the past.
    """

    __slots__ = (
        "busy",
        *("bandwidth", "classes", "foreign", "held", "is_whole", "mount", "pods", "rmids", "slots", "turns", "when"),
    )

    def __init__(
        self,
        when: float,
        slots: "dict[str, Slot]",
        pods: "dict[str, list[Reading]] | None" = None,
        held: "dict[str, set[str]] | None" = None,
        foreign: "dict[tuple[str, str], Counts] | None" = None,
        classes: "dict[str, ClassCounts] | None" = None,
        rmids: int = 0,
        turns: "dict[str, list[tuple[float, float]]] | None" = None,
    ) -> None:
        self.when = when
        self.slots = slots
        self.bandwidth = resource_of(slots.values())
        self.pods = {} if pods is None else pods
        self.held = {} if held is None else held
        self.foreign = {} if foreign is None else foreign
        self.classes = {} if classes is None else classes
        self.rmids = rmids
        self.turns = {} if turns is None else turns
        self.is_whole = True
        self.busy: "float | None" = None
        self.mount: "list[str]" = []


def open_files(output: "Callable[[str], None] | None" = None) -> Files:
    """Return files that stay open between snapshots; ``output`` logs a line when not all of them can."""
    return Files(output=output)


def take(context: "Context", files: "Files | None" = None) -> Snapshot:
    """Read everything once. On a node that cannot have monitoring, the recorded pods have no counters of resctrl.

    The ``files`` stay open between snapshots.

    Raises:
        HookError: resctrl should be mounted and is not, or the state directory is unusable.
    """
    if files is None:
        return _with_cgroups(_read_node(context, None), PodCgroups(context), context)
    try:
        found = _read_node(context, files)
    except (HookError, OSError) as error:
        if not files.gives_way_to(error):
            raise
        found = _read_node(context, files)
    finally:
        files.forget_unseen()
    files.cgroups = files.cgroups or PodCgroups(context)
    return _with_cgroups(found, files.cgroups, context)


def _with_cgroups(found: Snapshot, cgroups: PodCgroups, context: "Context") -> Snapshot:
    """Add the counters of the pods' cgroups."""
    for key, readings in found.pods.items():
        readings.extend(read_used(cgroups.of(key), found.when, context.settings.sys_path))
    cgroups.keep(found.pods)
    found.busy = read_busy(context.proc)
    return found


def _read_node(context: "Context", files: "OpenFiles | None") -> Snapshot:
    resctrl = context.monitor.resctrl
    if not has_counters(resctrl):  # first: without resctrl, create nothing
        return Snapshot(time.clock_gettime(time.CLOCK_BOOTTIME), {}, {key: [] for key in recorded_pods(context)})
    counters = context.monitor.read_counters(files)
    held = {key: {*map(class_of, groups)} for key, groups in counters.found.items() if groups}
    slots = {slot.path: slot for slot in counters.slots}
    found = Snapshot(counters.when, slots, counters.readings, held, turns=counters.turns)
    found.mount = counters.mount
    reader = _Reader(resctrl, counters, read_group if files is None else files.read_group)
    assigned = Assignments(resctrl)
    assignable = assigned.enabled()
    for rdt_class, names in counters.listed.items():
        found.rmids += 1 + len(names)
        groups = reader.groups(rdt_class, names)
        found.foreign.update(reader.foreign(rdt_class, names, groups))
        folder = resctrl.class_folder(rdt_class)
        whole = reader.values(folder)
        # The class's count includes a group that was renamed into it meanwhile.
        groups.update(reader.groups(rdt_class, {*resctrl.groups(rdt_class)}.difference(names)))
        lost = sum(group is None for group in groups.values())
        found.is_whole = found.is_whole and not lost and whole is not None
        identity, values = whole or ("", dict.fromkeys(found.slots, ERROR))
        if identity or whole is None:
            states = assigned.of(folder) if assignable else {}
            uncounted = {path for path, slot in found.slots.items() if not _is_assigned(slot, states, assigned)}
            parts = dict(group for group in groups.values() if group is not None)
            found.classes[rdt_class] = _class_of(identity, values, parts, uncounted, found.slots, lost)
    return found


class _Reader:
    """Reads groups that the read of the keys has not read; a group that cannot be read now is None."""

    def __init__(
        self,
        resctrl: "Resctrl",
        counters: "Scrape",
        read: "Callable[[str, list[Slot]], tuple[str, list[Raw]]]",
    ) -> None:
        self._resctrl = resctrl
        self._counters = counters
        self._read = read
        self._paths = [slot.path for slot in counters.slots]
        self._ours = {
            (class_of(source), group_of(source) or counters.names.of(key, source)): group
            for key, groups in counters.found.items()
            for source, group in groups.items()
        }

    def groups(self, rdt_class: str, names: "Iterable[str]") -> "dict[str, tuple[str, Values] | None]":
        """Return the identity and the values of the groups with these names that exist."""
        found: "dict[str, tuple[str, Values] | None]" = {}
        for name in sorted(names):
            ours = self._ours.get((rdt_class, name))
            if ours:
                found[name] = ours[0], dict(zip(self._paths, ours[1]))
                continue
            group = self.values(self._resctrl.group_folder(rdt_class, name))
            if group is None or group[0]:
                found[name] = group
        return found

    def foreign(
        self, rdt_class: str, names: "list[str]", groups: "dict[str, tuple[str, Values] | None]"
    ) -> "dict[tuple[str, str], Counts]":
        """Return the groups of no key, by class and name as text."""
        found = {name: group for name, group in groups.items() if (rdt_class, name) not in self._ours and group}
        own = self._counters.names.found(rdt_class, names, self._counters.readings) if found else {}
        foreign = ((name, group) for name, group in found.items() if name not in own.values())
        return {(rdt_class, name_text(name)): Counts(*group) for name, group in foreign}

    def values(self, folder: str) -> "tuple[str, Values] | None":
        """Return the identity and the values of a group; an empty identity if it was just removed."""
        try:
            identity, values = self._read(folder, self._counters.slots)
        except OSError as error:
            return ("", {}) if error.errno in GONE else None
        return identity, dict(zip(self._paths, values))


def is_known(slot: "Slot", value: "Raw") -> bool:
    """Return whether a value can be added.

    The energy of a package is ``Unavailable`` until a task of the group has run there; it counts as 0.
    """
    return isinstance(value, (int, float)) or (slot.domain.resource == PERF and value == UNAVAILABLE)


def _class_of(
    identity: str,
    whole: "Values",
    groups: "dict[str, Values]",
    uncounted: "set[str]",
    slots: "dict[str, Slot]",
    lost: int,
) -> ClassCounts:
    found = ClassCounts(identity, {}, {}, groups, {})
    for path, value in whole.items():
        if value is None:
            continue
        parts = [values[path] for values in groups.values()]
        unknown = lost + sum(not is_known(slots[path], part) for part in parts)
        if isinstance(value, str):
            found.whole[path] = found.ungrouped[path] = value
            found.unknown[path] = unknown
        elif unknown or path in uncounted:
            found.whole[path] = found.ungrouped[path] = INCOMPLETE
            found.unknown[path] = unknown
        else:
            grouped = sum(part for part in parts if isinstance(part, (int, float)))
            found.whole[path] = value
            found.ungrouped[path] = max(value - grouped, 0)  # groups were read a moment earlier
    return found


def _is_assigned(slot: "Slot", states: "dict[str, dict[int, bool]]", assigned: Assignments) -> bool:
    """Return whether a class's own tasks have a counter, where the kernel assigns them."""
    if not states or slot.counter.name not in EVENTS or not assigned.concerns(slot.domain.resource):
        return True
    return states.get(slot.counter.name, {}).get(slot.domain.id, True)
