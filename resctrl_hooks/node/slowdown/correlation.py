"""Whether a neighbour's use moves with a pod's cost, window by window. Pure."""

from math import log, sqrt

from .constants import CHANGES, VARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


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
