"""A key's counts in each of its turns, and their use in `show`."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.counter_tree import say
from hosts.monitored import KEYS, MonitoredHost, monitored_host

from resctrl_hooks.core.node.resctrl.counter_totals import turns

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
