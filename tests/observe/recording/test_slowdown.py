"""Slowed pods in a recording and in the history: rows, analysis, chart and table."""

from pathlib import Path

import pytest
from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, plain_host
from hosts.past import sample

from resctrl_hooks.observe.node.history.rows import POD, RATIO, SLOWED, Row, Sampler
from resctrl_hooks.observe.node.history.sample import Sample, data_of, layout_of, sample_of
from resctrl_hooks.observe.node.history.thinning import LARGEST, minute
from resctrl_hooks.observe.past.moments import snapshot_of
from resctrl_hooks.observe.recording.analysis import recording_of
from resctrl_hooks.observe.recording.charts import slowdown_chart
from resctrl_hooks.observe.recording.files import read, writing
from resctrl_hooks.observe.recording.page import page_of
from resctrl_hooks.observe.recording.slowdown import slowed_pods

from .rows import GB, memory, rows_of, slowdown

RATIOS = [1.0, 1.02, 1.6, 1.7, 1.6, 1.0]


def rows() -> list[Row]:
    """Two pods, the load of their memory, and the ratio of one."""
    moved = {"etl": [1.0, 1.0, 80.0, 80.0, 80.0, 1.0], "web": [5.0, 5.0, 3.0, 3.0, 3.0, 5.0]}
    return [*rows_of(moved), *memory([6, 6, 83, 83, 83, 6]), *slowdown(RATIOS)]


@pytest.mark.parametrize("enabled", [True, False])
def test_sample_has_the_ratio_causes_and_culprits_of_judged_pods_if_pods_are_judged(
    tmp_path: Path, enabled: bool
) -> None:
    with plain_host(tmp_path, "info/L3_MON", slowdown={"enabled": enabled}) as host:
        (host.resctrl / "info/L3_MON/num_rmids").write_text("8\n")
        for number, name in enumerate(("cart", "quiet")):
            host.group(number, name, llc_occupancy=1, mbm_total_bytes=1)
        write_slowdown_state(host.context, KEYS[0])
        sampler = Sampler(host.context)
        found = [row for row in sampler.sample() if row["kind"] == SLOWED]
        assert (RATIO in sampler.columns) is enabled
    told = [(row["pod"], row[RATIO], row["event"], row["culprits"]) for row in found]
    assert told == ([("cart", 1.6, "memory-bandwidth", "noisy")] if enabled else [])


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_slowed_pod_has_its_time_causes_culprits_and_load_from_each_format(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyarrow")
    path = str(tmp_path / name)
    with writing(path, [*dict.fromkeys(column for row in rows() for column in row)]) as write:
        write(rows())
    recording = recording_of(read(path))
    (one,) = slowed_pods(recording, {})
    assert (one.user.name, one.seconds, dict(one.causes), one.domain) == (
        "shop/web",
        3.0,
        {"memory-bandwidth": 3},
        "mon_L3_00",
    )
    assert [*one.ratios.values()] == RATIOS
    ((culprit, points),) = one.culprits.items()
    assert (culprit.name, max(points.values())) == ("shop/etl", 80 * GB)
    assert max(one.load.values()) == 0.83


def test_pod_that_was_never_slowed_is_not_listed() -> None:
    assert slowed_pods(recording_of([*rows_of({"web": [1.0] * 3}), *slowdown([1.0, 1.1, 1.14])]), {}) == []


def test_slowed_pod_without_known_cause_or_domain_has_only_its_ratio() -> None:
    found = slowdown([1.0, 1.5], domain="")
    bare = [{name: value for name, value in row.items() if name not in ("event", "culprits")} for row in found]
    (one,) = slowed_pods(recording_of([*rows_of({"web": [1.0] * 3}), *bare]), {})
    assert (one.domain, dict(one.causes), one.culprits, one.load) == ("", {}, {}, {})


def test_page_has_the_ratio_above_the_culprits_traffic_and_the_load_on_one_axis() -> None:
    page = page_of(recording_of(rows()))
    start = page.index("Slowed pods")
    part = page[start : page.index("Noisy pods")]
    chart = part[part.index("<h3>shop/web</h3>") :]
    titles = ["times as long as in quiet times", "GB/s of its culprits in mon_L3_00", "% load of mon_L3_00"]
    places = [chart.index(title.replace("/", r"\u002f")) for title in titles]  # as Plotly writes JSON into a page
    assert places == sorted(places)
    assert chart.count('"matches":"x3"') == 2, "the charts have one time axis"
    cells = [cell.split("</td>")[0] for cell in part.replace(' class="number"', "").split("<td>")[1:]]
    assert cells == ["shop/web", "3 s", "1.7 times", "memory-bandwidth", "shop/etl"]


def test_chart_has_a_gap_at_a_missing_value_and_a_unit_at_each_axis() -> None:
    recording = recording_of(rows())
    (pod,) = slowed_pods(recording, {})
    figure = slowdown_chart(pod, recording.times["n1"].each, {})
    assert list(figure.data[0].y) == [None, *RATIOS]
    assert [axis.title.text for axis in figure.select_yaxes()] == ["ratio", "GB/s", "%"]
    assert [max(value for value in line.y if value is not None) for line in figure.data] == [1.7, 80, 83]
    (quiet,) = figure.layout.shapes
    assert (quiet.type, quiet.y0, quiet.y1, quiet.yref) == ("line", 1, 1, "y"), "the duration in quiet times"
    assert [axis.showticklabels for axis in figure.select_xaxes()] == [True] * 3
    assert figure.layout.height >= 3 * 200, "each chart has its height"


def test_domain_of_a_pod_is_the_one_in_which_it_was_slowed_most_often() -> None:
    first, second = slowdown([2.0, 1.0, 2.0, 1.0, 2.0]), slowdown([1.0, 2.0, 1.0, 2.0], domain="mon_L3_01")
    seconds = {row["time"]: row for row in [*first, *[row for row in second if row[RATIO] == 2.0]]}
    (one,) = slowed_pods(recording_of([*rows_of({"web": [1.0] * 5}), *seconds.values()]), {})
    assert (one.domain, one.seconds) == ("mon_L3_00", 5)


def test_minute_has_the_mean_ratio_and_the_largest_and_is_stored_whole() -> None:
    labels = {"kind": SLOWED, "key": "key-a", "namespace": "shop", "pod": "a", "container": "", "domain": "mon_L3_00"}
    made = []
    for second, ratio in ((10, 1.2), (20, 1.501)):
        one = sample(second, {"a": 1})
        made.append(Sample(one.time, one.uptime, one.boot, one.host, [*one.rows, {**labels, RATIO: ratio}]))
    whole = minute(made, None)
    layout, base = layout_of(whole)
    stored = sample_of(whole.time, 60, layout, data_of(whole, base))
    (row,) = [row for row in stored.rows if row["kind"] == SLOWED]
    assert row[RATIO] == pytest.approx(1.3505, abs=0.001)
    assert row[f"{RATIO}{LARGEST}"] == 1.501
    assert {*snapshot_of(stored).pods} == {"key-a"}, "the row is no counter of a pod"
    assert {row["kind"] for row in stored.rows} == {POD, "rest", SLOWED}
