"""The last-level cache: the pod misses it more often by unit of work than in quiet times, and others hold its lines."""

from ..constants import LESS_CACHE, MORE_MISSES, NEIGHBOURS_CACHE
from .cause import EXCLUDED, NO_BASELINE, SAME_COST, SUPPORTED, UNKNOWN, Cause
from .culprits import named
from .remedy import ELSEWHERE, L3, ClassLimit, Remedy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..case import Case
    from .cause import Judged
    from .remedy import Facts

NAME = "l3-cache"
_FEWER_WAYS = ClassLimit(
    L3,
    "fewer L3 ways for {pods}",
    "fewer L3 ways for class {rdt_class} ({pods}): `rdt.classes.{rdt_class}.L3`, then "
    "`resctrl-hook rdt apply` and `resctrl-hook config apply`",
    "an RDT class with few L3 ways for {pods}: `rdt.classes` and `rdt.defaults`, then `resctrl-hook rdt apply` and "
    "`resctrl-hook config apply`",
    "another RDT class than that of {name}, with few L3 ways, for {pods}: `rdt.classes` and `rdt.defaults`, then "
    "`resctrl-hook rdt apply` and `resctrl-hook config apply`",
)


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether others took the pod's part of the cache."""
    if case.verdict.dearer is None:
        return Cause(NAME, UNKNOWN, NO_BASELINE)
    if not case.is_dearer:
        return Cause(NAME, EXCLUDED, SAME_COST)
    more = case.missed()
    if more is None:
        return Cause(NAME, UNKNOWN, "its cache misses are not counted by unit of work")
    text = f"it misses the cache {_times(more)} as often as in quiet times"
    if more < MORE_MISSES:
        return Cause(NAME, EXCLUDED, text)
    held = case.held_beside()
    usual = case.usual("occupancy")
    now = case.mean(lambda use: sum(use.occupancy.values()))
    less = now / usual if now is not None and usual else None
    if not any(use.occupancy for use in case.uses):
        return Cause(NAME, UNKNOWN, f"{text}, and what each pod holds of the L3 is not counted")
    if held >= NEIGHBOURS_CACHE or (less is not None and less < LESS_CACHE and held > 0):
        return Cause(NAME, SUPPORTED, f"{text}, and its neighbours hold {held:.0%} of its L3", named(case.holders()))
    return Cause(NAME, EXCLUDED, f"its neighbours hold {held:.0%} of its L3")


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield fewer ways for the culprits, or ways of its own for the victim."""
    if facts.has_l3:
        yield from _FEWER_WAYS.remedies(cause.pods, facts)
        yield Remedy(f"or exclusive L3 ways for {facts.name}: `rdt.classes` with `exclusive: true`", L3)
    yield ELSEWHERE


def moves_more_by_itself(case: "Case", judged: "Judged") -> bool:
    """Return whether the pod moves more by unit of work, and no pod took its cache: contention does not do that."""
    return judged[NAME].state == EXCLUDED and (case.missed() or 1.0) >= MORE_MISSES


def more_traffic(case: "Case") -> str:
    """Return how much more it moves, in words."""
    return f"moves {_times(case.missed() or 1.0)} as much to memory as the same work in quiet times"


def _times(factor: float) -> str:
    return f"{factor:.{1 if factor < 10 else 0}f} times"  # noqa: PLR2004  # digits that matter
