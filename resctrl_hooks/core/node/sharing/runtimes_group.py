"""A container's group: its pod's, or the one that its runtime has created for it, which is then a part of the pod.

A runtime names its group after the container, moves the init process into it before the hooks, and reads its counters
for its own statistics (runtime-spec, config-linux.md, "intelRdt"). So the tasks stay there, and the pod needs no second
RMID for them.
"""

import time

from ..flags import set_flag
from ..ledger import RUNTIMES
from ..resctrl.energy_baseline import keep_baseline
from ..resctrl.key_counts import class_of, source_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..context import Context
    from ..records import PodRecord
    from ..resctrl.locked_key import LockedKey


def group_name(context: "Context", own: str, container: str, rdt_class: str, *, asks: bool) -> str:
    """Return the name of the group for a container's tasks in a class; the runtime's if it exists.

    Args:
        context: the node.
        own: the name of its key's group in the class (`group.name_of`).
        container: its id.
        rdt_class: the class of its tasks.
        asks: whether its bundle asks its runtime for a group.
    """
    # A group of both names is shared, as every foreign group with the name of ours.
    if not asks or own == container or context.settings.groups["takeOver"]:
        return own
    return container if context.monitor.resctrl.exists(rdt_class, container) else own


def count_group(
    locked: "LockedKey", context: "Context", container: str, rdt_class: str, made: "float | None" = None
) -> None:
    """Record that a runtime's group counts for a key.

    Args:
        locked: the container's key.
        context: the node.
        container: its id, which is the group's name.
        rdt_class: the group's class.
        made: when the group was created, in seconds since the boot; None for just now, before the container runs.

    Raises:
        LedgerError: the record cannot be written.
    """
    set_flag(context.ledger, RUNTIMES, on=True)
    source = source_of(rdt_class, container)
    record = locked.record
    if source in record.get("since", {}):
        return
    _forget_ended(record, locked.members())
    since = round(time.clock_gettime(time.CLOCK_BOOTTIME), 3) if made is None else made
    record.setdefault("born", since)
    record.setdefault("since", {})[source] = since
    resctrl = context.monitor.resctrl
    if made is None and resctrl.has_energy():
        keep_baseline(record, source, resctrl.group_folder(rdt_class, container))
    locked.save()


def _forget_ended(record: "PodRecord", members: "list[str]") -> None:
    """Drop the groups of ended containers: a container that restarts has a new id each time."""
    for kept in (record.get("since", {}), record.get("baselines", {})):
        for source in [*kept]:
            if source != class_of(source) and source.partition("/")[2] not in members:
                del kept[source]
