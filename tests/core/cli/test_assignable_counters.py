"""An AMD host with four bandwidth counters and more pods: which pods are counted, and the output of each command."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.monitored import MonitoredHost, monitored_host

from resctrl_hooks.core.node.resctrl.counter_share import Change, Holder, rearrange
from resctrl_hooks.core.node.resctrl.counters import UNASSIGNED, Reading
from resctrl_hooks.core.node.sharing.bandwidth_counters import balance
from resctrl_hooks.lab.simulation import mounted

HOUSES = ("lab",)
pytestmark = pytest.mark.fuse
TOTAL = "mbm_total_bytes"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with (
        mounted(tmp_path / "resctrl", limbo=0.1, vendor="amd", assignable_counters=4, l3_domains=2) as resctrl,
        monitored_host(tmp_path, resctrl) as found,
    ):
        yield found


def reading(host: MonitoredHost, key: str, name: str = TOTAL, domain: str = "mon_L3_00") -> Reading:
    """Return the reading of one counter of a pod."""
    readings = host.context.monitor.read(key, by_class=True)
    (found,) = [one for one in readings if (one.counter.name, one.domain.folder) == (name, domain)]
    return found


def moved(host: MonitoredHost, key: str, *, give: bool) -> None:
    """Take or give a pod's total in domain 0."""
    folder = str(host.resctrl / "mon_groups" / key)
    assert rearrange(host.context.monitor, [Change(Holder(folder, {}, "ours", key), TOTAL, 0, give=give)])


def test_commands_show_assigned_counters(host: MonitoredHost) -> None:
    keys = [host.pod(number, f"web-{number}") for number in range(6)]
    balance(host.context)
    states = {pod["key"]: pod["state"] for pod in host.json("list")["items"]}
    assert [states[key] for key in keys] == ["assigned"] * 4 + ["uncounted"] * 2
    assert "0 of 4 bandwidth counters free in L3 domain 0" in host.run("list").stdout
    shown = host.run("show", keys[4]).stdout
    assert "uncounted" in shown
    assert UNASSIGNED in shown
    assert "lack a bandwidth counter" in host.run("doctor").stdout
