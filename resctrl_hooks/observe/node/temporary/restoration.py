"""The restoration of one change's values, and of the RDT classes that were created for it."""

from ....core.node.errors import HookError
from . import classes, pod_class
from .address import POD, Address, is_same, read, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ....core.node.context import Context
    from ....core.node.resctrl.filesystem import Resctrl
    from ....core.node.restored import Restored
    from .entry import Entry, ValueRecord


def read_any(context: "Context", address: Address) -> "str | None":
    """Return a value as it is now, also of a pod; None if it is gone.

    Raises:
        HookError: it cannot be read, so it is unknown.
    """
    return pod_class.read(context, address.place) if address.kind == POD else read(context.monitor.resctrl, address)


def restore(context: "Context", entry: "Entry", result: "Restored", addresses: "Sequence[Address]" = ()) -> bool:
    """Restore values of one change, or all, the last one first; return whether nothing is left of them."""
    complete = True
    for address in reversed(addresses or list(entry.values)):
        one = entry.values[address]
        try:
            now = read_any(context, address)
            if address.kind == POD:
                _give_back(context, address, one, now, result)
                continue
            if now is None or is_same(address, now, one["before"]):
                continue
            if not entry.is_ours(address, now):
                owner = entry.record["owner"]
                result.foreign.append(f"{address} is {now}, which {owner} did not write; left unchanged")
                continue
            write(context.monitor.resctrl, address, one["before"])
            result.done.append(f"{address}: {now} -> {one['before']}")
        except HookError as error:
            complete = False
            result.failed.append(f"{address}: {error}")
    return complete


def _give_back(context: "Context", address: Address, one: "ValueRecord", now: "str | None", result: "Restored") -> None:
    foreign = pod_class.give_back(context, address.place, one["before"], one["ours"])
    result.foreign += [f"{line}, to which another program has moved it; left unchanged" for line in foreign]
    if not foreign and now not in (None, one["before"]):
        result.done.append(f"{address}: {now} -> {one['before']}")


def has_lost_class(resctrl: "Resctrl", address: Address, one: "ValueRecord") -> bool:
    """Return whether a pod is kept in an RDT class that another program has removed."""
    names = pod_class.names_in(one["ours"][-1]) if address.kind == POD and one["ours"] else ()
    return any(name and not resctrl.fs.is_folder(resctrl.class_folder(name)) for name in names)


def remove_classes(resctrl: "Resctrl", entries: "Mapping[str, Entry]", name: str) -> bool:
    """Remove the classes of a change that no other one uses; return whether they are gone."""
    others = {one for other, entry in entries.items() if other != name for one in entry.record.get("classes", ())}
    made = entries[name].record.get("classes", ())
    left = [one for one in made if one not in others and not classes.remove(resctrl, one)]
    return not left
