"""An AMD host with four bandwidth counters and more pods: which pods are counted, and the output of each command."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import UID, Host, crio_annotations, state
from hosts.monitored import MonitoredHost, monitored_host

from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.resctrl.counter_share import Change, Holder, rearrange
from resctrl_hooks.core.node.resctrl.counters import UNASSIGNED, Reading
from resctrl_hooks.core.node.sharing.bandwidth_counters import balance
from resctrl_hooks.lab.simulation import mounted

HOUSES = ("lab",)
pytestmark = pytest.mark.fuse
TOTAL, LOCAL = "mbm_total_bytes", "mbm_local_bytes"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    with (
        mounted(tmp_path / "resctrl", limbo=0.1, vendor="amd", assignable_counters=4, l3_domains=2) as resctrl,
        monitored_host(tmp_path, resctrl) as found,
    ):
        yield found


def reading(host: MonitoredHost, key: str, name: str = TOTAL, domain: str = "mon_L3_00") -> Reading:
    """Return the reading of one counter of a pod."""
    (found,) = [
        one
        for one in host.context.monitor.read(key, by_class=True)
        if (one.counter.name, one.domain.folder) == (name, domain)
    ]
    return found


def moved(host: MonitoredHost, key: str, *, give: bool) -> None:
    """Take or give a pod's total in domain 0."""
    folder = str(host.resctrl / "mon_groups" / key)
    assert rearrange(host.context.monitor, [Change(Holder(folder, {}, "ours", key), TOTAL, 0, give=give)])


def test_total_never_decreases_over_reassignments(host: MonitoredHost) -> None:
    key = host.pod(0, "web-0")
    while not (before := reading(host, key)).value:
        pass
    moved(host, key, give=False)
    kept = reading(host, key)
    assert kept.state == UNASSIGNED
    assert kept.value is not None
    assert kept.value >= before.value
    assert reading(host, key, domain="mon_L3_01").state == "available"
    assert f"({UNASSIGNED})" in host.run("show", key).stdout
    moved(host, key, give=True)
    now = reading(host, key)
    assert now.value is not None
    assert now.value >= before.value
    assert now.seconds is not None
    assert before.seconds is not None
    assert now.seconds >= before.seconds


def test_commands_show_assigned_counters(host: MonitoredHost) -> None:
    keys = [host.pod(number, f"web-{number}") for number in range(6)]
    balance(host.context)
    listed = host.json("list")
    states = {pod["key"]: pod["state"] for pod in listed["items"]}
    assert [states[key] for key in keys] == ["assigned"] * 4 + ["uncounted"] * 2
    text = host.run("list").stdout
    assert "0 of 4 bandwidth counters free in L3 domain 0" in text
    shown = host.run("show", keys[4]).stdout
    assert "uncounted" in shown
    assert UNASSIGNED in shown
    doctor = host.run("doctor").stdout
    assert "lack a bandwidth counter" in doctor


@pytest.mark.ci
def test_hook_takes_counter_of_lower_value_for_its_pod(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "resctrl", limbo=0.1, vendor="amd", assignable_counters=2) as resctrl,
        subprocess.Popen(["sleep", "600"]) as process,
    ):
        host = Host(tmp_path / "host", real_proc=True, resctrl=Path(resctrl))
        given = state(pid=process.pid, bundle=host.bundle(), annotations=crio_annotations())
        # The root group has both counters, as after the boot.
        outcome = host.call(given, alone=True)
        assert outcome.code == 0
        assert "got a counter for mbm_total_bytes" in outcome.log
        group = Path(resctrl) / "mon_groups" / UID / "mbm_L3_assignments"
        assert group.read_text() == f"{TOTAL}:0=e;1=e\n{LOCAL}:0=e;1=e\n"
        for number, event in enumerate((TOTAL, LOCAL)):  # two pods of others have all that there is
            other = Path(resctrl) / "mon_groups" / f"other{number}"
            other.mkdir()
            group.write_text(f"{event}:*=_\n")
            (other / "mbm_L3_assignments").write_text(f"{event}:*=e\n")
        outcome = host.call(given | {"id": "d" * 64}, alone=True)
        process.kill()
        assert outcome.code == 0
        assert f"all bandwidth counters are in use: {TOTAL} of {UID} is not counted in L3 domain 0, 1" in outcome.log


def test_reconcile_reports_counter_changes(host: MonitoredHost) -> None:
    for number in range(6):
        host.pod(number, f"web-{number}")
    report = reconcile(host.context)
    assert report.number("assigned") == 6  # a total in each of two domains for the second, the third and the fourth
    assert report.number("unassigned") == 6  # the root group's two events and the first pod's local, in each
    assert len(report.events["uncounted"]) == 2
    assert report.ok
    assert "pods without a bandwidth counter: 2" in report.as_line()
