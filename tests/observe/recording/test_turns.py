"""Pods that took turns in a recording, and the error bars of their rates."""

from resctrl_hooks.core.inventory.interval import LEAST_TURNS, Interval
from resctrl_hooks.observe.recording.analysis import recording_of
from resctrl_hooks.observe.recording.page import page_of
from resctrl_hooks.observe.recording.turns import turn_rates

from .rows import turns


def test_report_has_interval_of_time_sharing_pod() -> None:
    recording = recording_of(turns(2 * LEAST_TURNS))
    ((user, interval),) = turn_rates(recording).items()
    assert user.name == "shop/web"
    assert 17 < interval.rate < 23
    assert 0 < interval.half < 20
    page = page_of(recording)
    assert "Pods that took turns" in page
    assert "with 95 % confidence intervals" in page


def test_domain_with_a_single_turn_does_not_hide_the_others() -> None:
    rows = turns(2 * LEAST_TURNS)
    single = [{**row, "domain": "mon_L3_01"} for row in turns(1)]
    assert turn_rates(recording_of([*rows, *single])) == turn_rates(recording_of(rows))


def test_turns_without_traffic_have_the_rate_zero() -> None:
    idle = [
        {**row, "mbm_total_bytes": None if row["mbm_total_bytes"] is None else 5.0} for row in turns(LEAST_TURNS + 1)
    ]
    assert [*turn_rates(recording_of(idle)).values()] == [Interval(0.0, 0.0)]


def test_samples_without_more_counted_time_are_no_turn() -> None:
    rows = turns(LEAST_TURNS - 1)
    again = [{**row, "time": str(row["time"]).replace("00:00:", "00:01:")} for row in rows[-2:]]
    assert turn_rates(recording_of([*rows, *again])) == {}


def test_report_omits_interval_of_permanently_counted_pod_or_few_turns() -> None:
    for rows in (turns(2 * LEAST_TURNS, waits=False), turns(LEAST_TURNS - 2)):
        recording = recording_of(rows)
        assert turn_rates(recording) == {}
        assert "Pods that took turns" not in page_of(recording)
