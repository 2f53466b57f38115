"""The guard's law on made-up memory domains: what holds whatever the processor does with a limit."""

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.resctrl.bandwidth_unit import AMD_UNIT
from resctrl_hooks.observe.node.guard import law
from resctrl_hooks.observe.node.guard.law import LOWER, RAISE, REPORT, RESTORE, Change, Domain, Rules
from resctrl_hooks.observe.node.guard.limit import Limit, OfRate, PerCent
from resctrl_hooks.observe.node.guard.sample import Sample

CAPACITY = 100e9
Response = Callable[[int], float]
"""What share of its demand a class gets at an MB value: the shapes that were measured on processors."""

RESPONSES: dict[str, Response] = {
    "proportional": lambda value: value / 100,
    "dead zone": lambda value: 1.0 if value > 40 else value / 40,
    "cliff": lambda value: 1.0 if value > 20 else 0.2,
    "no effect": lambda _: 1.0,
    "steps": lambda value: max(0.1, (value // 30) * 0.3),
}


@dataclass
class Plant:
    """Classes that ask for bandwidth; what a limit leaves of it comes ``delay`` samples later, with noise."""

    seed: int
    response: str = "proportional"
    delay: int = 0
    noise: float = 0.02
    demand: dict[str, float] = field(default_factory=lambda: {"gold": 20e9, "silver": 30e9, "bronze": 60e9})
    gaps: float = 0.0
    amd: bool = False

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._history: list[dict[str, int]] = []

    def sample(self, time: float, values: dict[str, int]) -> Sample:
        """What is seen at a time while the limits have these values."""
        self._history.append(dict(values))
        acting = self._history[max(0, len(self._history) - 1 - self.delay)]
        rates = {
            name: self._limited(wanted, acting.get(name)) * self._random.uniform(1 - self.noise, 1 + self.noise)
            for name, wanted in self.demand.items()
        }
        total = sum(rates.values())
        if total > CAPACITY:
            rates = {name: rate * CAPACITY / total for name, rate in rates.items()}
        unknown = self._random.random() < self.gaps
        return Sample(time, None if unknown else sum(rates.values()) / CAPACITY, CAPACITY, rates)

    def _limited(self, wanted: float, value: int | None) -> float:
        if value is None:
            return wanted
        return min(wanted, value * AMD_UNIT) if self.amd else wanted * RESPONSES[self.response](value)


class Run:
    """The law at work on a plant."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        self.rules = Rules(["gold"], ["bronze", "silver"], 0.85, 0.70)
        self.time = 0.0
        most, low, high = (2048, 160, 400) if plant.amd else (100, 20, 50)
        self.limits = {"bronze": Limit(most, low), "silver": Limit(most, high)}
        self.domain = Domain(self.limits, self.time)
        self.changes: list[tuple[float, Change]] = []
        self.samples: list[Sample] = []
        self.scale = OfRate() if plant.amd else PerCent(10)

    def values(self) -> dict[str, int]:
        """Return the limits' values now."""
        return {name: limit.now for name, limit in self.limits.items()}

    def step(self, count: int = 1) -> "Run":
        """Go through so many samples, one in a second."""
        for _ in range(count):
            self.time += 1.0
            sample = self.plant.sample(self.time, self.values())
            self.samples.append(sample)
            self.changes += [(self.time, one) for one in self.domain.decide(sample, self.rules, self.scale)]
        return self

    def writes(self, *kinds: str) -> list[float]:
        """Return the times of the changes of these kinds."""
        return [time for time, change in self.changes if change.kind in kinds]


LONG = 600
STEP = 10
RULES = Rules(["gold"], ["bronze"], 0.85, 0.70)


RATE = {"gold": st.floats(0, 60e9), "silver": st.floats(0, 90e9), "bronze": st.floats(0, 120e9)}
PLANTS = st.builds(
    Plant,
    seed=st.integers(0, 10_000),
    response=st.sampled_from(sorted(RESPONSES)),
    delay=st.integers(0, 6),
    noise=st.floats(0, 0.1),
    gaps=st.sampled_from([0.0, 0.05, 0.4]),
    amd=st.booleans(),
    demand=st.fixed_dictionaries(RATE),
)
"""Domains of all shapes, some of them with samples that have no value."""


class Audit:
    """Checks that each change follows from the samples before it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.pressed: list[bool] = []  # of the samples with a value
        self.calm = self.missing = self.since_cut = 0
        self.missing_since = self.pressed_at = 0.0
        self.cut_at = float("-inf")

    def step(self) -> None:
        run, before = self.run, self.run.values()
        number, limits = len(run.changes), dict(run.limits)
        run.step()
        sample, changes = run.samples[-1], [change for _, change in run.changes[number:]]
        self._see(sample, limits)
        assert run.domain.state in law.STATES
        assert len(changes) <= 1 or {change.kind for change in changes} == {RESTORE}
        for change in changes:
            if change.kind != REPORT:
                assert change.old == before[change.name]
                assert limits[change.name].floor <= change.new <= limits[change.name].declared
            getattr(self, change.kind)(change, sample, limits)
        self.pressed_at = run.time if sum(self.pressed[-law.WINDOW :]) >= law.ENOUGH else self.pressed_at

    def _see(self, sample: Sample, limits: dict[str, Limit]) -> None:
        if sample.load is None:
            self.missing_since = self.missing_since if self.missing else sample.time
            self.missing, self.calm = self.missing + 1, 0
            return
        self.missing = 0
        self.since_cut += 1
        rules, traffic = self.run.rules, sample.load * sample.capacity
        is_full = sample.load >= rules.high and sample.rates["gold"] >= law.PROTECTED_SHARE * traffic
        self.pressed.append(
            is_full and any(sample.rates[one] >= law.THROTTLED_SHARE * traffic for one in rules.throttle)
        )
        held = next((name for name in reversed(rules.throttle) if limits[name].is_cut), "")
        gain = self.run.scale.gain(limits[held], sample.rates[held]) / sample.capacity if held else 0.0
        self.calm = self.calm + 1 if held and sample.load + gain < rules.low else 0

    def lower(self, change: Change, sample: Sample, limits: dict[str, Limit]) -> None:
        """Pressure since the last cut, or again and again; the first class that has room and moves enough."""
        assert sample.load is not None
        often = self.pressed[-1] and sum(self.pressed[-law.LONG_WINDOW :]) >= law.OFTEN
        assert sum(self.pressed[-min(law.WINDOW, self.since_cut) :]) >= law.ENOUGH or often
        assert sample.time - self.cut_at >= law.SETTLE
        traffic = sample.load * sample.capacity
        moving = [one for one in self.run.rules.throttle if sample.rates[one] >= law.THROTTLED_SHARE * traffic]
        could = [one for one in moving if limits[one].has_room]
        assert change.name == could[0]
        assert change.new < change.old
        if not self.run.plant.amd:
            assert change.old - change.new <= 2 * STEP
        self.cut_at, self.since_cut, self.calm = sample.time, 0, 0

    def raise_(self, change: Change, sample: Sample, limits: dict[str, Limit]) -> None:
        """Ten calm samples since the last step up, or no pressure for long; the last class that was cut."""
        assert sample.load is not None
        assert self.calm >= law.CALM or sample.time - self.pressed_at >= law.PROBE
        assert change.name == [name for name in self.run.rules.throttle if limits[name].is_cut][-1]
        assert change.new == self.run.scale.up(limits[change.name])
        self.calm = 0

    def restore(self, change: Change, sample: Sample, limits: dict[str, Limit]) -> None:
        """No value for long."""
        assert sample.load is None
        assert self.missing >= law.BLIND_SAMPLES
        assert sample.time - self.missing_since >= law.BLIND_SECONDS
        assert change.new == limits[change.name].declared

    def report(self, _: Change, __: Sample, limits: dict[str, Limit]) -> None:
        assert not any(limit.has_room for limit in limits.values())
        assert self.run.domain.since == self.run.time, "once for each exhaustion"


setattr(Audit, RAISE, Audit.raise_)


@pytest.mark.hypothesis
@settings(max_examples=40, deadline=None)
@given(PLANTS)
def test_each_change_follows_from_the_samples_and_no_limit_outlives_the_pressure(plant: Plant) -> None:
    run = Run(plant)
    audit = Audit(run)
    for _ in range(LONG):
        audit.step()
    times = run.writes(LOWER, RAISE)
    assert all(later - earlier >= 60 for earlier, later in zip(times, times[20:], strict=False))
    plant.demand, plant.gaps = dict.fromkeys(plant.demand, 1e9), 0.0
    # The longest wait before each of at most sixteen steps up, or half a minute after a blind phase.
    for _ in range(16 * 300):
        run.step()
        if run.domain.state == law.IDLE:
            break
    assert (run.domain.cut, run.domain.state) == ([], law.IDLE)


@pytest.mark.hypothesis
@settings(max_examples=20, deadline=None)
@given(PLANTS)
def test_steady_load_causes_no_oscillation(plant: Plant) -> None:
    plant.noise, plant.gaps = 0.0, 0.0
    run = Run(plant).step(2 * LONG)
    late = len(run.writes(LOWER, RAISE, RESTORE))
    run.step(1800)
    # A probe each ten minutes and the cut that answers it, or a release after the longest wait.
    assert len(run.writes(LOWER, RAISE, RESTORE)) - late <= 2 * 1800 / 300 + 2


FULL, HIGH, QUIET, BETWEEN = (0.95, 20, 75), (0.95, 20, 55), (0.3, 20, 10), (0.8, 70, 10)
"""Loads with the rates of gold and bronze in GB/s."""
NO_VALUE: Any = (None, 0, 0)
LOADS: dict[str, tuple[int, list[Any], list[Any], str]] = {
    "pressure": (100, [(3, FULL)], [(3, LOWER, 90)], law.SETTLING),
    "burst": (100, [(2, FULL), (300, QUIET)], [], law.IDLE),
    "no victim": (100, [(60, (0.95, 0, 75))], [], law.IDLE),
    "nothing to cut": (100, [(60, (0.95, 90, 5))], [], law.IDLE),
    "no effect": (100, [(12, FULL)], [(3, LOWER, 90), (6, LOWER, 70), (9, LOWER, 50), (12, LOWER, 30)], law.SETTLING),
    "an effect": (100, [(3, FULL), (6, HIGH)], [(3, LOWER, 90), (6, LOWER, 80), (9, LOWER, 60)], law.SETTLING),
    "exhausted": (30, [(200, FULL)], [(3, LOWER, 20), (6, REPORT, 0)], law.EXHAUSTED),
    "calm": (80, [(4, QUIET), (1, BETWEEN), (12, QUIET)], [(15, RAISE, 90)], law.RELEASING),
    "pressure soon after a step up": (
        80, [(10, QUIET), (26, BETWEEN), (3, FULL), (60, QUIET)],
        [(10, RAISE, 90), (39, LOWER, 80), (81, RAISE, 90), (91, RAISE, 100)], law.IDLE,
    ),
    "pressure later": (
        80, [(10, QUIET), (27, BETWEEN), (3, FULL), (60, QUIET)],
        [(10, RAISE, 90), (40, LOWER, 80), (62, RAISE, 90), (72, RAISE, 100)], law.IDLE,
    ),
    "between the loads": (50, [(200, BETWEEN)], [], law.HOLDING),
    "probe": (50, [(700, BETWEEN)], [(600, RAISE, 60)], law.HOLDING),
    "blind": (50, [(3, NO_VALUE)], [], law.BLIND),
    "long blind": (50, [(20, NO_VALUE)], [(11, RESTORE, 100)], law.BLIND),
    "unknown samples between full ones": (100, [(1, NO_VALUE), (1, FULL)] * 3, [(6, LOWER, 90)], law.SETTLING),
}  # fmt: skip


@pytest.mark.parametrize("start, script, changes, state", LOADS.values(), ids=LOADS)
def test_loads_cause_these_changes(start: int, script: list[Any], changes: list[Any], state: str) -> None:
    domain, time, found = Domain({"bronze": Limit(100, 20, start)}, 0), 0, []
    for seconds, (load, gold, bronze) in script:
        for _ in range(seconds):
            time += 1
            sample = Sample(time, load, CAPACITY, {"gold": gold * 1e9, "bronze": bronze * 1e9})
            found += [(time, one.kind, one.new) for one in domain.decide(sample, RULES, PerCent(STEP))]
    assert (found, domain.state) == (changes, state)


def test_pressure_of_classes_without_room_is_not_exhaustion_while_another_has_room() -> None:
    domain = Domain({"bronze": Limit(100, 20, 20), "silver": Limit(100, 50)}, 0)
    rules = Rules(["gold"], ["bronze", "silver"], 0.85, 0.70)
    for time in range(1, 9):
        full = Sample(float(time), 0.95, CAPACITY, {"gold": 60e9, "bronze": 30e9, "silver": 5e9})
        assert domain.decide(full, rules, PerCent(STEP)) == []
    assert domain.state == law.PRESSED


@pytest.mark.parametrize("amd", [False, True])
def test_class_that_idles_at_its_limit_is_released(*, amd: bool) -> None:
    # The kernel's own controller (mba_MBps) did not release such a class until Linux 6.9.
    plant = Plant(1, amd=amd, noise=0.0, demand={"gold": 50e9, "silver": 1e9, "bronze": 90e9})
    run = Run(plant).step(60)
    assert run.limits["bronze"].is_cut
    plant.demand["bronze"] = 0.0
    assert not run.step(60 if amd else 200).limits["bronze"].is_cut


@pytest.mark.parametrize("busy, quiet", [(2, 2), (2, 5), (10, 40), (30, 120)])
def test_alternating_load_is_cut_and_not_raised_in_each_pause(busy: int, quiet: int) -> None:
    run = Run(Plant(1, noise=0.0, demand={"gold": 15e9, "bronze": 85e9}))
    full: list[bool] = []
    while run.time < 1800:
        is_busy = run.time % (busy + quiet) < busy
        run.plant.demand["bronze"] = 85e9 if is_busy else 1e9
        run.step()
        if is_busy and run.time > 180:
            full.append(sum(run.plant.sample(run.time, run.values()).rates.values()) >= 0.85 * CAPACITY)
    assert sum(full) <= 0.1 * len(full)
    raises = [time for time in run.writes(RAISE) if time > 180]
    assert all(later - earlier >= 600 for earlier, later in itertools.pairwise(raises))
    assert len(raises) <= 1620 / 600 + 1


def test_steps_of_a_limit() -> None:
    scale, limit = OfRate(), Limit(2048, 80)
    first = limit.at(scale.down(limit, 40e9, 1), int(40e9 / AMD_UNIT))
    assert first.now == int(40e9 / AMD_UNIT * 0.8)
    assert scale.down(first, 32e9, 1) == int(32e9 / AMD_UNIT * 0.8)
    assert (scale.up(first.at(200)), scale.up(first.at(300))) == (251, 2048)
    assert all(scale.down(Limit(2048, 80, 100), rate, 2) >= 80 for rate in (0.0, 1e9, 300e9))
    cut = limit.at(400)
    assert (cut.now, cut.before, cut.at(300, 700).before) == (400, 0, 700), "a limit without a rate before its cut"
    assert (cut.at(300, 700).at(200, 500).before, cut.at(300, 700).at(2048).before) == (700, 0)
    assert PerCent(10).gain(Limit(100, 20, 50), 10e9) == 2e9, "in proportion to the value"
    assert PerCent(10).gain(Limit(100, 0, 0), 10e9) == 100e9
    assert scale.gain(Limit(2048, 80, 400, before=800), 40e9) == 40e9 * (501 - 400) / 400
    assert scale.gain(Limit(2, 1, 1), 1e9) == 1e9


def at_slowdown(domain: Domain, time: float, ratio: float | None) -> list[Change]:
    rules = Rules([], ["bronze"], 0.85, 0.70, at_slowdown=True, beside=lambda _: ["gold"])
    ratios = {} if ratio is None else {"gold": ratio}
    rates = {"gold": 20e9, "bronze": 50e9}
    return domain.decide(Sample(time, 0.7, CAPACITY, rates, [*ratios], ratios), rules, PerCent(STEP))


@pytest.mark.parametrize("after, taken_back", [(1.6, True), (1.3, False)])
def test_growing_slowdown_of_pods_on_the_same_cores_takes_a_cut_back(after: float, *, taken_back: bool) -> None:
    domain = Domain({"bronze": Limit(100, 20)}, 0.0)
    changes = [change for second in range(3) for change in at_slowdown(domain, float(second), 1.3)]
    assert [(change.kind, change.new) for change in changes] == [(LOWER, 90)]
    for second in range(3, 35):  # the windows since then are not complete
        assert not at_slowdown(domain, float(second), None)
    (change,) = at_slowdown(domain, 36.0, after) or [Change("", "", 0, 0, "")]
    assert (change.kind == RAISE) is taken_back
    assert ("whose pods are slowed 1.60 times, not 1.30" in change.reason) is taken_back
