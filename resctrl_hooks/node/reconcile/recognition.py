"""Recognition of groups whose names are not recorded: records of version 0.2, if an upgrade also changed the prefix."""

from ..log import INFO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..container.running import Running
    from ..context import Context
    from ..resctrl.locked_key import LockedKey


def recognize(locked: "LockedKey", context: "Context", rdt_class: str, containers: "Iterable[Running]") -> bool:
    """Record the name of a key's missing group in a class if there is evidence of it; return whether there is.

    The evidence is a group whose name ends in the key, with the init process of one of the key's ``containers`` in it.
    """
    if rdt_class in locked.record.get("names", {}):
        return False
    pids = {one.pid for one in containers if one.key == locked.key}
    for name in context.monitor.resctrl.groups(rdt_class):
        if name.endswith(locked.key) and not pids.isdisjoint(context.monitor.resctrl.tasks(rdt_class, name)):
            locked.note_group(rdt_class, locked.origins[rdt_class], name)
            locked.save()
            context.log(INFO, f"recognized the group of {locked.key}: {name}", stage="reconcile", key=locked.key)
            return True
    return False
