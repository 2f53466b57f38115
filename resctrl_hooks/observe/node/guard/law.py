"""The guard's law: one memory domain's state and a sample give the next state and the changes to make.

Pure: no clock, no files. A controller of single steps, because the effect of an MB value is coarse and differs by
processor (measured by others: intel-cmt-cat issues 69, 185, 277, 285), so each step waits for its effect.
"""

from typing import NamedTuple

from ....core.node.resctrl.bandwidth_unit import AMD_UNIT
from .harm import Harm
from .sample import Sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .limit import Limit, OfRate, PerCent

IDLE, PRESSED, SETTLING, HOLDING = "idle", "pressed", "settling", "holding"
RELEASING, EXHAUSTED, BLIND = "releasing", "exhausted", "blind"
STATES = (IDLE, PRESSED, SETTLING, HOLDING, RELEASING, EXHAUSTED, BLIND)
LOWER, RAISE, RESTORE, REPORT = "lower", "raise", "restore", "report"

WINDOW, ENOUGH = 4, 3
"""Pressure is that many samples at or above ``high`` among the last so many."""
LONG_WINDOW, OFTEN = 60, 9
"""Pressure is also a sample at or above ``high`` if so many of the last so many were. An alternation of two busy and
two quiet seconds keeps a memory full for half of the time, without `ENOUGH` in a row. A single burst is shorter."""
PROTECTED_SHARE, THROTTLED_SHARE = 0.01, 0.10
"""Least shares of the traffic: of the protected classes together, so that there is a victim, and of a class to cut."""
SETTLE = 3.0
SMALL_EFFECT = 0.05
"""A class whose rate fell by less after a cut is cut by two steps next."""
CALM, LONGEST_CALM = 10, 300
"""Samples in a row that allow a step up; pressure soon after a step up doubles them."""
OF_PAUSE = 2
"""A step up needs so many times as many calm samples as the longest pause between two loads: else each pause of an
alternation would raise what its next load has to cut again."""
SOON = 30.0
EVIDENCE = 40.0
"""Seconds after a change until a slowdown shows its effect: three windows of 10 s that begin after it."""
PROBE = 600.0
"""Seconds without pressure after which a cut is released by one step, whatever the load is."""
BLIND_SAMPLES, BLIND_SECONDS = 3, 10.0


class Rules(NamedTuple):
    """The operator's configuration: classes protected at a load, limitable classes in order, and the two loads.

    A class that is protected at a slowdown is not in ``protect``: its pods are in `Sample.suffering`. ``at_slowdown``:
    there is such a class. ``beside`` returns the protected classes that a limit of a class may also slow down.
    """

    protect: "list[str]"
    throttle: "list[str]"
    high: float
    low: float
    at_slowdown: bool = False
    beside: "Callable[[str], Sequence[str]]" = lambda _: ()


class Change(NamedTuple):
    """One action or report: ``kind`` is `LOWER`, `RAISE`, `RESTORE` or `REPORT`."""

    kind: str
    name: str
    old: int
    new: int
    reason: str


class Domain:
    """The state of one memory domain; `decide` changes it in place, and nothing else does."""

    def __init__(self, limits: "dict[str, Limit]", time: float) -> None:
        self.limits = limits
        self.harm = Harm()
        self.state = IDLE
        self.since = time
        self._window: "list[bool]" = []
        self._long_window: "list[bool]" = []
        self._cut: "tuple[str, float, float] | None" = None  # class, its rate before, when it was made
        self._steps: "dict[str, int]" = {}  # how many steps the next cut of a class has; 1 where it is not here
        self._calm = 0  # calm samples since the last step up
        self._quiet = 0  # calm samples since the last one that was not
        self._wait = CALM
        self._raised = float("-inf")
        self._confirmed = time
        self.changed = float("-inf")
        """The time of its last change of a limit."""
        self._missing = 0
        self._missing_since = time

    def enter(self, state: str, time: float) -> None:
        """Change the state, and remember since when."""
        if state != self.state:
            self.state, self.since = state, time

    @property
    def cut(self) -> "list[str]":
        """The classes with a value below the declared one."""
        return [name for name, limit in self.limits.items() if limit.is_cut]

    def decide(self, sample: Sample, rules: Rules, scale: "PerCent | OfRate") -> "list[Change]":
        """Return the changes for this sample: at most one, except for a restoration."""
        if sample.load is None:
            return self._without_value(sample.time)
        self._missing = 0
        self.harm.saw(sample)
        pressed = self._is_pressed(sample, rules)
        self._window = [*self._window, pressed][-WINDOW:]
        self._long_window = [*self._long_window, pressed][-LONG_WINDOW:]
        if pressed:
            self._end_pause()
        if self.state == SETTLING and sample.time - self.changed < SETTLE:
            return []
        self._judge_cut(sample)
        back = self._take_back(sample)
        if back:
            return back
        if sum(self._window) >= ENOUGH or (pressed and sum(self._long_window) >= OFTEN):
            return self._under_pressure(sample, rules, scale)
        return self._without_pressure(sample, rules, scale)

    def _end_pause(self) -> None:
        """Learn from a pause that has ended how long the calm before a step up must be."""
        if self.cut or self._quiet >= CALM:
            self._wait = max(self._wait, min(OF_PAUSE * self._quiet, LONGEST_CALM))
        self._quiet = 0

    def _without_value(self, time: float) -> "list[Change]":
        """Hold for a while, then restore everything: no limit may stay while the load is unknown."""
        self._calm = self._quiet = 0
        self._missing += 1
        if self._missing == 1:
            self._missing_since = time
        if self._missing >= BLIND_SAMPLES:
            self.enter(BLIND, time)
        if self.state != BLIND or time - self._missing_since < BLIND_SECONDS:
            return []
        reason = f"the load is unknown for {BLIND_SECONDS:g} seconds"
        return [self._move(RESTORE, name, self.limits[name].declared, time, reason) for name in self.cut]

    def _is_pressed(self, sample: Sample, rules: Rules) -> bool:
        """Return whether a pod suffers, or the domain is full with a victim in it, and a class's cut can help."""
        if sample.load is None:
            return False
        traffic = sample.load * sample.capacity
        victims = sum(sample.rates.get(name, 0.0) for name in rules.protect)
        is_full = sample.load >= rules.high and rules.protect and victims >= PROTECTED_SHARE * traffic
        return bool(sample.suffering or is_full) and any(
            sample.rates.get(name, 0.0) >= THROTTLED_SHARE * traffic for name in rules.throttle
        )

    def _judge_cut(self, sample: Sample) -> None:
        """Look once, after the wait, whether the last cut had an effect."""
        if self._cut is None:
            return
        name, before, _ = self._cut
        small = sample.rates.get(name, 0.0) > before * (1 - SMALL_EFFECT)
        self._steps[name] = 2 if small else 1
        self._cut = None

    def _take_back(self, sample: Sample) -> "list[Change]":
        """Return a change back to the value before a cut that harmed a protected class."""
        self.harm.judge(sample)
        for name, kept in self.harm.kept.items():
            if self.limits[name].is_cut and self.limits[name].now < kept.value:
                self._cut, self._window = None, []
                self.enter(RELEASING, sample.time)
                return [self._move(RAISE, name, kept.value, sample.time, kept.reason)]
        return []

    def _under_pressure(self, sample: Sample, rules: Rules, scale: "PerCent | OfRate") -> "list[Change]":
        if sample.time - self._raised < SOON + (EVIDENCE if sample.suffering else 0.0):
            self._wait = min(2 * self._wait, LONGEST_CALM)
            self._raised = float("-inf")  # one release doubles the wait once
        self._calm, self._confirmed = 0, sample.time
        traffic = (sample.load or 0.0) * sample.capacity
        for name in rules.throttle:
            rate = sample.rates.get(name, 0.0)
            if not self._has_room(name) or rate < THROTTLED_SHARE * traffic:
                continue
            new = scale.down(self.limits[name], rate, self._steps.get(name, 1))
            if new < self.limits[name].now:
                self._cut = (name, rate, sample.time)
                self.harm.cut(name, self.limits[name].now, sample, rules.beside(name))
                self._window = []  # only samples from after the cut can ask for the next one
                self.enter(SETTLING, sample.time)
                return [self._move(LOWER, name, new, sample.time, _reason(sample), rate)]
        if any(self._has_room(name) for name in self.limits):
            self.enter(PRESSED, sample.time)
            return []
        if self.state == EXHAUSTED:
            return []
        self.enter(EXHAUSTED, sample.time)
        return [Change(REPORT, "", 0, 0, f"{_reason(sample)}: {self._why_exhausted()}")]

    def _has_room(self, name: str) -> bool:
        return self.limits[name].has_room and name not in self.harm.kept

    def _why_exhausted(self) -> str:
        """Return the reason why no class can be lowered: a reason for each one that is above its floor."""
        others = {
            name: "another program changed its value" if limit.overridden else self.harm.kept[name].reason
            for name, limit in self.limits.items()
            if limit.overridden or (limit.has_room and name in self.harm.kept)
        }
        if not others:
            return "all limitable classes are at their floors; use fewer processors or another node for them"
        reasons = [f"class {name} is not lowered: {reason}" for name, reason in others.items()]
        if len(others) < len(self.limits):
            reasons.append("all other limitable classes are at their floors")
        return "; ".join(reasons)

    def _without_pressure(self, sample: Sample, rules: Rules, scale: "PerCent | OfRate") -> "list[Change]":
        held = next((name for name in reversed(rules.throttle) if self.limits[name].is_cut), "")
        if not held:
            self._calm = 0
            self._quiet += 1
            if sample.time - self._confirmed > LONGEST_CALM:
                self._wait = CALM
            self.enter(IDLE, sample.time)
            return []
        if rules.at_slowdown and sample.time - self.changed < EVIDENCE:
            self._calm = 0
            self.enter(HOLDING, sample.time)
            return []
        limit = self.limits[held]
        after = (sample.load or 0.0) + scale.gain(limit, sample.rates.get(held, 0.0)) / sample.capacity
        if after < rules.low:
            self._calm, self._quiet = self._calm + 1, self._quiet + 1
        else:
            self._end_pause()
            self._calm = 0
        if self._calm >= CALM and self._quiet >= self._wait:
            return [self._release(held, scale, sample.time, f"load {sample.load:.0%}, {after:.0%} expected after it")]
        if sample.time - self._confirmed >= PROBE:
            self._confirmed = sample.time
            return [self._release(held, scale, sample.time, f"no pressure for {PROBE / 60:g} minutes")]
        self.enter(RELEASING if self._calm else HOLDING, sample.time)
        return []

    def _release(self, name: str, scale: "PerCent | OfRate", time: float, reason: str) -> Change:
        self._calm, self._raised, self._steps[name] = 0, time, 1
        self.enter(RELEASING, time)
        return self._move(RAISE, name, scale.up(self.limits[name]), time, reason)

    def _move(self, kind: str, name: str, new: int, time: float, reason: str, rate: float = 0.0) -> Change:
        old = self.limits[name]
        self.limits[name] = old.at(new, int(rate / AMD_UNIT))
        self.changed = time
        return Change(kind, name, old.now, new, reason)


def _reason(sample: Sample) -> str:
    """Return the load, and the classes whose pods are slowed by it."""
    slowed = f", pods of class {', '.join(sample.suffering)} are slowed" if sample.suffering else ""
    return f"load {sample.load:.0%}{slowed}"
