"""Puts placements in force: cpusets of containers, so that nobody is ever without CPUs and no CPU has two owners.

Who loses CPUs is written first, who gets them after that. A cgroup's file holds at once; systemd's properties, which
keep it over a daemon-reload, follow as long as there is time, and reconcile tells the rest.
"""

import time

from ...errors import HookError
from ...host.cgroup import CgroupError, folders_for, read_value, write_value
from ...host.cpulist import count, format_list, parse_list
from ...host.files import is_folder
from ...log import WARNING
from .allocations import lock, note_untold, take_untold
from .policy import PlacementError
from .usage import effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...context import Context
    from ...host.cgroup import Leaf
    from .allocations import Book
    from .entries import Entry
    from .usage import Usage

CPUS, MEMS = "cpuset.cpus", "cpuset.mems"
_EFFECTIVE = "cpuset.cpus.effective"
_SHARE_OF_DEADLINE = 0.3  # of the hook's deadline is what telling systemd about others may take
_SHARE_AT_A_TIME = 0.1  # of it is what reconcile keeps others from the lock
_BREATH = 0.05  # seconds, in which any hook that waits for the lock has it


def follow(book: "Book", context: "Context", but: str = "", *, grow: bool, checked: bool = False) -> "list[Entry]":
    """Write the cpusets of all containers whose set has become another, and return those that were written.

    With ``grow`` false only those that lose CPUs are written, so that these are free before anybody gets them. With
    ``checked`` what the cgroup says now counts, not what we believe. ``but`` is the one that comes later.

    Raises:
        HookError: a living container's cpuset can't be written.
    """
    usage = book.usage()
    done: "list[Entry]" = []
    lists: "dict[int, str]" = {}  # most of those to be written share a few sets
    todo: "list[tuple[Entry, int]]" = []
    for place in book.places.values():
        wanted = effective(place.decision, usage)
        if checked or book.unsure:
            for entry in place.entries().values():
                entry.applied = _have(entry)
        todo += [(entry, wanted) for entry in place.unlike(wanted) if entry.id != but]
    todo.sort(key=lambda pair: not pair[0].applied & ~pair[1])  # losers first, within one pass too
    for entry, wanted in todo:
        have = entry.applied
        if not grow and have and not have & ~wanted:
            continue
        if wanted not in lists:
            lists[wanted] = format_list(wanted)
        if _write(entry, lists[wanted]):
            entry.applied = wanted
            done.append(entry)
    return done


def settle_in(entry: "Entry", leaf: "Leaf", usage: "Usage", context: "Context") -> None:
    """Put a container's own placement in force, and look that the kernel really gives it those CPUs.

    Raises:
        PlacementError: a cgroup above has fewer CPUs than it needs.
        HookError: its cpuset can't be written.
    """
    wanted = effective(entry.decision, usage)
    mems = entry.decision.mems
    if leaf.own_scope:
        from ...cgroup_settings.told import tell_own  # only where systemd manages the container

        nodes = {"AllowedMemoryNodes": format_list(mems)} if mems else {}
        tell_own(leaf, {"AllowedCPUs": format_list(wanted), **nodes}, context, container=entry.id)
    if not _write(entry, format_list(wanted), format_list(mems)):
        raise CgroupError(f"cgroup {entry.folder} is gone: the container has ended")
    entry.applied = wanted
    found = read_value(entry.folder, _EFFECTIVE)
    if found and parse_list(found) != wanted:
        lost = format_list(wanted & ~parse_list(found))
        if entry.decision.owned & wanted & ~parse_list(found) or not count(wanted & parse_list(found)):
            raise PlacementError(
                f"the kernel gives the container CPUs {found}, not {format_list(wanted)}",
                hint="a cgroup above it has a cpuset of its own: see cpuset.cpus.effective of each",
            )
        context.log(WARNING, f"a cgroup above container {entry.id[:12]} does not let it have CPUs {lost}")


def _tell(entry: "Entry", cpus: int, context: "Context") -> None:
    """Tell systemd of a scope's CPUs, so that a daemon-reload keeps them."""
    if entry.unit:
        from ...cgroup_settings.told import tell  # only where systemd manages the container

        tell(entry.unit, {"AllowedCPUs": format_list(cpus)}, context, container=entry.id)


def tell_others(entries: "list[Entry]", context: "Context") -> None:
    """Tell systemd of the cpusets that were written, as many as there is time for; reconcile tells the rest."""
    end = time.monotonic() + context.settings.deadline * _SHARE_OF_DEADLINE
    for entry in entries:
        if entry.unit and time.monotonic() > end:
            note_untold(context)
            context.ledger.wake()
            return
        _tell(entry, entry.applied, context)


def to_tell(book: "Book", changed: "list[Entry]", context: "Context") -> "list[Entry]":
    """Whom `tell_all` is to tell systemd of: those that were written, or all if a hook had no time for some."""
    late = take_untold(context)
    return [entry for entry in (book.entries.values() if late else changed) if entry.unit]


def tell_all(entries: "list[Entry]", context: "Context") -> None:
    """Tell systemd of the cpusets of all of these; for reconcile, without the lock.

    That may take long, so hooks get the lock in between: what is told is what the cgroup says just then.

    Raises:
        HookError: there was no end of it; the next reconcile tells them all.
    """
    left = entries[::-1]
    try:
        while left:
            with lock(context):
                end = time.monotonic() + context.settings.deadline * _SHARE_AT_A_TIME
                while left:
                    entry = left.pop()
                    cpus = _have(entry)
                    if cpus:  # else it has ended
                        _tell(entry, cpus, context)
                    if time.monotonic() > end:
                        break
            if left:
                time.sleep(_BREATH)
    except Exception:
        note_untold(context)
        raise


def _write(entry: "Entry", cpus: str, mems: str = "") -> bool:
    """Write a container's cpuset; False if its cgroup is gone.

    Raises:
        CgroupError: the kernel refuses.
    """
    values = {CPUS: cpus, **({MEMS: mems} if mems else {})}
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
    """What a container's cgroup says now."""
    folder = folders_for(CPUS, entry.folder, entry.scope)[-1]
    try:
        return parse_list(read_value(folder, CPUS))
    except ValueError:
        return 0
