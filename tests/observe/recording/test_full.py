"""When a memory domain was full, who moved how much then, and the guard's events, in a recording and its page."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hosts.counter_tree import say
from hosts.guard_and_packages import write_guard_state
from hosts.monitored import monitored_host

from resctrl_hooks.core.cli import main
from resctrl_hooks.observe.node.guard.status import NAME
from resctrl_hooks.observe.node.history.rows import GUARD, LABELS, MEMORY, Row, Sampler
from resctrl_hooks.observe.recording.analysis import recording_of
from resctrl_hooks.observe.recording.files import writing
from resctrl_hooks.observe.recording.full import Full, full_times, memories
from resctrl_hooks.observe.recording.tables import full_table

from .rows import GB, L3, memory, rows_of

RATES = {"etl": [10.0, 80.0, 80.0, 80.0, 10.0, 10.0, 10.0, 10.0], "web": [5.0, 10.0, 10.0, 10.0, 5.0, 5.0, 5.0, 5.0]}


def times(rows: list[Row], capacity: float | None = None) -> list[Full]:
    return full_times(recording_of(rows), {"*": capacity * GB} if capacity else {})


def test_full_domain_has_its_time_load_and_the_bytes_of_each_pod() -> None:
    (found,) = times([*rows_of(RATES), *memory([15, 90, 90, 96, 15, 15, 15, 15])])
    assert (found.start % 60, found.end % 60, round(found.load, 4)) == (1, 4, 0.92)
    assert {user.name: moved / GB for user, moved in found.moved.items()} == {"shop/etl": 240, "shop/web": 30}


def test_capacity_option_is_enough_for_a_recording_without_settings() -> None:
    assert times(rows_of(RATES)) == []
    (found,) = times(rows_of(RATES), 100)
    assert (found.start % 60, found.end % 60, found.load, found.memory.estimated) == (1, 4, 0.9, True)


def test_capacity_option_replaces_the_recorded_capacity() -> None:
    rows = [*rows_of(RATES), *memory([15, 90, 90, 90, 15, 15, 15, 15])]
    assert times(rows, 200) == []


@pytest.mark.parametrize(
    "capacity, domain", [({"0": 100 * GB}, 0), ({"1": 100 * GB}, 1), ({"*": 100 * GB, "1": GB}, 0)]
)
def test_capacity_of_a_domain_is_that_of_its_number(capacity: dict[str, float], domain: int) -> None:
    both = rows_of(RATES, domains=L3)
    found = {one.name: one.loads for one in memories(recording_of(both), capacity)}
    assert max(found[f"mon_L3_0{domain}"].values()) == 0.9
    assert memories(recording_of([{**row, "domain": "of another kind"} for row in both]), {"1": GB}) == []


def test_memory_domain_without_a_capacity_is_never_full() -> None:
    assert times([*rows_of(RATES), *memory([90, 90, 90], capacity=0)]) == []


@pytest.mark.parametrize("load, is_full", [(85.0, True), (84.9, False)])
def test_domain_is_full_from_85_percent_on(load: float, is_full: bool) -> None:
    assert bool(times([*rows_of(RATES), *memory([15, load, 15])])) is is_full


def test_memory_domain_has_the_traffic_of_all_its_l3_domains() -> None:
    shared = [{**row, "key": " ".join(L3)} for row in memory([15, 90, 90, 90, 15])]
    (found,) = times([*rows_of(RATES, domains=[*L3, "mon_L3_02"]), *shared])
    assert {user.name: moved / GB for user, moved in found.moved.items()} == {"shop/etl": 480, "shop/web": 60}
    (one,) = memories(recording_of([{**row, "key": ""} for row in memory([15])]), {})
    assert one.l3 == ["mon_L3_00"]


def test_full_first_sample_has_no_time() -> None:
    assert times([*memory([90]), *memory([15, 15])[1:]]) == []


def test_full_times_are_in_order_of_time_and_name() -> None:
    second = [{**row, "domain": "mon_L3_01"} for row in memory([15, 90, 15, 15, 15, 15, 15, 15, 90])]
    first = memory([15, 15, 15, 90, 15, 15, 15, 15, 90])
    found = [(one.memory.name, one.start % 60) for one in times([*first, *second])]
    assert found == [("mon_L3_01", 1), ("mon_L3_00", 3), ("mon_L3_00", 8), ("mon_L3_01", 8)]


def test_sample_without_a_load_is_not_full() -> None:
    assert times([*rows_of(RATES), *memory([15, None, None, None, 15, 15, 15, 15])]) == []


@pytest.mark.parametrize("pause, count", [(3, 1), (4, 2)])
def test_short_pause_does_not_end_the_time(pause: int, count: int) -> None:
    rates: list[float | None] = [90, *[80.0] * pause, 90]
    assert len(times([*rows_of({"etl": [80.0] * len(rates)}), *memory(rates)])) == count


def test_rows_of_memory_and_guard_are_not_users() -> None:
    event: Row = {**memory([90])[0], "kind": GUARD, "event": "lowered"}
    found = recording_of([*rows_of(RATES), *memory([90]), event])
    assert {user.kind for user in found.users} == {"pod"}
    assert [one.name for one in memories(found, {})] == ["mon_L3_00"]


def test_table_names_the_largest_pods_with_their_share() -> None:
    found = recording_of([*rows_of(RATES), *memory([15, 90, 90, 90, 15, 15, 15, 15])])
    table = full_table(found, {})
    assert "shop/etl 240 GB (89%), shop/web 30 GB (11%)" in table
    assert ">3 s<" in table
    assert full_table(recording_of(rows_of(RATES)), {}) == ""


@pytest.mark.parametrize("jump", [1.0, -86400.0, 1e8])
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
