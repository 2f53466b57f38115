"""Pure decisions of sharing: the order of service, the pods that yield, and the turns.

All times are seconds of one monotonic clock (CLOCK_MONOTONIC, which all processes of a boot share).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Claim:
    """A pod that holds an RMID or waits for one: its key, its priority, and since when."""

    __slots__ = ("key", "priority", "since")

    def __init__(self, key: str, priority: int, since: float) -> None:
        self.key = key
        self.priority = priority
        self.since = since

    def __repr__(self) -> str:
        return f"Claim({self.key!r}, {self.priority}, {self.since})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Claim) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(self.key)


def queue(waiting: "Iterable[Claim]") -> "list[Claim]":
    """Return waiting pods in the order of service: the highest priority first, among equals the longest waiting."""
    return sorted(waiting, key=lambda claim: (-claim.priority, claim.since, claim.key))


def yielding(holders: "Iterable[Claim]", priority: int, *, in_turns: bool = False) -> "list[Claim]":
    """Return the holders that yield to a pod of this priority, the first one first: lower priorities, never equals.

    Among equals the latest yields or, if equals take turns, the one with the longest turn.
    """
    lower = [claim for claim in holders if claim.priority < priority]
    return sorted(lower, key=lambda claim: (claim.priority, claim.since if in_turns else -claim.since, claim.key))


def may_take(free: "int | None", priority: int, *, reserved: int, above: int, runtimes: int = 0) -> bool:
    """Return whether a pod of this priority may take one of ``free`` RMIDs; None: an unknown number.

    ``reserved`` ones are for priorities above ``above``, and others for container ``runtimes``. Without a number
    nothing can be reserved.
    """
    return free is None or free > runtimes + (0 if priority > above else reserved)


# Quantiles of an exponential distribution with mean 1, at eighths; the last stands for all above.
_QUANTILES = (0.0, 0.134, 0.288, 0.47, 0.693, 0.981, 1.386, 2.079, 4.0)
_SHORTEST = 1 / 3  # of the interval


def gap(interval: float, chance: float) -> float:
    """Return the duration of a round: ``interval`` on average, a third to three times of it by ``chance`` (0 to 1).

    With rounds of equal length, a load in bursts can synchronise with its pod's turns, and is then always counted or
    never. With exponential lengths, the loads of two turns are nearly independent.
    """
    place, part = divmod(chance * (len(_QUANTILES) - 1), 1)
    low, high = _QUANTILES[int(place)], _QUANTILES[min(int(place) + 1, len(_QUANTILES) - 1)]
    return interval * (_SHORTEST + (1 - _SHORTEST) * (low + (high - low) * part))


def spread(interval: float, counted: int, waiting: int) -> float:
    """Return the range in seconds by which the queue is shuffled: two cycles of turns."""
    return 2 * interval * (counted + waiting) / max(counted, 1)


def turns(
    holders: "Iterable[Claim]",
    waiting: "Iterable[Claim]",
    now: float,
    *,
    last: float,
    interval: float,
    at_least: float,
    delay: "Callable[[], float]" = float,
) -> "list[tuple[Claim, Claim]]":
    """Return the handovers that are due: pairs of pods of the same priority, in the order of the queue.

    A round is due ``interval`` seconds after the previous one, ``last``. In a round, as many waiting pods as there
    are holders of their priority get an RMID, from the longest holders first; a pod is in one pair at most. A turn
    never ends before ``at_least`` seconds. ``delay`` returns random seconds by which a waiting pod is moved back in
    the queue.
    """
    if now - last < interval:
        return []
    ripe = sorted(
        (claim for claim in holders if now - claim.since >= at_least), key=lambda claim: (claim.since, claim.key)
    )
    by_priority: "dict[int, list[Claim]]" = {}
    for claim in ripe:
        by_priority.setdefault(claim.priority, []).append(claim)
    waiting = list(waiting)
    known = {claim.key: claim for claim in waiting}
    pairs = []
    for taker in queue(Claim(claim.key, claim.priority, claim.since + delay()) for claim in waiting):
        givers = by_priority.get(taker.priority)
        if givers:
            pairs.append((givers.pop(0), known[taker.key]))
    return pairs
