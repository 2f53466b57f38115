"""Puts placements in force: cpusets of containers, so that nobody is ever without CPUs and no CPU has two owners.

Who loses CPUs is written first, who gets them after that. A cgroup's file holds at once; systemd's properties, which
keep it over a daemon-reload, follow as long as there is time, and reconcile tells the rest.
"""

import time

from .cgroup import CgroupError, read_value, write_value
from .cpusets import count, format_list, parse_list
from .errors import DeadlineError, HookError
from .files import is_folder
from .log import WARNING
from .policy import PlacementError, effective

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .placement_book import Book, Entry
    from .policy import Usage
    from .steps import Node

CPUS, MEMS = "cpuset.cpus", "cpuset.mems"
_EFFECTIVE = "cpuset.cpus.effective"
_SHARE_OF_DEADLINE = 0.3  # of the hook's deadline is what telling systemd about others may take


def follow(book: "Book", node: "Node", but: str = "", *, grow: bool, checked: bool = False) -> "list[Entry]":
    """Writes the cpusets of all containers whose set has become another, and returns those that were written.

    With ``grow`` false only those that lose CPUs are written, so that these are free before anybody gets them. With
    ``checked`` what the cgroup says now counts, not what we believe. ``but`` is the one that comes later.

    Raises:
        HookError: a living container's cpuset can't be written.
    """
    usage = book.usage()
    done = []
    todo = [(entry, effective(entry.decision, usage)) for entry in book.entries.values() if entry.id != but]
    # Losers first, within one pass too.
    todo.sort(key=lambda pair: not pair[0].applied & ~pair[1])
    for entry, wanted in todo:
        have = _have(entry) if checked else entry.applied
        if have == wanted or (not grow and have and not have & ~wanted):
            continue
        if _write(entry, wanted):
            entry.applied = wanted
            done.append(entry)
    return done


def settle_in(entry: "Entry", usage: "Usage", node: "Node") -> None:
    """Puts a container's own placement in force, and looks that the kernel really gives it those CPUs.

    Raises:
        PlacementError: a cgroup above has fewer CPUs than it needs.
        HookError: its cpuset can't be written.
    """
    wanted = effective(entry.decision, usage)
    mems = entry.decision.mems
    tell(entry, wanted, mems, node)
    if not _write(entry, wanted, mems):
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
        node.log(WARNING, f"a cgroup above container {entry.id[:12]} does not let it have CPUs {lost}")


def tell(entry: "Entry", wanted: int, mems: int, node: "Node") -> bool:
    """Tells systemd of a scope's cpuset, so that a daemon-reload keeps it; says whether it did."""
    if not entry.unit or entry.told == wanted:
        return False
    from .units import available, set_properties  # only where systemd manages the container

    if not available(node.settings):
        return False
    values = {"AllowedCPUs": format_list(wanted)}
    if mems:
        values["AllowedMemoryNodes"] = format_list(mems)
    try:
        set_properties(entry.unit, values)
    except DeadlineError:
        raise
    except HookError as error:
        node.log(WARNING, f"{error}; its CPUs hold only until the next systemctl daemon-reload", container=entry.id)
        return False
    entry.told = wanted
    return True


def tell_others(entries: "list[Entry]", node: "Node", *, bounded: bool = True) -> int:
    """Tells systemd of the cpusets that were written, as many as there is time for; reconcile does the rest."""
    end = time.monotonic() + node.settings.deadline * _SHARE_OF_DEADLINE
    told = 0
    for entry in entries:
        if bounded and time.monotonic() > end:
            node.ledger.wake()
            break
        told += tell(entry, entry.applied, 0, node)
    return told


def _write(entry: "Entry", cpus: int, mems: int = 0) -> bool:
    """Writes a container's cpuset; False if its cgroup is gone.

    Raises:
        CgroupError: the kernel refuses.
    """
    values = {CPUS: format_list(cpus), **({MEMS: format_list(mems)} if mems else {})}
    below = entry.unit_folder and entry.unit_folder != entry.folder
    for name, value in values.items():
        try:
            if below and read_value(entry.unit_folder, name) != value and is_folder(entry.unit_folder):
                write_value(entry.unit_folder, name, value)
            # crun's processes are a level below the scope, where the controller need not be enabled.
            if below and not read_value(entry.folder, f"{name}.effective"):
                continue
            write_value(entry.folder, name, value)
        except HookError:
            if not is_folder(entry.folder):
                return False
            raise
    return True


def _have(entry: "Entry") -> int:
    """What a container's cgroup says now."""
    folder = entry.folder
    if entry.unit_folder and not read_value(folder, f"{CPUS}.effective"):
        folder = entry.unit_folder
    try:
        return parse_list(read_value(folder, CPUS))
    except ValueError:
        return 0
