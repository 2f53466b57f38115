"""The disk: the pod's tasks wait for a disk that others use.

Who moves the bytes or the operations on the pod's disk is counted by cgroup (``io.stat``). What its operations would
take without others is in `evidence.disk_delay`.
"""

from ..case import Culprit, mean
from ..constants import BESIDE, CERTAIN, WAITED
from ..evidence.disk_delay import disk_delay
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
    delay = disk_delay([(use, window.seconds) for use, window in zip(case.uses, case.windows)], case.verdict.alone)
    if delay is None:
        return Cause(NAME, UNKNOWN, text)
    if not delay.is_known:
        what = f"what its operations take alone is not known: it is slowed {delay.most:.1f} times at most"
        return Cause(NAME, UNKNOWN, f"{text}; {what}")
    if delay.factor < CERTAIN:
        return Cause(NAME, EXCLUDED, f"{text}; its operations take about as long as alone")
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
