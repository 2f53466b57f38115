"""Full memory domains, slowed pods and energy of a recording."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hosts.counter_tree import say
from hosts.guard_and_packages import write_guard_state, write_slowdown_state
from hosts.monitored import KEYS, monitored_host, plain_host
from hosts.past import sample

from resctrl_hooks.core.cli import main
from resctrl_hooks.observe.node.guard.status import NAME
from resctrl_hooks.observe.node.history.rows import (
    GUARD,
    LABELS,
    LOST,
    LOST_SECONDS,
    MEMORY,
    POD,
    RATIO,
    SLOWED,
    Row,
    Sampler,
)
from resctrl_hooks.observe.node.history.sample import Sample, data_of, layout_of, sample_of
from resctrl_hooks.observe.node.history.thinning import LARGEST, minute
from resctrl_hooks.observe.past.moments import snapshot_of
from resctrl_hooks.observe.recording.analysis import recording_of
from resctrl_hooks.observe.recording.charts import slowdown_chart
from resctrl_hooks.observe.recording.files import writing
from resctrl_hooks.observe.recording.slowdown import slowed_pods

from .rows import memory, rows_of, slowdown


@pytest.mark.parametrize("jump", [1.0, -86400.0])
def test_recorded_domain_and_guard_event_are_on_the_page(tmp_path: Path, jump: float) -> None:
    resctrl = tmp_path / "resctrl"
    (resctrl / "mon_groups").mkdir(parents=True)
    (resctrl / "info").mkdir()
    say(resctrl, mbm_total_bytes=0, mbm_local_bytes=0)
    with monitored_host(tmp_path, str(resctrl)) as host:
        host.context.settings.monitoring["capacity"] = {"*": 1.0}
        write_guard_state(host.context)
        path = Path(host.context.settings.state_dir, NAME)
        status: dict[str, Any] = {**json.loads(path.read_text()), "mode": "observe"}
        event = {"domain": "0", "action": "lower", "class": "<bronze>", "old": 100, "new": 90, "reason": "load 95%"}
        status["events"] = [{"time": time.time() - 5, **event}]
        path.write_text(json.dumps(status))
        sampler = Sampler(host.context)
        rows = sampler.sample()
        status["events"].append({"time": time.time() + jump, **event})
        path.write_text(json.dumps(status))
        time.sleep(0.01)
        say(resctrl, mbm_total_bytes=1_000_000, mbm_local_bytes=1_000_000)
        rows += sampler.sample()
        rows += sampler.sample()
    kinds = [row["kind"] for row in rows]
    assert kinds.count(GUARD) == 1, "an event of before the recording is not in it, and each is there once"
    assert kinds.count(MEMORY) == 2
    target = tmp_path / "x.csv"
    with writing(str(target), sampler.columns) as write:
        write(rows)
    assert "event" in LABELS
    assert CliRunner().invoke(main, ["report", str(target), "--capacity", "1k"]).exit_code == 0
    page = (tmp_path / "x.html").read_text()
    assert "would lower MB of class &lt;bronze&gt; on memory domain 0 from 100 to 90 (per cent): load 95%" in page
    assert "Full memory domains" in page


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
        found = sampler.sample()
        assert (RATIO in sampler.columns) is (LOST_SECONDS in sampler.columns) is enabled
    assert [row[LOST_SECONDS] for row in found if row["kind"] == LOST] == ([3.75] if enabled else [])
    told = [(row["pod"], row[RATIO], row["event"], row["culprits"]) for row in found if row["kind"] == SLOWED]
    assert told == ([("cart", 1.6, "memory-bandwidth", "noisy")] if enabled else [])


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
