"""Recognition of groups that are not at their recorded places.

Another program may have renamed them; and records of version 0.2 have no names, if an upgrade also changed the prefix.
"""

from ..log import INFO, WARNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..container.running import Running
    from ..context import Context
    from ..resctrl.locked_key import LockedKey


def find_again(locked: "LockedKey", context: "Context") -> bool:
    """Let groups of a key that another program has renamed be its own again; return whether there were any."""
    found = locked.find_again()
    for (old, name), place in found:
        what = f"another program renamed the group of {locked.key} from {old or 'the root class'}/{name}"
        what = f"{what} to {place[0] or 'the root class'}/{place[1]}"
        context.log(WARNING, f"{what}; it is the pod's group again", stage="reconcile", key=locked.key)
    return bool(found)


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
