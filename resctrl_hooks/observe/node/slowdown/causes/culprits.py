"""Who is named: the smallest set of users that makes most of what all others use."""

from ..constants import ALIKE, CORRELATED, MOST_OF_USE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..case import Culprit


def is_moving(correlation: "float | None") -> bool:
    """Return whether a use moves with the pod's cost."""
    return correlation is not None and correlation >= CORRELATED


def named(others: "Sequence[Culprit]") -> "tuple[Culprit, ...]":
    """Return the culprits of all others with a part, the largest first.

    Where the use of one moves with the cost, another whose use falls meanwhile is only beside it.
    """
    if any(is_moving(one.correlation) for one in others):
        others = [one for one in others if one.correlation is None or one.correlation > -CORRELATED]
    return tuple(smallest_set(others))


def smallest_set(others: "Iterable[Culprit]") -> "list[Culprit]":
    """Return the fewest that together have `MOST_OF_USE`, with those that are like the last of them."""
    found: "list[Culprit]" = []
    parts = 0.0
    for one in sorted(others, key=lambda one: (-one.share, one.key)):
        if parts >= MOST_OF_USE and one.share < ALIKE * found[-1].share:
            break
        found.append(one)
        parts += one.share
    return found
