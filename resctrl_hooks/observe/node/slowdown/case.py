"""The input of the rules of causes: one pod in the windows that judge it, and its neighbours' part of its use. Pure."""

from functools import cached_property
from math import log, sqrt
from typing import NamedTuple

from .constants import CHANGES, LEAST_MISSED, MOST_OF_USE, NAMED_SHARE, SLOWED, TRAFFIC, VARIES
from .evidence.cgroup_tree import REST
from .evidence.cpu.shares import leaves
from .evidence.neighbours import held_by, moved_by, shares_cpus
from .units import WallPart, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .evidence.neighbours import Total
    from .evidence.use import Use
    from .evidence.window import Window
    from .verdict import Verdict

_NEARLY = 0.999 * NAMED_SHARE  # sums are rounded
OUTSIDE, SMALL = "tasks outside pods", "pods with less than"


class Culprit(NamedTuple):
    """A part of what all others use, and how that use moves with the cost; None: it does not vary."""

    key: str
    """The pod's; of others their name."""
    share: float
    correlation: "float | None"
    outside: bool = False
    """Whether it is no pod."""


class Case:
    """The input of the rules: one pod in the windows that have it at its verdict's grade, whose costs have one unit.

    ``is_advised`` is whether somebody reads the remedies: their values can cost more than the verdict.
    """

    def __init__(self, windows: "Sequence[Window]", key: str, verdict: "Verdict", *, is_advised: bool = True) -> None:
        self.key = key
        self.is_advised = is_advised
        self.verdict = verdict
        self.windows = [one for one in windows if key in one.uses and one.uses[key].method == verdict.method]
        self.uses = [window.uses[key] for window in self.windows]
        self.prices = [use.price for use in self.uses]
        priced = [one.together for one, price in zip(self.windows, self.prices) if price is not None]
        priced = priced or [one.together for one in self.windows]
        self.memory = tuple(sorted(set[int]().union(*[one.memory[key] for one in priced])))
        self.caches = tuple(sorted(set[int]().union(*[one.caches[key] for one in priced])))

    @property
    def places(self) -> str:
        """The memory domains of its traffic, in words."""
        return f"memory domain{'s' if len(self.memory) > 1 else ''} {', '.join(map(str, self.memory))}"

    @property
    def is_dearer(self) -> bool:
        """Whether the pod's work costs more than in quiet times."""
        return self.verdict.dearer is not None and self.verdict.dearer >= SLOWED

    def mean(self, value: "Callable[[Use], float | None]") -> "float | None":
        """Return the mean of a value over the windows that have it."""
        return mean([value(use) for use in self.uses])

    def part(self, value: "Callable[[Use], WallPart | None]") -> "WallPart | None":
        """Return the mean of a part of the time over the windows that have it."""
        found = mean([plain(value(use)) for use in self.uses])
        return None if found is None else WallPart(found)

    def usual(self, name: str) -> "float | None":
        """Return one of the baseline's means for the same work; None if unknown."""
        return self.verdict.known.mean(name) if self.verdict.known else None

    def load(self) -> "float | None":
        """Return the mean load of the pod's fullest memory domain while its work was dear; None if unknown."""
        loads = [self.windows[place].load for place in self._dear]
        means = [mean([load.get(number) for load in loads]) for number in self.memory]
        return max((load for load in means if load is not None), default=None)

    def missed(self) -> "float | None":
        """Return how much more the pod moves by unit of work than its baseline did; None if unknown."""
        usual = self.usual("missed")
        now = self.mean(lambda use: use.missed)
        if now is None or usual is None or self.verdict.method == TRAFFIC:
            return None
        return now / max(usual, LEAST_MISSED)

    def beside(self) -> float:
        """Return the mean of the bytes per second that others, pods or not, move to the pod's memory."""
        whole = [window.together.carried_to(self.memory) for window in self.windows]
        return mean([all_ - own for all_, own in zip(whole, self._moved)]) or 0.0

    def held_beside(self) -> float:
        """Return the other pods' part of what pods hold in the pod's L3."""
        whole = mean([window.together.held_in(self.caches).whole for window in self.windows]) or 0.0
        own = mean([held_by(use, self.caches) for use in self.uses]) or 0.0
        return (whole - own) / whole if whole else 0.0

    def movers(self) -> "list[Culprit]":
        """Return those who move most to the pod's memory while its work is dear, as parts of all foreign traffic."""
        totals = [window.together.moved_to(self.memory) for window in self.windows]
        carried = [window.together.carried_to(self.memory) for window in self.windows]
        outside = [max(0.0, all_ - pods.whole) for all_, pods in zip(carried, totals)]
        found = self._others(self._dear, totals, self._moved, lambda use: moved_by(use, self.memory), outside)
        return [one._replace(key=self._service()) if one.key == OUTSIDE else one for one in found]

    def _service(self) -> str:
        """Return the cgroup that runs most of what runs outside pods; `OUTSIDE` if none does, or it is unknown.

        The kernel counts the traffic of all tasks outside pods together.
        """
        used: "dict[str, float]" = {}
        for window in self.windows:
            for leaf in leaves(window.node.groups or ()):
                if leaf.name not in window.uses:
                    used[leaf.name] = used.get(leaf.name, 0.0) + leaf.used
        name = max(used, key=lambda one: (used[one], one), default=REST)
        return name if name != REST and used[name] >= MOST_OF_USE * sum(used.values()) else OUTSIDE

    def moves_with_others(self) -> "float | None":
        """Return the correlation of the cost with all foreign traffic to the pod's memory."""
        whole = [window.together.carried_to(self.memory) for window in self.windows]
        return self._correlation([all_ - own for all_, own in zip(whole, self._moved)])

    def holders(self) -> "list[Culprit]":
        """Return the pods that hold most of the pod's L3 while its work is dear."""
        totals = [window.together.held_in(self.caches) for window in self.windows]
        own = [held_by(use, self.caches) for use in self.uses]
        return self._others(self._dear, totals, own, lambda use: held_by(use, self.caches))

    def runners(self) -> "list[Culprit]":
        """Return the pods that use the pod's CPUs most."""
        cpus = next((use.cpus for use in reversed(self.uses) if use.cpus), 0)

        def used(use: "Use") -> float:
            return (use.cpu or 0.0) if shares_cpus(use.cpus, cpus) else 0.0

        totals = [window.together.ran_on(cpus) for window in self.windows]
        return self._others(range(len(self.windows)), totals, [used(use) for use in self.uses], used)

    def _others(
        self,
        places: "Sequence[int]",
        totals: "Sequence[Total]",
        own: "Sequence[float]",
        use_of: "Callable[[Use], float]",
        outside: "Sequence[float]" = (),
    ) -> "list[Culprit]":
        """Return the others with at least `NAMED_SHARE` of what all others use, the largest first.

        Such a pod has that part in one of the windows at least, so it is among the largest there. Smaller ones are one
        entry where they are most of it.

        Args:
            places: of the windows that decide about the parts.
            totals: the use of all pods, in each window.
            own: the pod's use, in each window.
            use_of: returns the same use of another pod.
            outside: the use outside pods, in each window; empty: it is not counted.
        """
        outside = outside or [0.0] * len(self.windows)
        pods = sum([totals[place].whole - own[place] for place in places])
        whole = pods + sum([outside[place] for place in places])
        candidates: "set[str]" = set()
        for place in places:
            for part, key in totals[place].largest:
                if part < _NEARLY * (totals[place].whole - own[place] + outside[place]):
                    break
                candidates.add(key)
        found = []
        for key in candidates - {self.key}:
            used = [use_of(one.uses[key]) if key in one.uses else 0.0 for one in self.windows]
            part = sum([used[place] for place in places])
            if part > 0 and part >= NAMED_SHARE * whole:
                found.append(Culprit(key, part / whole, self._correlation(used)))
        beside = (whole - pods) / whole if whole else 0.0
        small = 1 - beside - sum(one.share for one in found)
        if whole and small >= MOST_OF_USE:
            found.append(Culprit(f"{SMALL} {NAMED_SHARE:.0%} each", small, None, outside=True))
        if beside >= NAMED_SHARE:
            found.append(Culprit(OUTSIDE, beside, self._correlation(outside), outside=True))
        return sorted(found, key=lambda one: (-one.share, one.key))

    def _correlation(self, used: "Sequence[float]") -> "float | None":
        return correlation([(price, part) for price, part in zip(self._rises, used) if price is not None])

    @cached_property
    def _moved(self) -> "list[float]":
        """The bytes per second that the pod moves to its memory, in each window."""
        return [moved_by(use, self.memory) for use in self.uses]

    @cached_property
    def _rises(self) -> "list[float | None]":
        """The cost of the pod's work by that of the same work in quiet times, or its cost alone without a baseline."""
        known = self.verdict.known
        if known is None:
            return self.prices
        found = [(use, window.seconds) for use, window in zip(self.uses, self.windows)]
        return [None if use.price is None else use.price / known.price(use, seconds) for use, seconds in found]

    @cached_property
    def _dear(self) -> "Sequence[int]":
        """The places of the windows in which the pod's work cost more than usual; of all windows if it did in none."""
        if self.verdict.known is None:
            return range(len(self.windows))
        dear = [place for place, rise in enumerate(self._rises) if rise is not None and rise >= SLOWED]
        return dear or range(len(self.windows))


def mean(values: "Sequence[float | None]") -> "float | None":
    """Return the mean of the known values; None without one."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def correlation(pairs: "Sequence[tuple[float, float]]") -> "float | None":
    """Return Pearson's correlation of the cost's logarithm with a use, from pairs of both at the same time.

    None with fewer than `CHANGES` changes, or where one of them hardly varies: noise correlates with anything.
    """
    if len(pairs) <= CHANGES or any(price <= 0 for price, _ in pairs):
        return None
    costs, uses = [log(price) for price, _ in pairs], [use for _, use in pairs]
    cost_mean, use_mean = sum(costs) / len(costs), sum(uses) / len(uses)
    cost_spread = sqrt(sum((cost - cost_mean) ** 2 for cost in costs) / len(costs))
    use_spread = sqrt(sum((use - use_mean) ** 2 for use in uses) / len(uses))
    if cost_spread < VARIES or use_spread < VARIES * use_mean or use_spread == 0:
        return None
    together = sum((cost - cost_mean) * (use - use_mean) for cost, use in zip(costs, uses)) / len(costs)
    return together / (cost_spread * use_spread)
