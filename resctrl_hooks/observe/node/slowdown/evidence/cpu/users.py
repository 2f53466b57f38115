"""Use of CPUs by pods and by the cgroups beside them, as the tree by which the kernel shares the CPUs."""

from typing import NamedTuple

from ......core.node.host.cpulist import count
from ......core.node.host.files import kernel_text
from ..cgroup_tree import REST
from ..numbers import numbers
from .lost_time import lost_cpus
from .shares import Group, leaves
from .task_delays import allowed_cpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..cgroup_tree import Place
    from ..use import Use
    from .processors import Processor

_MICRO = 1e-6
_ASKED = 4  # processes of a cgroup whose CPUs are read
_LEAST_REST = 0.02  # of the CPUs: ticks are sampled


class Ran(NamedTuple):
    """Seconds so far, of one cgroup."""

    used: float
    some: float = 0.0
    """Some task waited for a CPU."""
    full: "float | None" = None
    throttled: float = 0.0
    cpus: int = 0
    """The CPUs of its first processes; 0: unknown."""


def read_ran(folder: str) -> "Ran | None":
    """Return a cgroup's times; None if it has ended."""
    stat = numbers(f"{folder}/cpu.stat")
    if "usage_usec" not in stat:
        return None
    pressure = numbers(f"{folder}/cpu.pressure")
    full = pressure.get("full")
    cpus = 0
    for pid in kernel_text(f"{folder}/cgroup.procs").split()[:_ASKED]:
        cpus |= allowed_cpus(int(pid)) if pid.isdigit() else 0
    return Ran(
        stat["usage_usec"] * _MICRO,
        pressure.get("some", 0) * _MICRO,
        None if full is None else full * _MICRO,
        stat.get("throttled_usec", 0) * _MICRO,
        cpus,
    )


def groups_between(
    places: "Sequence[Place]",
    ran: "Mapping[str, tuple[Ran | None, Ran | None]]",
    uses: "Mapping[str, Use]",
    processors: "Mapping[int, Processor]",
    seconds: float,
) -> "tuple[Group, ...]":
    """Return the tree with its use of CPUs in a window.

    Args:
        places: the cgroups.
        ran: by path, two readings of each cgroup without a pod.
        uses: the pods' use.
        processors: the CPUs.
        seconds: of the window.
    """
    online = sum([1 << cpu for cpu in processors])
    shares: "dict[str, int]" = {}
    for key in [one.key for one in _all(places) if one.key]:
        shares[key] = shares.get(key, 0) + 1
    groups = tuple([_group(one, ran, uses, shares, online, seconds) for one in places])
    rest = sum([one.tasks for one in processors.values()]) - sum([one.used for one in leaves(groups)])
    if rest < _LEAST_REST * len(processors):
        return groups
    return (*groups, Group(REST, cpus=online, used=rest, wanted=rest))


def _group(
    place: "Place",
    ran: "Mapping[str, tuple[Ran | None, Ran | None]]",
    uses: "Mapping[str, Use]",
    shares: "Mapping[str, int]",
    online: int,
    seconds: float,
) -> Group:
    children = tuple([_group(one, ran, uses, shares, online, seconds) for one in place.children])
    cpus, used, wanted = place.cpus & online or online, 0.0, 0.0
    use = uses.get(place.key)
    if use is not None:
        cpus = use.cpus & cpus or cpus
        used = (use.cpu or 0.0) / shares[place.key]  # of several containers: the tree has no better number
        wanted = used + (use.lost.waited / shares[place.key] if use.lost else 0.0)
    else:
        old, new = ran.get(place.path, (None, None))
        if old is not None and new is not None:
            cpus = new.cpus & cpus or cpus
            used, wanted = _used(old, new, count(cpus), seconds)
    return Group(place.name, place.weight, place.limit, cpus, used, wanted, children)


def _used(old: Ran, new: Ran, cpus: int, seconds: float) -> "tuple[float, float]":
    """Return the CPUs that a cgroup used, and those that it wanted beside others."""
    used, some, throttled = [
        max(0.0, more - less) / seconds
        for more, less in ((new.used, old.used), (new.some, old.some), (new.throttled, old.throttled))
    ]
    full = None if new.full is None or old.full is None else max(0.0, new.full - old.full) / seconds
    return used, used + lost_cpus(used, min(1.0, some), full, None, cpus, throttled)[0]


def _all(places: "Sequence[Place]") -> "list[Place]":
    return [each for one in places for each in (one, *_all(one.children))]
