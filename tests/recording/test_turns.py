"""Pods that took turns in a recording, and the error bars of their rates."""

from resctrl_hooks.inventory.interval import LEAST_TURNS
from resctrl_hooks.node.history.rows import Row
from resctrl_hooks.recording.analysis import recording_of
from resctrl_hooks.recording.page import page_of
from resctrl_hooks.recording.turns import turn_rates


def rows_of(turns: int, *, waits: bool = True) -> list[Row]:
    """Return turns of two samples each, with 10 or 30 bytes per second, each followed by a sample without a value."""
    rows: list[Row] = []
    total = seconds = 0.0
    for turn in range(turns):
        for sample in range(2 + waits):
            if sample < 2:
                total, seconds = total + (10 if turn % 2 else 30), seconds + 1
            counted = {"mbm_total_bytes": total if sample < 2 else None}
            when = f"2026-01-01T00:{len(rows) // 60:02}:{len(rows) % 60:02}.000+00:00"
            place = {"host": "n1", "kind": "pod", "key": "a", "domain": "mon_L3_00", "namespace": "shop", "pod": "web"}
            rows.append({"time": when, "counted_seconds": seconds, **place, **counted})
    return rows


def test_report_has_interval_of_time_sharing_pod() -> None:
    recording = recording_of(rows_of(2 * LEAST_TURNS))
    ((user, interval),) = turn_rates(recording).items()
    assert user.name == "shop/web"
    assert 17 < interval.rate < 23
    assert 0 < interval.half < 20
    page = page_of(recording)
    assert "Pods that took turns" in page
    assert "with 95 % confidence intervals" in page


def test_domain_with_a_single_turn_does_not_hide_the_others() -> None:
    rows = rows_of(2 * LEAST_TURNS)
    single = [{**row, "domain": "mon_L3_01"} for row in rows_of(1)]
    assert turn_rates(recording_of([*rows, *single])) == turn_rates(recording_of(rows))


def test_samples_without_more_counted_time_are_no_turn() -> None:
    rows = rows_of(LEAST_TURNS - 1)
    again = [{**row, "time": str(row["time"]).replace("00:00:", "00:01:")} for row in rows[-2:]]
    assert turn_rates(recording_of([*rows, *again])) == {}


def test_report_omits_interval_of_permanently_counted_pod_or_few_turns() -> None:
    for rows in (rows_of(2 * LEAST_TURNS, waits=False), rows_of(LEAST_TURNS - 2)):
        recording = recording_of(rows)
        assert turn_rates(recording) == {}
        assert "Pods that took turns" not in page_of(recording)
