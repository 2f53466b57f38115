"""The RDT classes in which a key's living containers need a group; a start needs them only if a key waited for one."""

from .feature_table import MONITORING
from .ledger import WAITING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .context import Context
    from .records import MemberRecord
    from .resctrl.locked_key import LockedKey


def stop_waiting(locked: "LockedKey", context: "Context") -> None:
    """Remove the waiting mark of a key that has just got a group, unless a container waits in another class."""
    if needed_classes(locked, locked.members(), context) <= set(locked.origins):
        context.ledger.unmark(WAITING, locked.key)


def needed_classes(locked: "LockedKey", members: "Iterable[str]", context: "Context") -> "set[str]":
    """Return the RDT classes in which the recorded steps of living members need a group of the key."""
    living = [(name, locked.member(name) or {}) for name in members if not locked.member_is_dead(name)]
    return {
        step["needs"]["class"]
        for name, member in living
        for step in member.get("steps", [])
        if step["feature"] == MONITORING
        and not _in_runtimes_group(locked, name, member, step["needs"]["class"], context)
    }


def _in_runtimes_group(
    locked: "LockedKey", name: str, member: "MemberRecord", rdt_class: str, context: "Context"
) -> bool:
    if not member.get("runtimeGroup"):
        return False
    from .sharing.runtimes_group import group_name  # few containers ask for a group of their runtime

    own = locked.name_in(rdt_class)
    return group_name(context, own, name, rdt_class, asks=True) != own
