"""Noisy pods of a recording: the limits at which a noisy time begins, goes on and ends, and the answer in words."""

from typing import Any

import pytest

from resctrl_hooks.observe.node.history.rows import REST
from resctrl_hooks.observe.recording.analysis import Recording, recording_of
from resctrl_hooks.observe.recording.noise import answer, noisy

from .rows import L3, START, rows_of


def recorded(*given: Any, **named: Any) -> Recording:
    return recording_of(rows_of(*given, **named))


def times(found: Recording, name: str = "shop/loud") -> list[tuple[float, float]]:
    """Return the noisy times of a pod, in seconds since the start, in order of time."""
    begin = START.timestamp()
    return sorted((one.start - begin, one.end - begin) for one in noisy(found) if one.user.name == name)


@pytest.mark.parametrize(
    "loud, other, is_noisy",
    [
        (3.4, 6.6, True),
        (3.2, 6.8, False),
        (4.0, 8.0, False),  # exactly a third
        (4.0, 1.1, True),  # just above half of the domain's peak, which is 10
        (4.0, 0.9, False),
        (4.0, 1.0, False),  # exactly half
    ],
)
def test_noisy_time_begins_above_a_third_of_a_busy_domain(loud: float, other: float, is_noisy: bool) -> None:
    peak = max(10.0, loud + other)
    found = recorded({"loud": [0, loud, 0], "other": [peak, other, 0]})
    assert times(found) == ([(1, 2)] if is_noisy else [])


@pytest.mark.parametrize(
    "loud, other, ends",
    [
        (2.3, 7.7, False),  # two thirds of a third are 22 %
        (2.1, 7.9, True),
        (3.0, 0.4, False),  # two thirds of half of the peak are 3.3 GB/s
        (3.0, 0.2, True),
    ],
)
def test_noisy_time_goes_on_above_two_thirds_of_the_limits(loud: float, other: float, ends: bool) -> None:
    found = times(recorded({"loud": [8, *[loud] * 4], "other": [2, *[other] * 4]}))
    assert found == ([(0, 1)] if ends else [(0, 5)])


@pytest.mark.parametrize("step, samples, count", [(1, 60, 1), (1, 61, 2), (30, 3, 1), (30, 4, 2), (10, 6, 1)])
def test_noisy_time_goes_on_over_a_minute_or_three_samples(step: int, samples: int, count: int) -> None:
    """The bursts are so long that the pod has more than a third of the whole time's traffic."""
    burst = 30
    found = recorded(
        {
            name: [more] * burst + [less] * samples + [more] * burst
            for name, more, less in (("loud", 8, 1), ("other", 2, 9))
        },
        step,
    )
    last = 2 * burst + samples
    expected = [(0, last * step)] if count == 1 else [(0, burst * step), ((last - burst) * step, last * step)]
    assert times(found) == expected


def test_minute_is_counted_from_the_last_noisy_sample() -> None:
    """A share above two thirds of the limit ends an interruption."""
    found = recorded({"loud": [8, 1, 2.5, 2.5, 1], "other": [2, 9, 7.5, 7.5, 9]})
    assert times(found) == [(0, 4)]


def test_interruption_is_left_out_where_it_makes_the_share_of_the_whole_time_too_small() -> None:
    others = {f"p{number}": [0.5, *[2.5] * 30, 0.5] for number in range(4)}
    assert times(recorded({"loud": [8, *[0] * 30, 8], **others})) == [(0, 1), (31, 32)]


def test_noisy_time_ends_where_its_share_of_the_whole_time_falls_to_a_third() -> None:
    """A quarter of the traffic is above two thirds of the limit; the burst before is a noisy time all the same."""
    others = {f"p{number}": [0.5, *[1.875] * 100] for number in range(4)}
    assert times(recorded({"loud": [8, *[2.5] * 100], **others})) == [(0, 6)]


def test_traffic_in_interruptions_counts() -> None:
    (one,) = [one for one in noisy(recorded({"loud": [8, 2, 8], "other": [1, 8, 1]}, 2)) if one.user.key == "loud"]
    assert (one.moved, one.of) == (36e9, 56e9)


def test_time_with_a_twentieth_of_the_largest_traffic_is_left_out() -> None:
    for rate, is_listed in ((20.0, False), (20.1, True)):
        small = rows_of({"small": [rate, *[0] * 19]}, domains=["mon_L3_02"])
        found = recording_of([*rows_of({"loud": [20] * 20}, domains=L3), *small])
        assert bool(times(found, "shop/small")) is is_listed
    assert [one.user.key for one in noisy(found)] == ["loud", "loud", "small"], "most bytes first"


def test_ungrouped_tasks_and_idle_domains_are_not_noisy() -> None:
    assert noisy(recorded({"loud": [8]}, kind=REST)) == []
    assert noisy(recorded({"idle": [0, 0]})) == []


@pytest.mark.parametrize("number", [3, 4])
def test_equal_pods_are_not_noisy(number: int) -> None:
    found = recorded({f"p{one}": [100] * 5 for one in range(number)})
    assert noisy(found) == []
    assert answer(found) == "No pod was noisy."


def test_wavering_burst_is_one_time_and_neighbours_have_none() -> None:
    burst = [1.0, 0.9, 0.35, 1.1, 0.45, 1.05, 1.0, 0.3, 0.95, 1.0] * 2
    quiet = [0.05] * 10
    neighbour = [0.25, 0.25, 0.25, 0.25, 0.3, 0.25, 0.25, 0.45, 0.25, 0.25] * 2
    found = recorded({"loud": [*quiet, *burst, *quiet], "web": [*quiet, *neighbour, *quiet]}, 60, L3)
    assert [(one.user.name, one.domain) for one in noisy(found)] == [("shop/loud", domain) for domain in L3]
    assert answer(found) == "shop/loud moved 75% of all memory traffic, 01:10 to 01:30 UTC (1.62 GB/s)."


def test_answer_joins_the_same_burst_of_other_domains() -> None:
    """In the second domain it begins and ends later; a third burst, which only touches it, is another one."""
    parts = {L3[0]: [0, 8, 8, 8, 0, 0, 0], L3[1]: [0, 0, 0, 7, 7, 0, 0], "mon_L3_02": [0, 0, 0, 0, 0, 7, 7]}
    rows = [row for domain, rates in parts.items() for row in rows_of({"loud": rates}, domains=[domain])]
    rows += rows_of({"other": [0, 0, 0, 0, 2, 2, 2]})
    found = recording_of(rows)
    # 24 + 14 GB of 40 GB in 4 s
    assert answer(found) == "shop/loud moved 95% of all memory traffic, 01:00:01 to 01:00:05 UTC (9.5 GB/s)."


def test_answer_is_not_extended_by_the_time_of_another_pod() -> None:
    rows = rows_of({"loud": [0, 8, 8, 0]}) + rows_of({"other": [6, 6, 0, 0]}, domains=L3[1:])
    assert answer(recording_of(rows)).endswith("01:00:01 to 01:00:03 UTC (8 GB/s).")


@pytest.mark.parametrize(
    "step, hour, words",
    [
        (119, 1, "01:00:00 to 01:01:59 UTC"),
        (120, 1, "01:00 to 01:02 UTC"),
        (60, 23, "23:59:30 to 00:00:30 UTC"),
        (3600, 23, "23:59 to 00:59 UTC"),
    ],
)
def test_answer_has_seconds_of_short_times_and_dates_of_different_days(step: int, hour: int, words: str) -> None:
    start = (hour - 1) * 3600
    if hour == 23:
        start += 59 * 60 + (30 if step == 60 else 0)
        before, _, after = words.partition(" to ")
        words = f"2026-01-01 {before} to 2026-01-02 {after}"
    assert f", {words} (" in answer(recorded({"loud": [8]}, step, start=start))
