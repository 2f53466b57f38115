"""What a pod would get of its CPUs if others had less weight or a limit, or if it had more weight. Pure.

The worst case is computed: the others want all of the pod's CPUs all the time. So a value that suffices here suffices
for any pattern of their work.
"""

from math import ceil
from typing import NamedTuple

from ......core.node.host.cpulist import count
from .shares import leaves, shares_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .shares import Group

GOAL = 1.1
"""The ratio that a value is to reach: below that of a slowed pod."""
_LEAST = 0.01
"""CPUs: the smallest limit."""
_STEPS = 10  # of halving a range
_MOST_WEIGHT = 10_000.0  # kernel: cpu.weight
_NEARLY = 0.1  # CPUs
_AS_GOOD = 1.02


class Enough(NamedTuple):
    """A value, and the ratio that it reaches at most."""

    value: float
    ratio: float


class WhatIf:
    """A pod on its CPUs beside others.

    Args:
        groups: the tree of cgroups with their use.
        key: the pod.
        names: the others that want all of its CPUs.
        cpus: the pod's, as a set.
        capacity: of these, in CPUs.
        wanted: CPUs that the pod wants, on average.
    """

    def __init__(
        self, groups: "Sequence[Group]", key: str, names: "Collection[str]", cpus: int, capacity: float, wanted: float
    ) -> None:
        self._groups, self._key, self._names, self._cpus = groups, key, names, cpus
        self._capacity = capacity
        # A pod that rests wants whole CPUs while it does not.
        self._wanted = min(capacity, max(1.0, wanted, float(ceil(wanted - _NEARLY))))

    def limit(self) -> "Enough | None":
        """Return the largest limit of each other one, in CPUs, and the ratio of the pod with it.

        None if it is above what each of them uses now, as of tasks that are bound to CPUs without a cpuset.
        """
        low, high = _LEAST, max(_LEAST, self._capacity)
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._ratio(limit=middle) <= GOAL else (low, middle)
        used = [one.used for one in leaves(self._groups) if one.name in self._names]
        return Enough(low, self._ratio(limit=low)) if low < max(used, default=0.0) else None

    def less_weight(self) -> "Enough | None":
        """Return the largest part of its weight for each other one; None if the pod's own group is not above theirs."""
        for power in range(1, 14):
            ratio = self._ratio(weight=0.5**power)
            if ratio <= GOAL:
                return Enough(0.5**power, ratio)
        return None

    def more_weight(self) -> "Enough | None":
        """Return the smallest multiple of the pod's own weight that reaches the goal, or comes as near as any.

        None if a larger weight leaves more than half of the slowdown.
        """
        found = [Enough(2.0**power, self._ratio(own=2.0**power)) for power in range(1, 14)]
        best = min(one.ratio for one in found)
        if best > GOAL and best - 1 > (self._ratio() - 1) / 2:
            return None
        return next(one for one in found if one.ratio <= max(GOAL, _AS_GOOD * best))

    def _ratio(self, limit: "float | None" = None, weight: float = 1.0, own: float = 1.0) -> float:
        tree = [self._changed(one, limit, weight, own) for one in self._groups]
        given = sum([one.entitled for one in shares_on(tree, self._cpus, self._capacity) if one.name == self._key])
        return self._wanted / given if given > 0 else float("inf")

    def _changed(self, group: "Group", limit: "float | None", weight: float, own: float) -> "Group":
        if group.children:
            return group._replace(children=tuple([self._changed(one, limit, weight, own) for one in group.children]))
        if group.name == self._key:
            heavier = min(_MOST_WEIGHT, group.weight * own)
            return group._replace(weight=heavier, cpus=self._cpus, used=0.0, wanted=self._wanted)
        if group.name not in self._names:
            return group
        near = (group.cpus or self._cpus) & self._cpus
        least = group.limit if limit is None else min(limit, group.limit)
        return group._replace(
            weight=max(1.0, group.weight * weight), cpus=near, limit=least, wanted=float(count(near)) if near else 0.0
        )
