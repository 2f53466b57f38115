"""What the rules of causes look at: one pod in the windows that judge it, and its neighbours' part of its use. Pure."""

from math import log, sqrt
from typing import NamedTuple

from .constants import CHANGES, LEAST_MISSED, SLOWED, TRAFFIC, VARIES
from .quiet import caches_of, memory_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .verdict import Verdict
    from .window import Use, Window


class Culprit(NamedTuple):
    """A pod's part of what others use, and how its use moves with the cost; None: it does not vary."""

    key: str
    share: float
    correlation: "float | None"


class Case:
    """What the rules look at: one pod in the windows that have it at its verdict's grade, whose costs have one unit."""

    def __init__(self, windows: "Sequence[Window]", key: str, verdict: "Verdict") -> None:
        self.key = key
        self.verdict = verdict
        self.windows = [one for one in windows if key in one.uses and one.uses[key].method == verdict.method]
        self.uses = [window.uses[key] for window in self.windows]
        priced = [use for use in self.uses if use.price is not None] or self.uses
        self.memory = sorted({number for use in priced for number in memory_of(use)})
        self.caches = sorted({number for use in priced for number in caches_of(use)})

    @property
    def is_dearer(self) -> bool:
        """Whether the pod's work costs more than in quiet times."""
        return self.verdict.dearer is not None and self.verdict.dearer >= SLOWED

    def mean(self, value: "Callable[[Use], float | None]") -> "float | None":
        """Return the mean of a value over the windows that have it."""
        return mean(value(use) for use in self.uses)

    def load(self) -> "float | None":
        """Return the mean load of the pod's fullest memory domain while its work was dear; None if unknown."""
        dear = self._dear()
        loads = [mean(window.load.get(number) for window in dear) for number in self.memory]
        return max((load for load in loads if load is not None), default=None)

    def missed(self) -> "float | None":
        """Return how much more the pod moves by unit of work than its baseline did; None if unknown."""
        usual = self.verdict.known.mean("missed") if self.verdict.known else None
        now = self.mean(lambda use: use.missed)
        if now is None or usual is None or self.verdict.method == TRAFFIC:
            return None
        return now / max(usual, LEAST_MISSED)

    def others(self, use_of: "Callable[[Use], float]", *, dear: bool = True) -> "list[Culprit]":
        """Return all other pods with a part in something, the largest first."""
        windows = self._dear() if dear else self.windows
        used: "dict[str, float]" = {}
        for window in windows:
            for key, use in window.uses.items():
                if key != self.key:
                    used[key] = used.get(key, 0.0) + use_of(use)
        whole = sum(used.values())
        found = [
            Culprit(key, amount / whole, self._correlation(key, use_of)) for key, amount in used.items() if amount > 0
        ]
        return sorted(found, key=lambda one: -one.share)

    def _correlation(self, key: str, use_of: "Callable[[Use], float]") -> "float | None":
        return correlation(
            [
                (own.price, use_of(window.uses[key]) if key in window.uses else 0.0)
                for window, own in zip(self.windows, self.uses)
                if own.price is not None
            ]
        )

    def _dear(self) -> "list[Window]":
        """Return the windows in which the pod's work cost more than usual; all of them if no window did."""
        known = self.verdict.known
        if known is None:
            return self.windows
        normal = known.quantile(0.5)
        dear = [
            window
            for window, use in zip(self.windows, self.uses)
            if use.price is not None and use.price >= SLOWED * normal
        ]
        return dear or self.windows


def mean(values: "Iterable[float | None]") -> "float | None":
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
