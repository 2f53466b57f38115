"""A key's counts in each of its turns, and their use in `show`."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.counter_tree import say
from hosts.monitored import KEYS, MonitoredHost, monitored_host

from resctrl_hooks.core.node.resctrl.counter_totals import turns
from resctrl_hooks.core.node.resctrl.turn_counts import MOST, Turns

TURNS = 9


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a plain tree with one pod, whose bandwidth counter is taken away and given again."""
    resctrl = tmp_path / "resctrl"
    (resctrl / "mon_groups").mkdir(parents=True)
    with monitored_host(tmp_path, str(resctrl)) as found:
        with found.context.monitor.hold(KEYS[0]) as held:
            held.record.update({"namespace": "shop", "pod": "web-0"})
            group = Path(held.ensure_group("").path)
        for folder in (resctrl, group):
            say(folder, llc_occupancy=1, mbm_total_bytes=0)
        yield found


def take_turns(host: MonitoredHost, number: int) -> None:
    group = host.resctrl / "mon_groups" / KEYS[0]
    for value in [0, 100, "Unassigned"] * number:
        say(group, mbm_total_bytes=value)
        host.context.monitor.read(KEYS[0])
        time.sleep(0.002)  # the clock of totals has milliseconds


def test_turns_are_counts_until_each_end() -> None:
    turns = Turns()
    assert turns.with_present(5.0, 50) == []
    turns.finish(5.0, 50)
    turns.finish(5.0, 50)  # it isn't counted still
    turns.finish(7.0, 90)
    assert turns.with_present(7.0, 90) == [(5.0, 50.0), (2.0, 40.0)]
    assert turns.with_present(8.0, 90) == [(5.0, 50.0), (2.0, 40.0), (1.0, 0)]


def test_latest_turns_are_kept() -> None:
    turns = Turns()
    for number in range(1, MOST + 5):
        turns.finish(float(number), number * number)
    found = turns.with_present(MOST + 4.0, 0)
    assert (len(found), found[-1]) == (MOST, (1.0, 2 * (MOST + 4) - 1))


def test_permanently_counted_pod_has_no_turns(host: MonitoredHost) -> None:
    for value in (1, 2, 3):
        say(host.resctrl / "mon_groups" / KEYS[0], mbm_total_bytes=value)
        host.context.monitor.read(KEYS[0])
    assert turns(host.context.monitor, KEYS[0]) == []


def test_show_has_interval_of_time_sharing_pod(host: MonitoredHost) -> None:
    rate = rate_of_turns(host)
    assert rate["turns"] == TURNS
    assert 0 <= rate["low"] < rate["bytesPerSecond"] < rate["high"]


def rate_of_turns(host: MonitoredHost) -> dict[str, float]:
    """Let the pod take turns, and return their rate in `show`."""
    take_turns(host, TURNS - 1)
    for value in (0, 100, "Unassigned"):  # the last one is counted while it lasts
        say(host.resctrl / "mon_groups" / KEYS[0], mbm_total_bytes=value)
        time.sleep(0.002)
        host.context.monitor.read(KEYS[0])
        assert [moved for _, moved in turns(host.context.monitor, KEYS[0])] == [100] * (TURNS - (value == 0))
    (pod,) = json.loads(host.run("show", "shop/web-0", "-o", "json").stdout)["items"]
    rate: dict[str, float] = pod["turnRate"]
    return rate
