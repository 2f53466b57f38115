"""Recognition of groups whose names are not recorded: records of version 0.2, if an upgrade also changed the prefix."""

from ..errors import HookError
from ..log import INFO
from .groups import Groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..container.running import Running
    from ..context import Context

_PATIENCE = 0.5


def recognized_groups(context: "Context", containers: "list[Running]", *, dry_run: bool) -> Groups:
    """Return the groups that there are, after names were recorded of which there is evidence.

    The evidence is a group in the recorded class whose name ends in the key, with a container's init process in it.
    """
    groups = Groups(context)
    missing: "dict[tuple[str, str], list[int]]" = {}
    for one in containers:
        rdt_class = one.recorded_class
        if rdt_class is not None and not groups.has(rdt_class, one.key):
            missing.setdefault((rdt_class, one.key), []).append(one.pid)
    found = False
    for (rdt_class, key), pids in missing.items() if not dry_run else ():
        names = groups.ending_in(rdt_class, key)
        try:
            found |= bool(names) and _recognize(context, rdt_class, key, names, set(pids))
        except HookError:
            continue  # the next pass tries again
    return Groups(context) if found else groups


def _recognize(context: "Context", rdt_class: str, key: str, names: "list[str]", pids: "set[int]") -> bool:
    with context.monitor.hold(key, _PATIENCE) as locked:
        if rdt_class not in locked.origins or rdt_class in locked.record.get("names", {}):
            return False
        for name in names:
            if not pids.isdisjoint(context.monitor.resctrl.tasks(rdt_class, name)):
                locked.note_group(rdt_class, locked.origins[rdt_class], name)
                locked.save()
                context.log(INFO, f"recognized the group of {key}: {name}", stage="reconcile", key=key)
                return True
    return False
