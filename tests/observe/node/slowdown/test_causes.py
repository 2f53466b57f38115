"""Verdicts and causes from samples: every kind of scene has one that its rule must tell from the others."""

from typing import Any

import pytest

from observe.node.slowdown.samples import NOISY, OTHER, SECONDS, VICTIM, WORK, diagnose, quiet_baseline, use, window
from resctrl_hooks.observe.node.slowdown.baseline import Baseline
from resctrl_hooks.observe.node.slowdown.causes import Cause
from resctrl_hooks.observe.node.slowdown.use import Use
from resctrl_hooks.observe.node.slowdown.verdict import latest
from resctrl_hooks.observe.node.slowdown.window import Window

BANDWIDTH, CACHE, OWN = "memory-bandwidth", "l3-cache", "own-change"


def supported(causes: dict[str, Cause]) -> set[str]:
    """Return the names of the supported causes."""
    return {name for name, cause in causes.items() if cause.state == "supported"}


def culprits(cause: Cause) -> list[str]:
    """Return the keys of the named pods."""
    return [one.key for one in cause.pods]


def six(load: float | None = 0.1, **uses: Use) -> list[Window]:
    """Return six equal windows."""
    return [window(number, load, **uses) for number in range(6)]


def test_full_memory_slows_the_pod_and_names_the_neighbour() -> None:
    windows = six(0.9, victim=use(3.2, 6e8), noisy=use(2.0, 4e9))
    verdict, causes = diagnose(windows, quiet_baseline())
    assert verdict.verdict == "slowed"
    assert verdict.ratio == pytest.approx(1.6, rel=0.05)
    assert supported(causes) == {BANDWIDTH}
    assert [(one.key, one.share) for one in causes[BANDWIDTH].pods] == [(NOISY, 1.0)]
    assert causes[BANDWIDTH].text == "memory domain 0 is loaded to 90%"
    assert causes[CACHE].state == causes[OWN].state == "excluded"


def test_two_culprits_are_named_with_their_parts_and_a_small_one_is_not() -> None:
    windows = six(0.9, victim=use(3.2), noisy=use(2.0, 6e9), other=use(2.0, 3e9), small=use(2.0, 5e8))
    _, causes = diagnose(windows, quiet_baseline())
    assert culprits(causes[BANDWIDTH]) == [NOISY, OTHER]
    assert [one.share for one in causes[BANDWIDTH].pods] == pytest.approx([6 / 9.5, 3 / 9.5])


def test_culprit_that_comes_and_goes_is_found_by_its_correlation_without_a_capacity() -> None:
    windows = [
        window(i, None, victim=use(3.4 if i % 2 else 2.0), noisy=use(2.0, 5e9 if i % 2 else 1e7), other=use(2.0, 1e9))
        for i in range(12)
    ]
    verdict, causes = diagnose(windows, quiet_baseline())
    assert (verdict.verdict, supported(causes)) == ("slowed", {BANDWIDTH})
    (culprit,) = causes[BANDWIDTH].pods
    assert culprit.key == NOISY
    assert culprit.correlation == pytest.approx(1.0)


def test_too_few_changes_prove_nothing_without_a_capacity() -> None:
    windows = [
        window(i, None, victim=use(3.4 if i % 2 else 2.5), noisy=use(2.0, 5e9 if i % 2 else 1e7)) for i in range(6)
    ]
    _, causes = diagnose(windows, quiet_baseline())
    assert causes[BANDWIDTH].state == "unknown"
    assert "monitoring.capacity" in causes[BANDWIDTH].text


def test_loud_neighbour_in_another_memory_domain_is_not_blamed() -> None:
    windows = [
        window(i, {0: 0.1, 1: 0.95}, victim=use(3.2, {0: 1e9, 1: 0.0}), noisy=use(2.0, {0: 0.0, 1: 9e9}))
        for i in range(8)
    ]
    verdict, causes = diagnose(windows, quiet_baseline())
    assert verdict.verdict == "slowed"
    assert supported(causes) == {OWN}
    assert all(not cause.pods for cause in causes.values())


def test_lost_cache_names_the_pod_that_holds_it() -> None:
    baseline = quiet_baseline(occupancy={0: 8e6})
    windows = six(
        0.3,
        victim=use(5.0, missed=8.0, occupancy={0: 5e6}),
        noisy=use(2.0, occupancy={0: 6e6}),
        other=use(2.0, occupancy={1: 9e6}),
    )
    _, causes = diagnose(windows, baseline)
    assert supported(causes) == {CACHE}
    assert culprits(causes[CACHE]) == [NOISY]


def test_more_misses_without_neighbours_are_the_pods_own_change() -> None:
    windows = six(0.3, victim=use(5.0, missed=8.0, occupancy={0: 8e6}))
    verdict, causes = diagnose(windows, quiet_baseline(occupancy={0: 2e6}))
    assert (verdict.verdict, supported(causes)) == ("slowed", {OWN})


def test_work_that_moves_more_is_the_pods_own_change_also_beside_full_memory() -> None:
    windows = six(0.9, victim=use(5.0, missed=8.0, occupancy={0: 8e6}), noisy=use(2.0, 4e9, occupancy={0: 1e5}))
    verdict, causes = diagnose(windows, quiet_baseline(occupancy={0: 8e6}))
    assert (verdict.verdict, supported(causes)) == ("slowed", {OWN})
    assert causes[BANDWIDTH].state == "unknown"
    assert not causes[BANDWIDTH].pods


def test_taken_cache_does_not_excuse_full_memory() -> None:
    windows = six(0.9, victim=use(5.0, missed=8.0, occupancy={0: 4e6}), noisy=use(2.0, 4e9, occupancy={0: 8e6}))
    _, causes = diagnose(windows, quiet_baseline(occupancy={0: 8e6}))
    assert supported(causes) == {BANDWIDTH, CACHE}


def test_more_misses_prove_nothing_where_nobody_counts_the_cache() -> None:
    windows = six(0.3, victim=use(5.0, missed=8.0, occupancy={}), noisy=use(2.0, 4e9))
    verdict, causes = diagnose(windows, quiet_baseline())
    assert (verdict.verdict, supported(causes)) == ("slowed", set())
    assert causes[CACHE].state == "unknown"


def test_own_limit_slows_beside_a_loud_neighbour_that_is_not_blamed() -> None:
    windows = six(0.9, victim=use(2.0, throttled=0.5, waited=0.5, stood=0.5, throttles=50), noisy=use(2.0, 4e9))
    verdict, causes = diagnose(windows, quiet_baseline())
    assert verdict.verdict == "slowed"
    assert verdict.ratio == pytest.approx(2.0, rel=0.05)
    assert supported(causes) == {"cpu-limit"}
    assert "300 times, for 50%" in causes["cpu-limit"].text


def test_shared_cpu_names_the_busy_pods_that_may_run_there() -> None:
    windows = six(
        victim=use(2.0, cpu=0.5, waited=0.5, stood=0.5, cpus=1),
        noisy=use(2.0, cpu=0.5, cpus=1),
        other=use(2.0, cpu=1.0, cpus=2),
    )
    verdict, causes = diagnose(windows, quiet_baseline())
    assert (verdict.verdict, supported(causes)) == ("slowed", {"cpu-contention"})
    assert culprits(causes["cpu-contention"]) == [NOISY]


def test_own_memory_limit_and_slower_clock_have_their_own_evidence() -> None:
    limited = six(victim=use(2.0, reclaimed=0.4, reclaimed_fully=0.4, memory_events=9))
    verdict, causes = diagnose(limited, quiet_baseline())
    assert (verdict.verdict, supported(causes)) == ("slowed", {"memory-limit"})
    slow = six(victim=use(3.0, clock=0.66))
    _, causes = diagnose(slow, quiet_baseline())
    assert supported(causes) == {"frequency"}


def test_without_a_baseline_the_verdict_is_unknown_and_never_normal() -> None:
    windows = six(0.9, victim=use(3.2), noisy=use(2.0, 4e9))
    for baseline in (None, quiet_baseline(samples=9)):
        verdict, causes = diagnose(windows, baseline)
        assert (verdict.verdict, verdict.ratio, supported(causes)) == ("unknown", None, set())
        assert "no baseline yet" in verdict.reason


def test_other_intensity_of_work_is_unknown() -> None:
    idle = six(victim=use(3.2, work=WORK / 1000))
    verdict, _ = diagnose(idle, quiet_baseline())
    assert (verdict.verdict, verdict.reason) == (
        "unknown",
        "its baseline has too few samples at this intensity of work",
    )


def test_slowed_pod_is_compared_although_it_does_less_work() -> None:
    for slowdown in (1.3, 2.0, 3.5):
        windows = six(0.9, victim=use(2.0 * slowdown, work=WORK / slowdown))
        verdict, _ = diagnose(windows, quiet_baseline())
        assert verdict.ratio == pytest.approx(slowdown, rel=0.05)


def test_normal_pod_beside_a_loud_harmless_neighbour_is_normal() -> None:
    windows = [window(i, 0.95, victim=use(2.0 + 0.05 * (i % 3)), noisy=use(2.0, 9e9)) for i in range(9)]
    verdict, causes = diagnose(windows, quiet_baseline())
    assert (verdict.verdict, supported(causes)) == ("normal", set())


def test_noisy_workload_needs_a_larger_ratio() -> None:
    baseline = Baseline()
    for number in range(40):
        baseline.learn(use(2.0 if number % 3 else 4.0), SECONDS)
    verdict, _ = diagnose(six(victim=use(2.6)), baseline)
    assert verdict.verdict == "normal"


def test_program_that_lived_in_the_cache_and_misses_now_lost_it_to_its_neighbour() -> None:
    lost = use(2.6, missed=0.5, occupancy={0: 1e6})
    windows = six(0.2, victim=lost, noisy=use(2.0, 4e8, occupancy={0: 4e6}))
    _, causes = diagnose(windows, quiet_baseline(missed=0.0, occupancy={0: 4e6}))
    assert supported(causes) == {CACHE}
    assert culprits(causes[CACHE]) == [NOISY]


def test_pod_without_traffic_has_no_memory_domain() -> None:
    windows = six(0.9, victim=use(2.6, 0.0), noisy=use(2.0, 4e9))
    _, causes = diagnose(windows, quiet_baseline())
    assert causes[BANDWIDTH].state == "excluded"
    assert VICTIM not in culprits(causes[BANDWIDTH])


@pytest.mark.parametrize("load, verdict", [(0.9, "slowed"), (0.3, "unknown"), (None, "unknown")])
def test_estimate_by_traffic_needs_a_loaded_domain(load: float | None, verdict: str) -> None:
    windows = six(load, victim=use(3.2, method="traffic"), noisy=use(2.0, 4e9))
    found, _ = diagnose(windows, quiet_baseline(method="traffic"))
    assert found.verdict == verdict
    assert (found.ratio is None) is (verdict == "unknown")


@pytest.mark.parametrize(
    "method, price, stood, verdict",
    [("traffic", 2.4, 0.0, "normal"), ("traffic", 2.6, 0.0, "slowed"), ("perf", 2.4, 0.0, "slowed"),
     ("traffic", 2.2, 0.2, "slowed")],
    ids=["estimate of 1.2", "estimate of 1.3", "counters of 1.2", "estimate, and waits of a fifth"],
)  # fmt: skip
def test_small_rise_by_traffic_is_no_slowdown_and_one_by_counters_or_with_waits_is(
    method: str, price: float, stood: float, verdict: str
) -> None:
    victim = use(price, method=method, stood=stood, waited=stood, throttled=stood)
    windows = six(0.9, victim=victim, noisy=use(2.0, 4e9))
    found, _ = diagnose(windows, quiet_baseline(method=method))
    assert found.verdict == verdict


def test_pod_with_counters_in_turns_is_judged_by_them_and_not_by_the_estimate_between() -> None:
    estimate: dict[str, Any] = {"method": "traffic", "work": 10.0, "missed": None}
    windows = [
        window(i, 0.9, victim=use(3.2) if i % 3 == 0 else use(1.0, **estimate), noisy=use(2.0, 4e9)) for i in range(11)
    ]
    verdict, causes = diagnose(windows, quiet_baseline())
    assert (verdict.method, verdict.samples) == ("perf", 4)
    assert verdict.ratio == pytest.approx(1.6, rel=0.05)
    assert supported(causes) == {BANDWIDTH}
    assert len(latest(windows, VICTIM, 2)) == 5, "two samples of the best grade, and the windows since"


def test_multiplexed_counters_without_half_of_the_time_give_no_sample() -> None:
    windows = [window(i, 0.9, victim=use(None), noisy=use(2.0, 4e9)) for i in range(8)]
    verdict, _ = diagnose(windows, quiet_baseline())
    assert (verdict.verdict, verdict.method, verdict.samples) == ("unknown", "perf", 0)
