"""An AMD host with four bandwidth counters: readings of a pod's counters, and their moves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.monitored import MonitoredHost, monitored_host
from resctrl_hooks.core.node.resctrl.counter_share import Change, Holder, rearrange
from resctrl_hooks.core.node.resctrl.counters import Reading
from resctrl_hooks.lab.simulation import mounted

TOTAL = "mbm_total_bytes"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with (
        mounted(tmp_path / "resctrl", limbo=0.1, vendor="amd", assignable_counters=4, l3_domains=2) as resctrl,
        monitored_host(tmp_path, resctrl) as found,
    ):
        yield found


def reading(host: MonitoredHost, key: str, name: str = TOTAL, domain: str = "mon_L3_00") -> Reading:
    readings = host.context.monitor.read(key, by_class=True)
    (found,) = [one for one in readings if (one.counter.name, one.domain.folder) == (name, domain)]
    return found


def moved(host: MonitoredHost, key: str, *, give: bool) -> None:
    """Take or give a pod's total in domain 0."""
    folder = str(host.resctrl / "mon_groups" / key)
    assert rearrange(host.context.monitor, [Change(Holder(folder, {}, "ours", key), TOTAL, 0, give=give)])
