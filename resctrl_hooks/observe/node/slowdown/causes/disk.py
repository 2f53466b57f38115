"""The disk: the pod's tasks wait for a disk that others use.

Who moves the bytes or the operations on the pod's disk is counted by cgroup (``io.stat``). What its operations would
take without others is in `evidence.disk_delay`.
"""

from ..case import Culprit, mean
from ..constants import BESIDE, CERTAIN, WAITED
from ..evidence.disk_delay import disk_delay
from ..evidence.disk_kinds import BY_BFQ, BY_COST
from ..evidence.disks import Moved
from .cause import EXCLUDED, SUPPORTED, UNKNOWN, Cause
from .culprits import smallest_set
from .remedy import BFQ_WEIGHT, ELSEWHERE, IO_MAX, IO_WEIGHT, Remedy, less_for_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..case import Case
    from .cause import Judged
    from .remedy import Facts

NAME = "disk"
DISK, WEIGHT = "disk", "weight"
"""Of a cause's values: the disk's name, and the file that weighs its operations."""
_SETS = {BY_COST: IO_WEIGHT, BY_BFQ: BFQ_WEIGHT, "": IO_MAX}
_FILES = {IO_WEIGHT: BY_COST, BFQ_WEIGHT: BY_BFQ, IO_MAX: "io.max"}
_LITTLE_WEIGHT = 10
"""Of all culprits: a tenth of the usual weight of one cgroup."""
_LEFT = 0.08
"""The part of the disk's time that a limit leaves to all culprits."""


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
    if not delay.is_measured and not found[-1].kind.rotates:
        text += f"; what its operations take alone is not known: it is slowed {delay.most:.1f} times at most"
    if not delay.is_known:
        return Cause(NAME, UNKNOWN, text)
    if delay.factor < CERTAIN:
        return Cause(NAME, EXCLUDED, f"{text}; its operations take about as long as alone")
    pods = {key for window in case.windows for key in window.uses}
    culprits = [Culprit(user, share / (1 - own), None, outside=user not in pods) for user, share in parts.items()]
    named = smallest_set(culprits)
    moved = [one.moved.get(culprit.key, Moved()).operations for one in found for culprit in named]
    # Their operations take the disk's time as now, so fewer of them take as much less of it.
    least = max(1.0, _LEFT / (1 - own) * sum(moved) / len(moved)) if moved else 1.0
    values = {DISK: name, WEIGHT: found[-1].kind.weight, IO_MAX: f"{least:.0f}"}
    return Cause(NAME, SUPPORTED, text, tuple(named), values=values)


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield less I/O for the culprits: a smaller weight where the disk has weights, else a limit."""
    disk, weight = cause.values.get(DISK, ""), cause.values.get(WEIGHT, "")
    sets = _SETS[weight]
    value, why = str(max(1, _LITTLE_WEIGHT // max(1, len(cause.pods)))), ""
    if sets == IO_MAX:
        value = f"/dev/{disk} {cause.values.get(IO_MAX, 1)}"
        why = f"; a weight has no effect: {disk} has neither the scheduler bfq nor `io.cost.qos`"
    keys = tuple([one.key for one in cause.pods if not one.outside])
    if keys:
        how, command = facts.set_by([one for one in cause.pods if not one.outside], sets, value)
        text = f"less I/O for {facts.called(keys)} (`{_FILES[sets]}`){how}{why}"
        yield Remedy(text, sets, pods=keys, value=float(value.split()[-1]), command=command)
    for one in less_for_units(cause.pods, facts, sets, value):
        yield one._replace(text=one.text + why)
    yield Remedy(f"or another disk for {facts.name}")
    yield ELSEWHERE
