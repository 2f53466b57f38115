"""A key's counts in each of its turns, and their use in `show`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from hosts.counter_tree import say
from hosts.monitored import KEYS, plain_host

from resctrl_hooks.core.node.resctrl.counter_totals import turns

if TYPE_CHECKING:
    from pathlib import Path

TURNS = 9


@pytest.mark.parametrize("values, number", [([1, 2, 3], 0), ([0, 100, "Unassigned"] * TURNS, TURNS)])
def test_show_has_the_interval_of_a_time_sharing_pod_only(tmp_path: Path, values: list[object], number: int) -> None:
    with plain_host(tmp_path, "info") as host:
        group = host.group(0, "web-0")
        for value in values:
            say(host.resctrl, llc_occupancy=1, mbm_total_bytes=0)
            say(group, mbm_total_bytes=value)
            time.sleep(0.002)  # the clock of totals has milliseconds
            host.context.monitor.read(KEYS[0])
        assert [moved for _, moved in turns(host.context.monitor, KEYS[0])] == [100] * number
        (pod,) = json.loads(host.run("show", "shop/web-0", "-o", "json").stdout)["items"]
    rate = pod.get("turnRate") or {}
    assert rate.get("turns", 0) == number
    assert not number or 0 <= rate["low"] < rate["bytesPerSecond"] < rate["high"]
