"""The factor of each cause: those of all supported causes multiply to the ratio.

Those of waiting are the time that each makes the work longer by. Those of the cost multiply to what it has risen by.

The cost of a unit of work is its own cycles and those in which it waits for memory: misses by unit of work, times what
a miss takes. Lost cache multiplies the first, full memory the second. Where both act, the rise of the cost is divided
by the logarithms of these two. Misses are counted; the time of one is that of an open queue at the domain's load.
"""

from math import log

from ..constants import MOST_LATENCY
from . import bandwidth, cache, cpu, cpu_limit, disk, frequency, memory, own_change, reclaim
from .cause import SUPPORTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..case import Case
    from .cause import Cause

_OF_COST = (bandwidth.NAME, cache.NAME, own_change.NAME)
_OF_WAITING = {
    cpu_limit.NAME: "limit",
    cpu.NAME: "cpu",
    memory.NAME: "memory",
    reclaim.NAME: "memory",
    disk.NAME: "disk",
}
"""By cause, its part of `Waiting`."""


def with_parts(case: "Case", found: "Sequence[Cause]") -> "list[Cause]":
    """Return the causes with the factors of those that are supported."""
    waits = case.verdict.waiting.factors()
    found = [_waited(one, waits) for one in found]
    if not case.is_dearer:
        return found
    clock = next((one.factor or 1.0 for one in found if one.cause == frequency.NAME and one.state == SUPPORTED), 1.0)
    rest = max(1.0, (case.verdict.dearer or 1.0) / clock)
    weights = {one.cause: _weight(case, one.cause) for one in found if one.cause in _OF_COST and one.state == SUPPORTED}
    factors = divided(rest, weights)
    return [one._replace(factor=factors.get(one.cause, one.factor)) for one in found]


def _waited(cause: "Cause", waits: "Mapping[str, float]") -> "Cause":
    name = _OF_WAITING.get(cause.cause)
    if not name or cause.state != SUPPORTED:
        return cause
    return cause._replace(factor=waits[name] * (cause.factor or 1.0))  # a hypervisor's time is not in the waits


def divided(whole: float, weights: "Mapping[str, float]") -> "dict[str, float]":
    """Return factors whose product is ``whole``, each by its weight."""
    sum_ = sum(weights.values())
    return {name: whole ** (weight / sum_) for name, weight in weights.items()} if sum_ else {}


def _weight(case: "Case", cause: str) -> float:
    """Return the logarithm of what a cause multiplies."""
    if cause == cache.NAME:
        return log(max(1.01, case.missed() or 1.01))
    return log(min(MOST_LATENCY, 1 / max(0.01, 1 - (case.load() or 0.5))))
