"""The guard's law on made-up memory domains: what holds whatever the processor does with a limit."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.resctrl.bandwidth_unit import AMD_UNIT
from resctrl_hooks.observe.node.guard.law import (
    BLIND,
    CALM,
    EXHAUSTED,
    HOLDING,
    IDLE,
    LOWER,
    PRESSED,
    RAISE,
    RELEASING,
    REPORT,
    RESTORE,
    SETTLING,
    Change,
    Domain,
    Rules,
)
from resctrl_hooks.observe.node.guard.limit import Limit, OfRate, PerCent
from resctrl_hooks.observe.node.guard.sample import Sample

from .plants import CAPACITY, RESPONSES, Plant, Queue, Run

LONG = 600
RULES = Rules(["gold"], ["bronze"], 0.85, 0.70)


def decided(domain: Domain, time: float, load: float | None, **rates: float) -> list[Change]:
    """Return the changes for a sample of these rates in GB/s under `RULES`, on Intel."""
    sample = Sample(time, load, CAPACITY, {name: rate * 1e9 for name, rate in rates.items()})
    return domain.decide(sample, RULES, PerCent(10))


def plants() -> st.SearchStrategy[Plant]:
    """Domains of all shapes, some of them with samples that have no value."""
    return st.builds(
        Plant,
        seed=st.integers(0, 10_000),
        response=st.sampled_from(sorted(RESPONSES)),
        delay=st.integers(0, 6),
        noise=st.floats(0, 0.1),
        gaps=st.sampled_from([0.0, 0.05, 0.4]),
        amd=st.booleans(),
        demand=st.fixed_dictionaries(
            {"gold": st.floats(0, 60e9), "silver": st.floats(0, 90e9), "bronze": st.floats(0, 120e9)}
        ),
    )


@pytest.mark.hypothesis
@settings(max_examples=60, deadline=None)
@given(plants())
def test_limits_stay_between_floor_and_declared_value(plant: Plant) -> None:
    run = Run(plant).step(LONG)
    for _, change in run.writes():
        limit = run.limits[change.name]
        assert limit.floor <= change.new <= limit.declared
        assert change.name in ("bronze", "silver"), "a class that is protected or not named"


@pytest.mark.hypothesis
@settings(max_examples=60, deadline=None)
@given(plants())
def test_writes_are_bounded_per_minute(plant: Plant) -> None:
    times = [time for time, _ in Run(plant).step(LONG).writes(LOWER, RAISE)]
    for start in times:
        assert sum(1 for time in times if start <= time < start + 60) <= 20


@pytest.mark.hypothesis
@settings(max_examples=60, deadline=None)
@given(plants())
def test_all_limits_are_restored_after_the_pressure_ends(plant: Plant) -> None:
    run = Run(plant).step(LONG)
    plant.demand = dict.fromkeys(plant.demand, 1e9)
    plant.gaps = 0.0
    # The longest wait before each of at most sixteen steps up, or half a minute after a blind phase.
    run.step(16 * 300)
    assert all(limit.now == limit.declared for limit in run.limits.values())
    assert run.domain.state == IDLE


@pytest.mark.hypothesis
@settings(max_examples=40, deadline=None)
@given(plants())
def test_steady_load_causes_no_oscillation(plant: Plant) -> None:
    plant.noise, plant.gaps = 0.0, 0.0
    run = Run(plant).step(2 * LONG)
    late = len(run.writes())
    run.step(1800)
    # A probe each ten minutes and the cut that answers it, or a release after the longest wait.
    assert len(run.writes()) - late <= 2 * 1800 / 300 + 2


def test_pressure_with_a_victim_lowers_the_first_class() -> None:
    run = Run(Plant(1)).step(5)
    _, first = run.writes()[0]
    assert (first.kind, first.name, first.old, first.new) == (LOWER, "bronze", 100, 90)
    assert run.domain.state == SETTLING


@pytest.mark.parametrize(
    "demand",
    [{"gold": 0.0, "silver": 30e9, "bronze": 90e9}, {"gold": 120e9, "silver": 1e9, "bronze": 1e9}],
    ids=["no protected class", "protected classes only"],
)
def test_full_domain_without_a_victim_or_a_class_to_cut_is_left_alone(demand: dict[str, float]) -> None:
    assert Run(Plant(1, demand=demand)).step(60).writes() == []


def test_cut_without_effect_is_followed_by_double_cut() -> None:
    run = Run(Plant(1, response="dead zone", noise=0.0)).step(20)
    values = [change.new for _, change in run.writes(LOWER) if change.name == "bronze"]
    assert values[:3] == [90, 70, 50]


def test_second_class_is_lowered_only_after_the_first_is_at_its_floor() -> None:
    run = Run(Plant(1, demand={"gold": 60e9, "silver": 60e9, "bronze": 60e9})).step(120)
    names = [change.name for _, change in run.writes(LOWER)]
    assert "silver" in names
    assert names == sorted(names)
    bronze_at = [change.new for _, change in run.writes(LOWER) if change.name == "bronze"]
    assert bronze_at[-1] == 20


def test_exhausted_domain_is_reported_once_and_not_written() -> None:
    run = Run(Plant(1, response="no effect", demand={"gold": 60e9, "silver": 60e9, "bronze": 60e9})).step(200)
    assert run.domain.state == EXHAUSTED
    ((_, report),) = run.writes(REPORT)
    assert (report.name, report.old, report.new) == ("", 0, 0)
    last = run.writes()[-1][0]
    assert run.step(200).writes()[-1][0] == last


def test_load_between_the_thresholds_holds_the_limits() -> None:
    run = Run(Plant(1, noise=0.0)).step(60)
    assert run.domain.state == HOLDING
    assert len(run.step(200).writes(LOWER)) == len(run.writes(LOWER))


def test_class_that_idles_at_its_limit_is_released() -> None:
    # The kernel's own controller (mba_MBps) did not release such a class until Linux 6.9.
    run = Run(Plant(1)).step(60)
    run.plant.demand["bronze"] = 0.0
    run.plant.demand["silver"] = 1e9
    run.step(200)
    assert run.limits["bronze"].now == 100


def test_pressure_soon_after_a_release_doubles_the_wait() -> None:
    domain = Domain({"bronze": Limit(100, 20, 80)}, 0)
    time, waits, since = 0.0, [], 0.0
    for _ in range(3):
        time += 1
        while not any(one.kind == RAISE for one in decided(domain, time, 0.3, gold=20, bronze=10)):
            time += 1
        waits.append(time - since)
        while not any(one.kind == LOWER for one in decided(domain, time, 0.95, gold=20, bronze=70)):
            time += 1
        since = time
    assert waits[1] > 1.5 * waits[0]
    assert waits[2] > 1.5 * waits[1]


def test_tenth_calm_sample_in_a_row_releases_one_step() -> None:
    domain = Domain({"bronze": Limit(100, 20, 80)}, 0)
    changes = {}
    for time in range(1, 22):
        for change in decided(domain, time, 0.8 if time == 5 else 0.3, gold=20, bronze=10):
            changes[time] = change.new
    assert (changes, domain.state) == ({15: 90}, RELEASING)
    domain.limits["bronze"] = Limit(100, 20)
    decided(domain, 22.0, 0.3)
    assert (domain.state, domain.since) == (IDLE, 22.0)


@pytest.mark.parametrize("after, wait", [(29.9, 2 * CALM), (30.0, CALM)])
def test_pressure_half_a_minute_after_a_release_does_not_double_the_wait(after: float, wait: int) -> None:
    domain = Domain({"bronze": Limit(100, 20, 80)}, 0)
    domain._raised, domain._window = 100.0, [True] * 3
    decided(domain, 100.0 + after, 0.95, gold=20, bronze=70)
    assert domain._wait == wait


def test_pressure_of_classes_without_room_is_not_exhaustion_while_another_has_room() -> None:
    domain = Domain({"bronze": Limit(100, 20, 20), "silver": Limit(100, 50)}, 0)
    rules = Rules(["gold"], ["bronze", "silver"], 0.85, 0.70)
    for time in range(1, 9):
        full = Sample(float(time), 0.95, CAPACITY, {"gold": 60e9, "bronze": 30e9, "silver": 5e9})
        assert domain.decide(full, rules, PerCent(10)) == []
    assert domain.state == PRESSED


def test_limit_without_a_rate_has_no_rate_before_its_cut() -> None:
    cut = Limit(2048, 80).at(400)
    assert (cut.now, cut.before, cut.at(300, 700).before) == (400, 0, 700)
    assert (cut.at(300, 700).at(200, 500).before, cut.at(300, 700).at(2048).before) == (700, 0)


def test_unconfirmed_cut_is_released_by_a_probe() -> None:
    domain = Domain({"bronze": Limit(100, 20, 50)}, 0)
    changes: list[Any] = []
    for time in range(1, 700):
        changes += [(time, one.kind, one.new) for one in decided(domain, time, 0.8, gold=70, bronze=10)]
    assert changes == [(600, RAISE, 60)]


def test_unknown_load_holds_first_and_restores_after_ten_seconds() -> None:
    domain = Domain({"bronze": Limit(100, 20, 50)}, 0)
    found = {}
    for time in range(1, 20):
        for change in decided(domain, time, None):
            found[time] = (change.kind, change.new)
        if time == 3:
            assert domain.state == BLIND
    assert found == {11: (RESTORE, 100)}


def test_overridden_class_is_never_changed() -> None:
    run = Run(Plant(1), limits={"bronze": Limit(100, 20, 70, overridden=True), "silver": Limit(100, 50)}).step(60)
    assert {change.name for _, change in run.writes()} == {"silver"}


def test_amd_cut_begins_at_the_measured_rate_and_ends_at_the_declared_value() -> None:
    scale = OfRate()
    limit = Limit(2048, 80)
    first = limit.at(scale.down(limit, 40e9, 1), int(40e9 / AMD_UNIT))
    assert first.now == int(40e9 / AMD_UNIT * 0.8)
    assert scale.down(first, 32e9, 1) == int(32e9 / AMD_UNIT * 0.8)
    assert scale.up(first.at(200)) == 251
    assert scale.up(first.at(300)) == 2048


@pytest.mark.parametrize(
    "amd, back, cuts, released, raises", [(False, 12, 5, 80, 8), (True, 6, 4, 40, 4)], ids=["Intel", "AMD"]
)
def test_victim_in_a_queue_has_its_work_back_and_its_neighbours_theirs(
    back: int, cuts: int, released: int, raises: int, *, amd: bool
) -> None:
    plant = Queue(1, amd=amd)
    limits = {"bronze": Limit(2048, 160) if amd else Limit(100, 20)}
    run = Run(plant, limits, RULES)
    work = []
    for _ in range(120):
        run.step()
        work.append(plant.sample(0.0, run.values()).rates["gold"] / plant.core)
    assert work[0] == pytest.approx(0.5)
    assert next(second for second, part in enumerate(work, 1) if part > 0.95) <= back
    assert len(run.writes(LOWER)) <= cuts
    plant.neighbours = 0
    run.step(released)
    assert not run.limits["bronze"].is_cut
    assert len(run.writes(RAISE)) <= raises


def test_amd_class_that_ended_is_released_within_a_minute() -> None:
    plant = Plant(1, amd=True, noise=0.0, demand={"gold": 50e9, "bronze": 90e9})
    run = Run(plant).step(60)
    assert run.limits["bronze"].is_cut
    plant.demand["bronze"] = 0.0
    run.step(60)
    assert run.limits["bronze"].now == 2048


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
    raises = [time for time, _ in run.writes(RAISE) if time > 180]
    assert all(later - earlier >= 600 for earlier, later in itertools.pairwise(raises))
    assert len(raises) <= 1620 / 600 + 1


@pytest.mark.parametrize("busy", [1, 2])
def test_single_burst_causes_no_cut(busy: int) -> None:
    run = Run(Plant(1, noise=0.0, demand={"gold": 15e9, "bronze": 85e9})).step(busy)
    run.plant.demand["bronze"] = 1e9
    assert run.step(300).writes() == []


def test_unknown_samples_between_full_ones_do_not_prevent_a_cut() -> None:
    domain, cut = Domain({"bronze": Limit(100, 20)}, 0), []
    for time in range(1, 12):
        load = None if time % 2 else 0.95
        cut += [one.new for one in decided(domain, time, load, gold=20, bronze=75) if one.kind == LOWER]
    assert cut


def test_gain_of_a_step_is_in_proportion_to_the_value() -> None:
    assert PerCent(10).gain(Limit(100, 20, 50), 10e9) == 2e9
    assert PerCent(10).gain(Limit(100, 0, 0), 10e9) == 100e9
    assert OfRate().gain(Limit(2048, 80, 400, before=800), 40e9) == 40e9 * (501 - 400) / 400
    assert OfRate().gain(Limit(2, 1, 1), 1e9) == 1e9


@pytest.mark.parametrize("rate", [0.0, 1e9, 300e9])
def test_amd_limit_never_falls_below_its_floor(rate: float) -> None:
    assert OfRate().down(Limit(2048, 80, 100), rate, 2) >= 80
