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
    from ..container.running import Container
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


def count_group(container: "Container", rdt_class: str, locked: "LockedKey", context: "Context") -> str:
    """Return the name of its runtime's group in which a container stays, and let it count for its key; else nothing.

    Raises:
        LedgerError: the record cannot be written.
    """
    own = locked.name_in(rdt_class)
    if group_name(context, own, container.id, rdt_class, asks=container.asks) == own:
        return ""
    set_flag(context.ledger, RUNTIMES, on=True)
    source = source_of(rdt_class, container.id)
    record = locked.record
    if source not in record.get("since", {}):
        _forget_ended(record, locked.members())
        now = round(time.clock_gettime(time.CLOCK_BOOTTIME), 3)
        record.setdefault("since", {})[source] = now if container.born is None else container.born
        record.setdefault("born", record["since"][source])
        resctrl = context.monitor.resctrl
        if container.born is None and resctrl.has_energy():
            keep_baseline(record, source, resctrl.group_folder(rdt_class, container.id))
        locked.save()
    return container.id


def _forget_ended(record: "PodRecord", members: "list[str]") -> None:
    """Drop the groups of ended containers: a container that restarts has a new id each time."""
    for by_source in (record.get("since", {}), record.get("baselines", {})):
        for source in [*by_source]:
            if source != class_of(source) and source.partition("/")[2] not in members:
                del by_source[source]
