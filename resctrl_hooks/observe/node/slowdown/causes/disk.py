"""The disk: the pod's tasks wait for a disk that others use.

Who moves the bytes or the operations on the pod's disk is counted by cgroup (``io.stat``). Without others, the pod
would wait as long as its own part keeps the disk busy: the rest of its waiting is theirs.
"""

from ..case import Culprit, mean
from ..constants import BESIDE, WAITED
from .cause import EXCLUDED, SUPPORTED, UNKNOWN, Cause
from .culprits import smallest_set
from .remedy import ELSEWHERE, IO_WEIGHT, Remedy, less_for_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..case import Case
    from .cause import Judged
    from .remedy import Facts

NAME = "disk"


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether others' use of its disk slows the pod."""
    if all(use.blocked is None for use in case.uses):
        return Cause(NAME, UNKNOWN, "the kernel counts no I/O pressure of its cgroup")
    part = case.mean(lambda use: (1 - use.again) * float(use.blocked or 0)) or 0.0  # the rest is a wait for memory
    text = f"it waited for a disk for {part:.0%} of the time"
    if part < WAITED:
        return Cause(NAME, EXCLUDED, text)
    found = [disk for window in case.windows if (disk := window.node.disk_of(case.key))]
    if not found:
        return Cause(NAME, UNKNOWN, f"{text}; no `io.stat` shows what it moves (without `io` controller, or it swaps)")
    name = found[-1].name
    found = [one for one in found if one.name == name]
    busy = mean([one.busy for one in found]) or 0.0
    parts: "dict[str, float]" = {}
    for one in found:
        for user, share in one.parts().items():
            parts[user] = parts.get(user, 0.0) + share / len(found)
    own = parts.pop(case.key, 0.0)
    text = f"{text}; {name} is busy for {busy:.0%} of it, {own:.0%} by its own work"
    if own >= 1 - BESIDE:
        return Cause(NAME, EXCLUDED, text)
    if not any(one.is_full for one in found):
        return Cause(NAME, UNKNOWN, text)
    pods = {key for window in case.windows for key in window.uses}
    culprits = [Culprit(user, share / (1 - own), None, outside=user not in pods) for user, share in parts.items()]
    return Cause(NAME, SUPPORTED, text, tuple(smallest_set(culprits)))


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield less I/O for the culprits."""
    keys = tuple([one.key for one in cause.pods if not one.outside])
    if keys:
        text = f"less I/O for {facts.called(keys)}: `io.weight` or `io.max` of its cgroup"
        yield Remedy(text, IO_WEIGHT, pods=keys)
    yield from less_for_units(cause.pods, "IOReadBandwidthMax=…")
    yield Remedy(f"or another disk for {facts.name}")
    yield ELSEWHERE
