"""Memory bandwidth: the victim's memory domain is full of others' traffic, or its cost moves with that traffic.

A pod in another memory domain is never a culprit: only traffic in the victim's own domains is looked at.
"""

from ..constants import BESIDE, LOADED, MORE_LOAD, MORE_MISSES, MORE_TRAFFIC, QUIET_LOAD, SAME_TRAFFIC
from . import cache
from .cause import EXCLUDED, NO_BASELINE, SAME_COST, SUPPORTED, UNKNOWN, Cause
from .culprits import is_moving, named
from .remedy import ELSEWHERE, MB, ClassLimit, Remedy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..case import Case, Culprit
    from .cause import Judged
    from .remedy import Facts

NAME = "memory-bandwidth"
_MOST_LEFT, _LEAST_LEFT, _LEFT = 0.5, 0.1, 0.3
"""What a limit leaves of the culprits' traffic: at most, at least, and where the load is unknown."""
_LEAST_RUN = 0.1  # of the time
_LESS = ClassLimit(
    MB,
    "less memory bandwidth for {pods}",
    "a smaller MB value for class {rdt_class} ({pods}): `rdt.classes.{rdt_class}.MB`, then "
    "`resctrl-hook rdt apply` and `resctrl-hook config apply`",
    "an RDT class with an MB value for {pods}: `rdt.classes` and `rdt.defaults`, then `resctrl-hook rdt apply` and "
    "`resctrl-hook config apply`",
    "another RDT class than that of {name}, with an MB value, for {pods}: `rdt.classes` and `rdt.defaults`, then "
    "`resctrl-hook rdt apply` and `resctrl-hook config apply`",
)


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether memory bandwidth slows the pod, and by whom."""
    if case.verdict.dearer is None:
        return Cause(NAME, UNKNOWN, NO_BASELINE)
    if not case.is_dearer:
        return Cause(NAME, EXCLUDED, SAME_COST)
    if not case.memory:
        return Cause(NAME, EXCLUDED, "it moves nothing to memory")
    load, places = case.load(), case.places
    own = case.mean(lambda use: sum((use.traffic or {}).values())) or 0.0
    if case.beside() < BESIDE * own:
        return Cause(NAME, EXCLUDED, f"its neighbours move almost nothing to {places}")
    if load is not None and load < QUIET_LOAD:
        return Cause(NAME, EXCLUDED, f"{places} is loaded to {load:.0%}")
    beside, before = case.beside(), case.usual("beside")
    if before is not None and beside <= SAME_TRAFFIC * before:
        return Cause(NAME, EXCLUDED, f"its neighbours move as much to {places} as in quiet times")
    if cache.moves_more_by_itself(case, judged):
        return Cause(NAME, UNKNOWN, f"its own work {cache.more_traffic(case)}, which explains the cost, too")
    movers = case.movers()
    if load is not None and load >= LOADED:
        return _supported(case, f"{places} is loaded to {load:.0%}", movers)
    moving = [one for one in movers if is_moving(one.correlation)]
    if (moving or is_moving(case.moves_with_others())) and (case.missed() or 1.0) < MORE_MISSES:
        text = f"the cost of its work moves with others' traffic to {places}"
        return _supported(case, text, moving)
    usual = case.usual("load")
    is_new = load is not None and usual is not None and load >= usual + MORE_LOAD
    if is_new and before is not None and beside >= MORE_TRAFFIC * before and (case.missed() or 1.0) < MORE_MISSES:
        text = f"{places} is loaded to {load:.0%}, in quiet times to {usual:.0%}"
        return _supported(case, text, movers)
    if load is None:
        return Cause(NAME, UNKNOWN, f"the capacity of {places} is unknown (`monitoring.capacity`)")
    return Cause(NAME, UNKNOWN, f"{places} is loaded to {load:.0%}, and no other traffic moves with its cost")


def _supported(case: "Case", text: str, movers: "list[Culprit]") -> Cause:
    """Return the cause with what the culprits may move: their part of now, and bytes per second of one domain."""
    culprits, load, beside = named(movers), case.load(), case.beside()
    moved = sum([one.share for one in culprits if not one.outside]) * beside
    own = case.mean(lambda use: sum((use.traffic or {}).values())) or 0.0
    running = own / min(1.0, max(_LEAST_RUN, case.mean(lambda use: use.cpu) or 1.0))  # while a task of it runs
    # Less traffic by so much that the domain is quiet; a small limit has hardly an effect (Intel delays in few steps).
    excess = beside + running - (beside + own) * QUIET_LOAD / load if load else 0.0
    part = min(_MOST_LEFT, max(_LEAST_LEFT, 1 - excess / moved)) if load and moved else _LEFT
    return Cause(NAME, SUPPORTED, text, culprits, values={MB: f"{part:.2f} {part * moved / len(case.memory):.4g}"})


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield less bandwidth for the culprits."""
    if facts.has_mb:
        limits = list(_LESS.remedies(cause.pods, facts, cause.values.get(MB, "")))
        yield from limits
        if any(one.classes for one in limits):
            yield Remedy("or let the guard do it when it is needed: `rdt.guard`")
            yield Remedy(f"prove it: `resctrl-hook diagnose {facts.name} --experiment`")
    yield from (Remedy(f"run {one.key} at another time, or on another node") for one in cause.pods if one.outside)
    yield ELSEWHERE
