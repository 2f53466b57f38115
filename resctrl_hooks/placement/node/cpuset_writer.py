"""Writing of cpusets in an order in which no container is without CPUs and no exclusive CPU has two users.

Containers that lose CPUs are written first. A cgroup's file takes effect at once; systemd's properties, which keep it
over a daemon-reload, follow as time allows, and reconcile sends the rest.
"""

import time

from ...core.node.errors import HookError
from ...core.node.flags import set_flag
from ...core.node.host.cgroup import CgroupError, folders_for, read_value, write_value
from ...core.node.host.cpulist import count, format_list, parse_list
from ...core.node.host.files import is_folder
from ...core.node.log import WARNING
from .allocations import lock
from .policy import PlacementError
from .usage import effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...core.node.context import Context
    from ...core.node.host.cgroup import Leaf
    from .allocations import Book
    from .entries import Entry
    from .usage import Usage

CPUS, MEMS = "cpuset.cpus", "cpuset.mems"
UNSENT = "placement.untold"
"""The flag that some updates of AllowedCPUs= are pending."""
_EFFECTIVE = "cpuset.cpus.effective"
_SHARE_OF_DEADLINE = 0.3  # maximum part of the hook's deadline for sending other containers' cpusets to systemd
_SHARE_AT_A_TIME = 0.1  # part of it for which reconcile holds the lock
_BREATH = 0.05  # seconds, enough for any waiting hook to get the lock


def follow(book: "Book", context: "Context", but: str = "", *, grow: bool, checked: bool = False) -> "list[Entry]":
    """Write the changed cpusets of all containers, and return the written ones.

    With ``grow`` false only those that lose CPUs are written, so that these are free before another container gets
    them. ``checked`` compares with the cgroup's current value, not with the recorded one. ``but`` is the container that
    comes later.

    Raises:
        HookError: a living container's cpuset cannot be written.
    """
    done: "list[Entry]" = []
    lists: "dict[int, str]" = {}  # most of them share a few sets
    sets = book.sets()
    if checked or book.unsure:
        for entry in book.entries.values():
            entry.applied = _have(entry)
    todo = [(entry, sets[entry.decision]) for entry in book.entries.values() if entry.id != but]
    todo = [(entry, cpus) for entry, cpus in todo if entry.applied != cpus]
    todo.sort(key=lambda pair: not pair[0].applied & ~pair[1])  # losers first, within one pass too
    for entry, cpus in todo:
        have = entry.applied
        if not grow and have and not have & ~cpus:
            continue
        if cpus not in lists:
            lists[cpus] = format_list(cpus)
        # One without CPUs was to be placed when its hook was killed, so its memory nodes are missing, too.
        if _write(entry, lists[cpus], "" if have else format_list(entry.decision.mems)):
            entry.applied = cpus
            done.append(entry)
    return done


def settle_in(entry: "Entry", leaf: "Leaf", usage: "Usage", context: "Context") -> None:
    """Apply a container's own placement, and verify that the kernel grants the CPUs.

    Raises:
        PlacementError: a parent cgroup has too few CPUs.
        HookError: its cpuset cannot be written.
    """
    cpus = effective(entry.decision, usage)
    mems = entry.decision.mems
    if leaf.own_scope:
        from ...core.node.cgroup_settings.systemd_properties import send_own  # only where systemd manages the container

        nodes = {"AllowedMemoryNodes": format_list(mems)} if mems else {}
        send_own(leaf, {"AllowedCPUs": format_list(cpus), **nodes}, context, container=entry.id)
    if not _write(entry, format_list(cpus), format_list(mems)):
        raise CgroupError(f"cgroup {entry.folder} no longer exists: the container has ended")
    entry.applied = cpus
    found = read_value(entry.folder, _EFFECTIVE)
    if found and parse_list(found) != cpus:
        lost = format_list(cpus & ~parse_list(found))
        if entry.decision.owned & cpus & ~parse_list(found) or not count(cpus & parse_list(found)):
            raise PlacementError(
                f"the kernel set the container's CPUs to {found} instead of {format_list(cpus)}",
                hint="a parent cgroup has its own cpuset: see cpuset.cpus.effective of each",
            )
        context.log(WARNING, f"a parent cgroup of container {entry.id[:12]} does not allow CPUs {lost}")


def _send(entry: "Entry", cpus: int, context: "Context") -> None:
    """Send a scope's CPUs to systemd, so that a daemon-reload keeps them."""
    if entry.unit:
        from ...core.node.cgroup_settings.systemd_properties import send  # only where systemd manages the container

        send(entry.unit, {"AllowedCPUs": format_list(cpus)}, context, container=entry.id)


def send_others(entries: "list[Entry]", context: "Context") -> None:
    """Send the written cpusets to systemd, as many as time allows; reconcile sends the rest."""
    end = time.monotonic() + context.settings.deadline * _SHARE_OF_DEADLINE
    for entry in entries:
        if entry.unit and time.monotonic() > end:
            set_flag(context.ledger, UNSENT, on=True)
            context.ledger.wake()
            return
        _send(entry, entry.applied, context)


def to_send(book: "Book", changed: "list[Entry]", context: "Context") -> "list[Entry]":
    """Return the containers for `send_all`: the written ones, or all if a hook ran out of time."""
    late = set_flag(context.ledger, UNSENT, on=False)
    return [entry for entry in (book.entries.values() if late else changed) if entry.unit]


def send_all(entries: "list[Entry]", context: "Context") -> None:
    """Send the cpusets of all these to systemd; for reconcile, without the lock.

    This may take long, so hooks get the lock in between; each value is read from the cgroup just before.

    Raises:
        HookError: changes did not end; the next reconcile sends all of them.
    """
    left = entries[::-1]
    try:
        while left:
            with lock(context):
                end = time.monotonic() + context.settings.deadline * _SHARE_AT_A_TIME
                while left:
                    entry = left.pop()
                    cpus = _have(entry)
                    if cpus:  # otherwise it has ended
                        _send(entry, cpus, context)
                    if time.monotonic() > end:
                        break
            if left:
                time.sleep(_BREATH)
    except Exception:
        set_flag(context.ledger, UNSENT, on=True)
        raise


def _write(entry: "Entry", cpus: str, mems: str = "") -> bool:
    """Write a container's cpuset; False if its cgroup is gone.

    Raises:
        CgroupError: the kernel refuses.
    """
    # The CPUs come last: reconcile looks at them alone, so that after a kill both are written again.
    values = {**({MEMS: mems} if mems else {}), CPUS: cpus}
    for name, value in values.items():
        try:
            for folder in folders_for(name, entry.folder, entry.scope):
                if folder == entry.folder or read_value(folder, name) != value:
                    write_value(folder, name, value)
        except HookError:
            if not is_folder(entry.folder):
                return False
            raise
    return True


def _have(entry: "Entry") -> int:
    """Return the cgroup's current values."""
    folder = folders_for(CPUS, entry.folder, entry.scope)[-1]
    try:
        return parse_list(read_value(folder, CPUS))
    except ValueError:
        return 0
