"""The experiment on a node: try one limit after another in random windows, and measure the victim in each."""

import posix
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from resctrl_hooks.core.node.context import Context
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.core.node.host.instance import RunningError
from resctrl_hooks.observe.node.guard.lease import EXPERIMENT, GUARD
from resctrl_hooks.observe.node.guard.load import read_classes, traffic
from resctrl_hooks.observe.node.guard.recovery import become_owner
from resctrl_hooks.observe.node.guard.section import section
from resctrl_hooks.observe.node.slowdown.causes.remedy import MB
from resctrl_hooks.observe.node.slowdown.evidence.neighbours import memory_of

from ..evidence import Evidence, EvidenceError
from .class_trial import Trial, TrialError, hold_lease
from .schedule import SECONDS, SECONDS_BY_GRADE, SETTLE, Effect, effect_by_windows
from .signals import uninterrupted
from .value_trial import RATES, Plan, ValueTrial, texts
from .watchdog import Watchdog

LEAST_LOAD = 0.01
"""The least part of a memory domain's traffic for which a class is tried. A quiet class cannot slow a pod there."""


@dataclass(frozen=True)
class Proof:
    """What the experiment showed of one limit: its effect, or the reason why there is none.

    ``floor`` and ``declared`` are a class's MB values by L3 domain with and without the limit, ``values`` and
    ``limited`` any limit's values for people.
    """

    name: str
    effect: Effect | None = None
    reason: str = ""
    declared: dict[int, int] = field(default_factory=dict)
    floor: dict[int, int] = field(default_factory=dict)
    values: str = ""
    limited: str = ""
    sets: str = MB


class Experiment:
    """The experiment for one pod. Use it in a ``with`` statement, at whose end every value is restored.

    If this process is killed, or stopped for longer than the lease, its `Watchdog` restores them.

    Args:
        context: the node. Its ``rdt.guard.throttle`` names the classes that may be limited, and their floors.
        key: the pod's key.
        cgroups: the folders of the pod's cgroup, or of its containers' cgroups.
        own: the pod's RDT classes, which are not limited.
        sleep: waits for so many seconds; tests replace it.
        planned: further limits to try.

    Raises:
        TrialError: nothing may be limited, or a guard is running.
        EvidenceError: there is no evidence of the pod's speed.
        HookError: the pod's counters cannot be read.
    """

    def __init__(
        self,
        context: Context,
        key: str,
        cgroups: Sequence[str],
        own: Sequence[str],
        sleep: Callable[[float], None] = time.sleep,
        planned: Sequence[Plan] = (),
    ) -> None:
        self._context = context
        self._resctrl = context.monitor.resctrl
        self._rules = {name: rule for name, rule in section(context.settings)["throttle"].items() if name not in own}
        self._key, self._planned = key, planned
        if not self._rules and not planned:
            raise TrialError(
                "nothing may be limited for this pod",
                hint="name other classes than the pod's own, with a floor each, in `rdt.guard.throttle`, or pods in "
                "`slowdown.experiment`",
            )
        self._sleep = sleep
        self._trial: Trial | ValueTrial | None = None
        context.ledger.prepare()
        try:
            self._lock = become_owner(context.settings.state_dir, EXPERIMENT)
        except RunningError as error:
            if error.owner not in ("", GUARD):
                raise TrialError(str(error), hint="wait for its end, or end it") from error
            raise TrialError(
                f"the bandwidth guard changes values on this node: {error}",
                hint="stop it for the time of the experiment: systemctl stop resctrl-hooks-guard.service",
            ) from error
        self._watchdog: Watchdog | None = None
        try:
            self._lease = hold_lease(context, posix.getpid())
            self.evidence = Evidence(context, key, cgroups)
            self._seconds = SECONDS_BY_GRADE.get(self.evidence.method, SECONDS)
        except BaseException:
            posix.close(self._lock)
            raise

    def __enter__(self) -> Self:
        self._watchdog = Watchdog(self._context, self._lock)
        return self

    def __exit__(self, *_: object) -> None:
        uninterrupted(self._end)

    def _end(self) -> None:
        failed = ["the values"]
        try:
            failed = self._trial.end() if self._trial else []
            self.evidence.close()
        finally:
            posix.close(self._lock)
            if self._watchdog:
                self._watchdog.end(restored=not failed)
        if failed:
            raise TrialError(f"cannot restore {'; '.join(failed)}", hint="run `resctrl-hook guard restore`")

    def run(self, chance: random.Random | None = None) -> Iterator[Proof]:
        """Try the planned limits, and the classes in the configured order; yield what each one showed.

        Raises:
            EvidenceError: the pod has no memory traffic.
            TrialError: another program changed a class's values.
            HookError: a counter or value cannot be read or written.
        """
        chance = chance or random.SystemRandom()
        for plan in self._planned:
            yield self._planned_proof(plan, chance)
        if not self._rules:
            return
        try:
            numbers, rates = self._survey()
        except EvidenceError:
            if self._planned:
                return  # what they showed stands
            raise
        for name, rule in self._rules.items():
            if rates.get(name, 0.0) < LEAST_LOAD * sum(rates.values()):
                yield Proof(name, reason="it has almost no traffic where the pod has its own")
                continue
            try:
                self._trial = trial = Trial(self._context, self._lease, name, rule, numbers)
            except TrialError as error:
                yield Proof(name, reason=str(error))
                continue
            effect, reason = self._tried(trial, chance)
            words = _in_words(trial.declared), _in_words(trial.floor)
            yield Proof(name, effect, reason, trial.declared, trial.floor, *words)

    def _planned_proof(self, plan: Plan, chance: random.Random) -> Proof:
        """Try one planned limit."""
        used = self._rates(plan) if plan.sets in RATES else {}
        try:
            self._trial = trial = ValueTrial(self._context, plan, self._key, used)
        except HookError as error:
            return Proof(plan.name, reason=str(error), sets=plan.sets)
        effect, reason = self._tried(trial, chance)
        return Proof(plan.name, effect, reason, {}, {}, texts(trial.values), texts(trial.limited), plan.sets)

    def _rates(self, plan: Plan) -> dict[tuple[str, str], float]:
        """Return what the plan's cgroups use by second."""
        read, begun = RATES[plan.sets], time.monotonic()
        before = read(plan.places)
        self._sleep(self._seconds)
        seconds = max(self._seconds, time.monotonic() - begun)
        return {place: (new - before[place]) / seconds for place, new in read(plan.places).items() if place in before}

    def _tried(self, trial: Trial | ValueTrial, chance: random.Random) -> tuple[Effect | None, str]:
        """Return a limit's effect, or the reason why there is none; its values are restored."""
        seconds = SECONDS if trial.on_disk else self._seconds
        effect = effect_by_windows(partial(self._cost, trial, seconds), chance.shuffle, seconds)
        failed = trial.end()
        if failed:
            raise TrialError(f"cannot restore {'; '.join(failed)}", hint="run `resctrl-hook guard restore`")
        self._trial = None
        return effect, "" if effect else "the pod did too little work in most windows"

    def _cost(self, trial: Trial | ValueTrial, seconds: float, limited: bool) -> float | None:  # noqa: FBT001 - one factor
        """Return the cost of the pod's work in a window of so many seconds; None if it is unknown."""
        trial.set(limited=limited)
        self._sleep(SETTLE)
        return self.evidence.measure(self._sleep, seconds - SETTLE, on_disk=trial.on_disk)

    def _survey(self) -> tuple[list[tuple[int, ...]], dict[str, float]]:
        """Return the memory domains of the pod's traffic, and each class's bytes per second in them.

        Raises:
            EvidenceError: the pod has no memory traffic, or nothing counts it.
        """
        if not self.evidence.domains:
            raise EvidenceError("the pod's memory traffic is not counted, so no class can be tried")
        evidence, classes = self.evidence, ["", *self._resctrl.classes()]
        own, all_ = evidence.read(), read_classes(self._resctrl, classes, evidence.bandwidth, time.monotonic())
        self._sleep(self._seconds)
        now, all_now = evidence.read(), read_classes(self._resctrl, classes, evidence.bandwidth, time.monotonic())
        busy = memory_of(evidence.use(own, now, self._seconds))
        here = [domain for domain in evidence.domains if domain[0] in busy]
        if not here:
            raise EvidenceError("the pod has no memory traffic now, so nobody can slow it there")
        rates: dict[str, float] = {}
        for found in traffic(all_, all_now, evidence.domains):
            if found.domain in here:
                for name, rate in found.rates.items():
                    rates[name] = rates.get(name, 0.0) + rate
        return here, rates


def _in_words(values: dict[int, int]) -> str:
    return " ".join(f"{number}={value}" for number, value in sorted(values.items()))
