"""The factor of each cause of a higher cost: those of all supported causes multiply to what the cost has risen by.

The cost of a unit of work is its own cycles and those in which it waits for memory: misses by unit of work, times what
a miss takes. Lost cache multiplies the first, full memory the second. Where both act, the rise of the cost is divided
by the logarithms of these two. Misses are counted; the time of one is that of an open queue at the domain's load.
"""

from math import log

from ..constants import MOST_LATENCY
from . import bandwidth, cache, frequency, own_change
from .cause import SUPPORTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..case import Case
    from .cause import Cause

_OF_COST = (bandwidth.NAME, cache.NAME, own_change.NAME)


def with_parts(case: "Case", found: "Sequence[Cause]") -> "list[Cause]":
    """Return the causes with the factors of those that act on the cost."""
    if not case.is_dearer:
        return list(found)
    clock = next((one.factor or 1.0 for one in found if one.cause == frequency.NAME and one.state == SUPPORTED), 1.0)
    rest = max(1.0, (case.verdict.dearer or 1.0) / clock)
    weights = {one.cause: _weight(case, one.cause) for one in found if one.cause in _OF_COST and one.state == SUPPORTED}
    factors = divided(rest, weights)
    return [one._replace(factor=factors.get(one.cause, one.factor)) for one in found]


def divided(whole: float, weights: "Mapping[str, float]") -> "dict[str, float]":
    """Return factors whose product is ``whole``, each by its weight."""
    sum_ = sum(weights.values())
    return {name: whole ** (weight / sum_) for name, weight in weights.items()} if sum_ else {}


def _weight(case: "Case", cause: str) -> float:
    """Return the logarithm of what a cause multiplies."""
    if cause == cache.NAME:
        return log(max(1.01, case.missed() or 1.01))
    return log(min(MOST_LATENCY, 1 / max(0.01, 1 - (case.load() or 0.5))))
