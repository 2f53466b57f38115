"""The contest for CPUs in one window: computed once for each set of CPUs, so it costs the same for any number of pods.

Pure.
"""

from typing import NamedTuple

from ......core.node.host.cpulist import count
from ...constants import NAMED_SHARE
from .processors import mean_of
from .shares import Share, cpus_beside, shares_on, sum_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .processors import Processor
    from .shares import Group


class Contest(NamedTuple):
    """All that compete for some CPUs, in CPUs."""

    capacity: float
    """What tasks can use."""
    interrupts: float
    stolen: float
    shares: "Mapping[str, Share]"
    """By pod's key or cgroup's path."""
    whole: Share
    """Their sum."""
    largest: "tuple[Share, ...]"
    """Those that use at least `NAMED_SHARE` of the CPUs."""


class Contests:
    """The contests of one window.

    Args:
        groups: the tree of cgroups.
        processors: the CPUs.
    """

    def __init__(self, groups: "Sequence[Group]", processors: "Mapping[int, Processor]") -> None:
        self._groups = groups
        self._processors = processors
        self._beside: "dict[int, int]" = {}
        self._found: "dict[int, Contest]" = {}
        self._spent: "dict[int, Processor]" = {}

    def spent(self, cpus: int) -> "Processor":
        """Return the mean of the CPUs' time over a set of CPUs; over all for the empty set."""
        found = self._spent.get(cpus)
        if found is None:
            found = self._spent[cpus] = mean_of(self._processors, cpus)
        return found

    def on(self, cpus: int) -> Contest:
        """Return the contest for a set of CPUs, on these and on all others of the cgroups that use them."""
        beside = self._beside.get(cpus)
        if beside is None:
            beside = self._beside[cpus] = cpus_beside(self._groups, cpus)
        found = self._found.get(beside)
        if found is None:
            found = self._found[beside] = self._contest(beside)
        return found

    def _contest(self, cpus: int) -> Contest:
        number, taken = float(count(cpus)), self.spent(cpus)
        interrupts, stolen = taken.interrupts * number, taken.stolen * number
        capacity = max(0.0, number - interrupts - stolen)
        by_name: "dict[str, list[Share]]" = {}
        for one in shares_on(self._groups, cpus, capacity):
            by_name.setdefault(one.name, []).append(one)
        shares = {name: sum_of(name, found) if len(found) > 1 else found[0] for name, found in by_name.items()}
        largest = tuple([one for one in shares.values() if one.used >= NAMED_SHARE * number])
        return Contest(capacity, interrupts, stolen, shares, sum_of("", [*shares.values()]), largest)
