"""The CPUs to which each cgroup is entitled on a set of CPUs, by ``cpu.weight`` down the hierarchy. Pure.

Source: kernel, Documentation/admin-guide/cgroup-v2.rst ("Weights", "CPU Interface Files"): a parent's CPU time is
distributed over the active children by the ratio of their weights. What a child does not want goes to the others.
"""

from math import inf
from typing import NamedTuple

from ......core.node.host.cpulist import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


_COMPETES = 0.15
"""The least part of some CPUs that a group wants to compete for them."""


class Group(NamedTuple):
    """A cgroup with its use of CPUs in a window. What it has below it counts only by its children."""

    name: str
    """The key of a pod, or the path below the root of the cgroups."""
    weight: float = 100.0
    limit: float = inf
    """CPUs of ``cpu.max``."""
    cpus: int = 0
    """The CPUs that its tasks may use, as a set; 0: all."""
    used: float = 0.0
    """CPUs in use. Of a group with children: of all of them."""
    wanted: float = 0.0
    """CPUs that it would use alone, at least ``used``."""
    children: "tuple[Group, ...]" = ()


class Share(NamedTuple):
    """One leaf of the hierarchy on a set of CPUs, in CPUs."""

    name: str
    used: float = 0.0
    wanted: float = 0.0
    entitled: float = 0.0
    """What the weights give it, at most ``wanted``."""


def shares_on(groups: "Sequence[Group]", cpus: int, capacity: "float | None" = None) -> "list[Share]":
    """Return the shares of all leaves that may use a set of CPUs.

    Of a leaf that may use other CPUs, too, the part counts that spreads evenly over its CPUs.

    Args:
        groups: the hierarchy below the root.
        cpus: the set.
        capacity: CPUs of the set that tasks can use: less than all if interrupts or a hypervisor take a part.
    """
    root = _Want(Group("", children=tuple(groups)), cpus)
    found: "list[Share]" = []
    root.fill(float(count(cpus)) if capacity is None else capacity, found)
    return found


def mean_share(shares: "Sequence[Share]") -> Share:
    """Return the mean of some shares."""
    number = len(shares)
    return Share(
        shares[0].name,
        sum([one.used for one in shares]) / number,
        sum([one.wanted for one in shares]) / number,
        sum([one.entitled for one in shares]) / number,
    )


def sum_of(name: str, shares: "Sequence[Share]") -> Share:
    """Return the sum of some shares."""
    whole = [sum([getattr(one, field) for one in shares]) for field in Share._fields[1:]]
    return Share(name, *whole)


def cpus_beside(groups: "Sequence[Group]", cpus: int) -> int:
    """Return the CPUs of all leaves that compete for time on a set of CPUs.

    A leaf that hardly uses these CPUs, as far as known, does not extend them: it may use any CPU and be on another.
    """
    found, least = cpus, _COMPETES * count(cpus)
    for one in leaves(groups):
        near = count(one.cpus & cpus)
        if near and one.wanted * near / count(one.cpus) >= least:
            found |= one.cpus
    return found


def leaves(groups: "Sequence[Group]") -> "list[Group]":
    """Return the groups without children."""
    found: "list[Group]" = []
    for one in groups:
        found += leaves(one.children) if one.children else [one]
    return found


class _Want:
    """A group on a set of CPUs, with what it wants there."""

    __slots__ = ("children", "group", "part", "want")

    def __init__(self, group: Group, cpus: int) -> None:
        own = group.cpus or cpus
        near = count(own & cpus)
        self.group = group
        self.part = near / count(own) if near else 0.0
        self.children: "list[_Want]" = [_Want(one, cpus) for one in group.children]
        wanted = sum([one.want for one in self.children]) if self.children else group.wanted * self.part
        self.want: float = min(wanted, group.limit, float(near))

    def fill(self, given: float, found: "list[Share]") -> None:
        """Distribute what the group was given, and add its leaves' shares."""
        given = min(given, self.want)
        if not self.children:
            if self.part:
                used = self.group.used * self.part
                found.append(Share(self.group.name, used, max(used, self.want), given))
            return
        left, weights = given, sum([one.group.weight for one in self.children])
        for one in sorted(self.children, key=lambda child: child.want / child.group.weight):
            part = min(one.want, left * one.group.weight / weights if weights > 0 else left)
            weights -= one.group.weight
            left = max(0.0, left - part)
            one.fill(part, found)
