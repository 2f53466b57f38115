"""Reclaim: the pod waits for memory because the node lacks some, or the cgroup above it, and not for its own limit.

Who takes memory in is named: its growth, and what was reclaimed from it meanwhile (`reclaim.py`).
"""

from ..case import Culprit
from ..constants import BESIDE, WAITED
from . import memory
from .cause import EXCLUDED, SUPPORTED, UNKNOWN, Cause
from .culprits import smallest_set
from .remedy import ELSEWHERE, MEMORY_HIGH, MOST_NAMED, Remedy, command_of, ended, is_unit, less_for_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..case import Case
    from .cause import Judged
    from .remedy import Facts

NAME = "memory-reclaim"
_FEW = "10%"
"""Of the node's memory: a culprit with more of it reclaims its own."""


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether others' need of memory slows the pod."""
    part = memory.waited(case)
    if part is None:
        return Cause(NAME, UNKNOWN, "the kernel counts no memory pressure of its cgroup")
    text = f"it waited for memory for {part:.0%} of the time"
    if part < WAITED:
        return Cause(NAME, EXCLUDED, text)
    nodes = [window.node for window in case.windows if window.node.memory is not None]
    if not nodes:
        return Cause(NAME, UNKNOWN, f"{text}; `memory.stat` was not read")
    limits = sorted({path for one in nodes for path, number in one.limits.items() if number})
    if sum([one.scanned or 0 for one in nodes]):
        text = f"{text}; the node reclaims memory"
    elif judged[memory.NAME].state == SUPPORTED:
        return Cause(NAME, EXCLUDED, f"{text}, for its own limit")
    elif limits:
        text = f"{text}; {', '.join(limits)} reached its limit"
    else:
        return Cause(NAME, UNKNOWN, f"{text}; neither the node nor a cgroup above it reclaims memory")
    taken: "dict[str, float]" = {}
    again: "dict[str, float]" = {}
    for one in nodes:
        for name, found in (one.memory or {}).items():
            taken[name] = taken.get(name, 0.0) + found.taken
            again[name] = again.get(name, 0.0) + found.refaulted
    own = taken.pop(case.key, 0.0)
    beside = sum(taken.values())
    if beside < BESIDE * own:
        return Cause(NAME, EXCLUDED, f"{text}; what the pod takes in is its own")
    # What a cgroup only reads again was taken from it: it suffers, too. Where all do that, there is too much of them.
    new = {name: max(0.0, part - again[name]) for name, part in taken.items()}
    parts = new if sum(new.values()) >= BESIDE * beside else taken
    beside = sum(parts.values())
    pods = {key for window in case.windows for key in window.uses}
    culprits = [Culprit(name, part / beside, None, outside=name not in pods) for name, part in parts.items() if part]
    return Cause(NAME, SUPPORTED, f"{text}{memory.bound(case)}", tuple(smallest_set(culprits)))


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield less memory for the culprits, protected memory for the victim."""
    keys = tuple([one.key for one in cause.pods if not one.outside])
    if keys:
        text = f"a smaller memory limit for {facts.called(keys)} (`resources.limits.memory`, or `memory.high`)"
        yield Remedy(f"{text}{_half(keys[:MOST_NAMED], facts)}", MEMORY_HIGH, pods=keys)
    units = [one.key for one in cause.pods if one.outside and is_unit(one.key)]
    if how := _half(units, facts):
        yield Remedy(f"less for {', '.join(units)}{how}")
    else:
        yield from less_for_units(cause.pods, facts, MEMORY_HIGH, _FEW)
    yield Remedy(f"or protected memory for {facts.name}: a memory class with `memory.low` (`classes`)")
    yield ELSEWHERE


def _half(keys: "Sequence[str]", facts: "Facts") -> str:
    """Return the commands that leave cgroups half of their memory, as the end of a line; empty: it is unknown.

    No more than now would leave the victim as it is: what they have taken stays theirs.
    """
    now = {place: facts.read(place, "memory.current") for key in keys for place in facts.folders(key)}
    commands = [command_of(place, MEMORY_HIGH, str(int(text) // 2)) for place, text in now.items() if text.isdigit()]
    return f", such as half of now{ended(commands)}" if commands else ""
