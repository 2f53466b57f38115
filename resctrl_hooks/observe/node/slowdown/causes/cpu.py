"""The CPU: the pod's tasks wait to run while others use the CPUs that it may use.

There are different answers, by what the weights of all cgroups give (`evidence.cpu.shares`). If the pod gets less than
that, a neighbour takes more than its share. If it gets that and wants more, either its own weight is too small, or the
node has too few CPUs for all. What a hypervisor or interrupts take has no culprit.
"""

from .....core.node.host.cpulist import count
from ..case import Culprit, mean
from ..constants import LEAST_STILL, SLOWED, WAITED
from ..evidence.cpu.lost_time import mean_lost
from ..evidence.cpu.shares import Share, mean_share
from ..evidence.cpu.what_if import WhatIf
from ..evidence.waiting import time_taken
from .cause import EXCLUDED, SUPPORTED, UNKNOWN, Cause
from .culprits import smallest_set
from .remedy import CPU_MAX, CPU_WEIGHT, ELSEWHERE, OWN_WEIGHT, Remedy, limitable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ..case import Case
    from ..evidence.cpu.contest import Contest
    from .cause import Judged
    from .remedy import Facts

NAME = "cpu-contention"
STOLEN = "the hypervisor runs other machines"
INTERRUPTS = "interrupts take its CPUs"
ABOVE = "a neighbour takes more than its share"
REQUEST = "it needs more than it requested"
FULL = "the node is overcommitted"
_EXPLAINS = 0.5
"""The least part of its waiting that others' use of its CPUs must fill to be the reason."""
_CONTENT = 1.1
"""Others that want at most this many times what their weights give them are content."""
_HUNGRIER = 2.0
"""The pod has too small a weight if what it wants exceeds its share so many times more than others' wants theirs."""


def judge(case: "Case", judged: "Judged") -> Cause:
    """Return whether the pod waits for CPUs, and who uses them."""
    cpus = next((use.cpus for use in reversed(case.uses) if use.cpus), 0)
    taken = [window.contests.spent(cpus) for window in case.windows if window.node.processors]
    busy, stolen = mean([one.tasks for one in taken]) or 0.0, mean([one.stolen for one in taken]) or 0.0
    by_host = (busy + stolen) / busy if busy and stolen >= WAITED else 1.0
    host = Cause(NAME, SUPPORTED, f"{STOLEN} for {stolen:.0%} of its CPUs' time", factor=by_host, answer=STOLEN)
    # Before the tasks of a pod are read, the limits of its containers look like waits for others.
    read = [use.lost for window, use in zip(case.windows, case.uses) if window.node.groups is not None]
    lost = mean_lost(read or [use.lost for use in case.uses])
    if lost is None:
        return host if by_host > 1 else Cause(NAME, UNKNOWN, "the kernel counts no CPU pressure of its cgroup")
    part = lost.waited / (lost.used + lost.waited) if lost.waited else 0.0
    if by_host > case.verdict.waiting.factors()["cpu"]:
        return host
    text = f"it waited for a CPU for {part:.0%} of the time in which it wanted one"
    whole = case.mean(time_taken) or 0.0  # a pod that waits for its disk waits a little for a CPU after each operation
    if part < WAITED or lost.waited < max(LEAST_STILL, WAITED * whole):
        return Cause(NAME, EXCLUDED, text)
    contests = [window.contests.on(cpus or window.online) for window in case.windows if window.node.groups is not None]
    contests = [one for one in contests if case.key in one.shares]
    if not contests:
        return Cause(NAME, SUPPORTED, text, tuple(smallest_set(case.runners())))
    found = _answered(case.key, contests, text, [window.uses for window in case.windows])
    if case.is_advised:
        wanted = mean_share([one.shares[case.key] for one in contests]).wanted
        found = found._replace(values=_values(case, found, cpus, wanted))
    return found._replace(factor=by_host)


def _values(case: "Case", cause: Cause, cpus: int, wanted: float) -> "dict[str, str]":
    """Return the values of remedies that suffice, each with the ratio that it reaches."""
    window = next(one for one in reversed(case.windows) if one.node.groups)
    cpus, taken = cpus or window.online, window.contests.spent(cpus)
    capacity = float(count(cpus)) * (1 - taken.interrupts - taken.stolen)
    names = {one.key for one in limitable(cause.pods)}
    what_if = WhatIf(window.node.groups or (), case.key, names, cpus, capacity, wanted)
    found = {OWN_WEIGHT: what_if.more_weight()} if cause.answer in (REQUEST, FULL) else {}
    if names:
        found.update({CPU_MAX: what_if.limit(), CPU_WEIGHT: what_if.less_weight()})
    return {sets: f"{one.value:.4g} {one.ratio:.4g}" for sets, one in found.items() if one is not None}


def _answered(key: str, contests: "Sequence[Contest]", text: str, pods: "Sequence[Collection[str]]") -> Cause:
    """Return the cause with its answer, from the contests for the pod's CPUs."""
    own = mean_share([one.shares[key] for one in contests])
    whole = mean_share([one.whole for one in contests])
    beside = Share("", whole.used - own.used, whole.wanted - own.wanted, whole.entitled - own.entitled)
    interrupts = sum([one.interrupts for one in contests]) / len(contests)
    if beside.used + interrupts < _EXPLAINS * (own.wanted - own.used):
        what = f"others used only {beside.used:.2f} of its CPUs meanwhile: a CPU limit above it, or a hypervisor"
        return Cause(NAME, UNKNOWN, f"{text}; {what}")
    if interrupts >= beside.used:
        return Cause(NAME, SUPPORTED, f"{INTERRUPTS}: {text}", answer=INTERRUPTS)
    names = {share.name for one in contests for share in one.largest} - {key}
    others = [mean_share([one.shares.get(name, Share(name)) for one in contests]) for name in sorted(names)]
    beyond = [(one.used - one.entitled, one) for one in others if one.used > one.entitled]
    missing, unmet = own.entitled - own.used, own.wanted - own.entitled
    if beyond and missing > unmet:
        taken = sum([more for more, _ in beyond])
        culprits = smallest_set([_culprit(one.name, more / taken, pods) for more, one in beyond])
        named = [one for _, one in beyond if one.name in {culprit.key for culprit in culprits}]
        uses, share = sum([one.used for one in named]), sum([one.entitled for one in named])
        what = f"it used {own.used:.2f} CPUs of its {own.entitled:.2f} by weight, they used {uses:.2f} of {share:.2f}"
        return Cause(NAME, SUPPORTED, f"{ABOVE}: {text}; {what}", tuple(culprits), answer=ABOVE)
    parts = tuple(smallest_set([_culprit(one.name, one.used / beside.used, pods) for one in others if one.used > 0]))
    if missing > unmet:
        return Cause(NAME, SUPPORTED, f"{text}; others use its CPUs", parts)
    hunger, theirs = [one.wanted / one.entitled if one.entitled > 0 else 1.0 for one in (own, beside)]
    if theirs <= _CONTENT or hunger >= _HUNGRIER * theirs:
        what = f"its weight gives it {own.entitled:.2f} CPUs beside the others, and it wants {own.wanted:.2f}"
        return Cause(NAME, SUPPORTED, f"{REQUEST}: {text}; {what}", answer=REQUEST)
    capacity = sum([one.capacity for one in contests]) / len(contests)
    what = f"all want {whole.wanted:.1f} CPUs where there are {capacity:.1f}, and none takes more than its share"
    return Cause(NAME, SUPPORTED, f"{FULL}: {text}; {what}", parts, answer=FULL)


def _culprit(name: str, share: float, pods: "Sequence[Collection[str]]") -> Culprit:
    return Culprit(name, min(1.0, share), None, outside=not any(name in of_window for of_window in pods))


def remedies(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield less for the culprits where they take too much, more for the victim where it has too little."""
    if cause.answer == STOLEN:
        yield Remedy("a machine whose host has free CPUs, or one with CPUs of its own")
        return
    if cause.answer == INTERRUPTS:
        yield Remedy("move interrupts to other CPUs: `/proc/irq/*/smp_affinity_list`, or irqbalance")
    if cause.answer in (ABOVE, FULL):
        yield from _less(cause, facts)
    if OWN_WEIGHT in cause.values:
        times, ratio = _value(cause, OWN_WEIGHT)
        text = f"a CPU request of {facts.name} that is {times:g} times as large (`resources.requests.cpu`; Podman:"
        yield Remedy(f"{text} `--cpu-shares`){_still(ratio)}", OWN_WEIGHT, value=times)
    yield Remedy(f"CPUs of its own for {facts.name}: `placement` (`resctrl-hook config apply`)")
    if cause.answer in (REQUEST, FULL):
        yield ELSEWHERE


def _value(cause: Cause, sets: str) -> "tuple[float, float]":
    value, _, ratio = cause.values[sets].partition(" ")
    return float(value), float(ratio)


def _still(ratio: float) -> str:
    return "" if ratio < SLOWED else f"; it is still slowed {ratio:.2f} times then"


def _less(cause: Cause, facts: "Facts") -> "Iterator[Remedy]":
    """Yield a limit or a smaller weight for the culprits, with the values that suffice for all of them together."""
    found = limitable(cause.pods)
    keys = tuple([one.key for one in found if not one.outside])
    if not found or CPU_MAX not in cause.values:
        return
    names = ", ".join([one.key for one in found if one.outside])
    names = ", ".join(filter(None, (facts.called(keys), names)))
    each = f"{'each of ' if len(found) > 1 else ''}{names}"
    limit, ratio = _value(cause, CPU_MAX)
    text = f"a limit of {limit:.2g} CPUs for {each} (`resources.limits.cpu`: `cpu.max`)"
    how, command = facts.set_by(found, CPU_MAX, f"{max(1.0, 100 * limit):.0f}")
    yield Remedy(f"{text}{how}{_still(ratio)}", CPU_MAX, pods=keys, value=limit, command=command)
    if CPU_WEIGHT in cause.values and len(keys) == len(found):
        part, _ = _value(cause, CPU_WEIGHT)
        text = f"or 1/{1 / part:.0f} of its weight for {each} (`resources.requests.cpu`: `cpu.weight`)"
        least = facts.least(keys, "cpu.weight")
        how, command = facts.set_by(found, CPU_WEIGHT, str(max(1, int(least * part)))) if least else ("", "")
        yield Remedy(f"{text}{how}", CPU_WEIGHT, pods=keys, value=part, command=command)
