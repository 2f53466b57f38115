"""`show` after an upgrade: counters and turns that an earlier version has kept."""

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hosts.counter_tree import say
from hosts.monitored import plain_host

from core.install.versions import COMMITS, Commands

POD = "shop/web-0"


def counters(text: str) -> dict[tuple[str, str], tuple[Any, str]]:
    """Return value and state of each counter of the pod; only the seconds go on from one read to the next."""
    (pod,) = json.loads(text)["items"]
    return {(one["counter"], one["domain"]): (one["value"], one["state"]) for one in pod["counters"]}


@pytest.mark.parametrize(
    "version", [pytest.param(one, marks=pytest.mark.ci if place else ()) for place, one in enumerate(COMMITS)]
)
def test_show_after_upgrade_is_that_of_the_earlier_version(tmp_path: Path, version: str) -> None:
    with plain_host(tmp_path) as host, closing(Commands(version, host.config)) as earlier:
        group = host.group(0, "web-0", llc_occupancy=4096, mbm_local_bytes=0, mbm_total_bytes=0)
        say(host.resctrl, llc_occupancy=4096, mbm_local_bytes=0, mbm_total_bytes=0)
        for total, local in ((100, 60), ("Unassigned", 80), (0, "Error"), (70, "Unavailable")):
            time.sleep(0.002)  # the clock of totals has milliseconds
            say(group, mbm_total_bytes=total, mbm_local_bytes=local)
            earlier.run("metrics")
        before, after = earlier.run("show", POD, "-o", "json"), host.run("show", POD, "-o", "json").stdout
        assert counters(before)["mbm_total_bytes", "mon_L3_00"] == (170, "available")
        assert counters(after) == counters(before)
        turns = [json.loads(text)["items"][0].get("turnRate") for text in (before, after)]
        assert turns[0] is None or turns[1]["turns"] == turns[0]["turns"] == 2
