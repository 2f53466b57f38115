"""A minute of samples as one row per series."""

import itertools

import pytest
from hosts.past import sample

from resctrl_hooks.observe.node.history.rows import Row
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.thinning import LARGEST, MINUTE, minute


def row_of(made: Sample, pod: str) -> Row:
    return next(row for row in made.rows if row.get("pod") == pod)


def test_increases_of_minutes_are_the_sums_of_their_samples() -> None:
    samples = [sample(10 * number, {"a": 1000 + number}) for number in range(19)]
    minutes = [
        minute([one for one in samples if start < one.uptime - 1000 <= start + 60], samples[start // 10])
        for start in (0, 60, 120)
    ]
    values = [row_of(samples[0], "a")["mbm_total_bytes"], *(row_of(one, "a")["mbm_total_bytes"] for one in minutes)]
    fine = [row_of(one, "a")["mbm_total_bytes"] for one in samples]
    increases = [float(new or 0) - float(old or 0) for old, new in itertools.pairwise(values)]
    sums = [sum(float(fine[i + 1] or 0) - float(fine[i] or 0) for i in range(start, start + 6)) for start in (0, 6, 12)]
    assert increases == sums
    assert {one.span for one in minutes} == {MINUTE}


def test_gauge_has_its_mean_and_its_largest_value() -> None:
    made = minute([sample(10 * n, {"a": 1}, occupancy={"a": 100 * n}) for n in range(1, 4)], None)
    row = row_of(made, "a")
    assert (row["llc_occupancy_bytes"], row[f"llc_occupancy_bytes{LARGEST}"]) == (200, 300)


def test_counter_has_its_largest_rate_also_against_the_sample_before() -> None:
    before = sample(0, {"a": 0})
    samples = [sample(10, {"a": 500}), sample(20, {"a": 260})]  # 0, 5000, 5200 bytes
    assert row_of(minute(samples, before), "a")[f"mbm_total_bytes{LARGEST}"] == 500
    assert row_of(minute(samples, None), "a")[f"mbm_total_bytes{LARGEST}"] == 20


def test_pod_that_ended_in_the_minute_keeps_its_last_values() -> None:
    made = minute([sample(10, {"a": 5, "b": 5}), sample(20, {"b": 5})], None)
    assert row_of(made, "a")["mbm_total_bytes"] == 50
    assert row_of(made, "b")["mbm_total_bytes"] == 100


def test_counter_that_fell_has_no_rate() -> None:
    row = row_of(minute([sample(10, {"a": 50}), sample(20, {"a": 1})], None), "a")
    assert (row["mbm_total_bytes"], f"mbm_total_bytes{LARGEST}" in row) == (20, False)


@pytest.mark.parametrize("word", ["Unavailable", "Unassigned"])
def test_missing_value_of_the_last_sample_stays_missing(word: str) -> None:
    last = sample(20, {"a": 5})
    rows = [{**row, "missing": f"mbm_total_bytes:{word}"} for row in last.rows if row["kind"] == "pod"]
    rows = [{name: value for name, value in row.items() if name != "mbm_total_bytes"} for row in rows]
    made = minute([sample(10, {"a": 5}), Sample(last.time, last.uptime, last.boot, last.host, rows)], None)
    row = row_of(made, "a")
    assert ("mbm_total_bytes" in row, row["missing"]) == (False, f"mbm_total_bytes:{word}")


def test_events_of_the_guard_stay() -> None:
    one = sample(10, {"a": 1})
    event: Row = {"kind": "guard", "domain": "mon_L3_00", "key": "lower", "rdt_class": "bronze", "event": "lowered"}
    made = minute([Sample(one.time, one.uptime, one.boot, one.host, [*one.rows, event]), sample(20, {"a": 1})], None)
    assert [row for row in made.rows if row["kind"] == "guard"] == [event]
