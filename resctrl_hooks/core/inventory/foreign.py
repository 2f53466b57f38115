"""Groups by their own names: those of other programs, which have no record, and those of pods."""

from collections.abc import Iterator
from typing import NamedTuple

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.host.files import GONE
from resctrl_hooks.core.node.names import name_text, valid_class
from resctrl_hooks.core.node.resctrl.counter_files import layout, read_group
from resctrl_hooks.core.node.resctrl.counters import AVAILABLE, Reading, Slot
from resctrl_hooks.core.node.resctrl.filesystem import MON_GROUPS
from resctrl_hooks.core.node.resctrl.group_names import Names
from resctrl_hooks.core.node.resctrl.rmids import groups_by_class

from .base import class_text, group_name
from .creators import creator_of
from .models import Group


class GroupName(NamedTuple):
    """A mon_group: its class, empty for the root class, and its name in the kernel."""

    rdt_class: str
    group: str

    @property
    def text(self) -> str:
        """Its name as text."""
        return name_text(self.group)

    @property
    def shown(self) -> str:
        """The name that `list` prints if it is foreign: its folder below resctrl's root."""
        return group_name(self.rdt_class, self.text)


def groups_of_node(context: Context) -> Iterator[tuple[GroupName, str]]:
    """Yield all mon_groups, each with the key of its pod, which is empty for a foreign one.

    Raises:
        HookError: resctrl or the state directory is unreadable.
    """
    resctrl, names, ledger = context.monitor.resctrl, Names(context.monitor), context.ledger
    for rdt_class, groups in sorted(groups_by_class(resctrl).items()):
        usable = not rdt_class or valid_class(rdt_class)
        for group in sorted(groups):
            # A runtime names a group after its container.
            key = names.owner(rdt_class, group) or ledger.key_of(group) if usable else ""
            yield GroupName(rdt_class, group), key


def groups_named(context: Context, what: str) -> list[tuple[GroupName, str]]:
    """Return the groups with this name, as `groups_of_node` does: in the form of `list`, as text, or as bytes.

    Raises:
        HookError: as above.
    """
    groups = list(groups_of_node(context))
    for name in (what, name_text(what)):
        if found := [one for one in groups if name in (one[0].shown, one[0].text)]:
            return found
    return []


def foreign_group(context: Context, found: GroupName, *, by_runtime: bool) -> Group:
    """Return a foreign group with its tasks, and whether it still exists; a container runtime may have created it."""
    fs, root, folder = context.monitor.resctrl.fs, context.monitor.resctrl.root, _folder(context, found)
    try:
        there = fs.is_folder(folder)
        tasks = len({*fs.read(f"{folder}/tasks").split()}) if there else 0
    except OSError as error:
        there, tasks = there and error.errno in GONE, 0
    return Group(
        rdt_class=class_text(found.rdt_class),
        name=found.text,
        path=f"{root}/{found.shown}",
        origin="foreign" if there else "missing",
        tasks=tasks,
        creator=creator_of(found.group, by_runtime=by_runtime).name,
    )


def readings_of(context: Context, found: GroupName) -> list[Reading]:
    """Return the counters of a foreign group, without any if it cannot be read now. Their times are unknown."""
    folder = _folder(context, found)
    slots = layout(f"{folder}/mon_data")
    try:
        _, values = read_group(folder, slots)
    except OSError:
        return []
    return [
        reading_of(slot, value, class_text(found.rdt_class))
        for slot, value in zip(slots, values, strict=True)
        if value is not None
    ]


def reading_of(slot: Slot, value: float | str, rdt_class: str) -> Reading:
    """Return a counter of a foreign group from its value or state."""
    if isinstance(value, str):
        return Reading(slot.domain, slot.counter, None, value, rdt_class)
    return Reading(slot.domain, slot.counter, value, AVAILABLE, rdt_class)


def _folder(context: Context, found: GroupName) -> str:
    return "/".join([context.monitor.resctrl.root, *filter(None, [found.rdt_class]), MON_GROUPS, found.group])
