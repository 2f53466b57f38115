"""The decisions of sharing, without any effect: who is served first, who yields to whom, whose turn it is.

All times are seconds of one clock that never goes back (CLOCK_MONOTONIC, which all processes of a boot share).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Claim:
    """A pod that holds an RMID or waits for one: its key, its priority, and since when it holds or waits."""

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
    """Those who wait, as they are served: the highest priority first, among equals who has waited longest."""
    return sorted(waiting, key=lambda claim: (-claim.priority, claim.since, claim.key))


def yielding(holders: "Iterable[Claim]", priority: int, *, in_turns: bool = False) -> "list[Claim]":
    """The holders who yield to a pod of this priority, the first to yield first: those of lower priority, never equals.

    Among equals the last to come yields, or where equals take turns the one whose turn has lasted longest.
    """
    lower = [claim for claim in holders if claim.priority < priority]
    return sorted(lower, key=lambda claim: (claim.priority, claim.since if in_turns else -claim.since, claim.key))


def may_take(free: int, priority: int, *, reserved: int, above: int) -> bool:
    """Whether a pod of this priority may have one of ``free`` RMIDs, of which ``reserved`` are for those above one."""
    return free > (0 if priority > above else reserved)


def turns(
    holders: "Iterable[Claim]",
    waiting: "Iterable[Claim]",
    now: float,
    *,
    last: float,
    interval: float,
    at_least: float,
) -> "list[tuple[Claim, Claim]]":
    """Who hands on to whom now: pairs of equals, each in one pair at most, in the order of the queue.

    Every ``interval`` seconds there is a round (``last`` was the one before); in a round as many waiting pods as there
    are holders of their priority get a turn, from those who have held longest, and nobody's turn ends before it has
    lasted ``at_least`` seconds.
    """
    if now - last < interval:
        return []
    ripe = sorted(
        (claim for claim in holders if now - claim.since >= at_least), key=lambda claim: (claim.since, claim.key)
    )
    by_priority: "dict[int, list[Claim]]" = {}
    for claim in ripe:
        by_priority.setdefault(claim.priority, []).append(claim)
    pairs = []
    for taker in queue(waiting):
        givers = by_priority.get(taker.priority)
        if givers:
            pairs.append((givers.pop(0), taker))
    return pairs
