"""A container's features besides its group after one reconcile: adopted late, undone, ended by itself."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ID, POD_CGROUP, UID, Host, crio_annotations
from hosts import crun
from hosts.memtierd import CLASS as MEMORY_CLASS
from hosts.memtierd import PANIC, MemtierdHost, panics, program
from hosts.processes import is_alive, wait_until

from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.features.memtierd import feature
from resctrl_hooks.core.node.reconcile.reconcile import reconcile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from resctrl_hooks.core.node.reconcile.report import Report
    from resctrl_hooks.core.node.records import MemberRecord

MOST_STARTS = FEATURES["memtierd"].most_starts
CGROUP = f"{POD_CGROUP}/crio-{ID}"
SCHEDULING = {"enabled": True, "allow": {"shop": ["small"]}, "classes": {"small": {"cpuWeight": 20}}}
BLOCKIO = {"enabled": True, "allow": {"shop": ["fast"]}, "classes": {"fast": [{"weight": 300}]}}
SCHEDULED, IO = "class.scheduling.resctrl-hooks.io", "class.blockio.resctrl-hooks.io"
HIGH = "memory.high.memtierd.nri.io"
ASKED = {MEMORY_CLASS: "track", SCHEDULED: "small", IO: "fast", HIGH: "64M"}
BEFORE = {"cpu.weight": "100", "io.weight": "default 100", "memory.high": "max", "memory.current": "4096"}
AFTER = {"cpu.weight": "20", "io.weight": "default 300", "memory.high": str(64 << 20)}
ALL = {name: [ID] for name in ("blockio", "memory", "memtierd", "scheduling")}


@pytest.fixture
def late(host: Host) -> Iterator[MemtierdHost]:
    """Return a host on which a container with classes runs that no hook has seen."""
    found = MemtierdHost(host)
    host.configure(
        classes=[{"name": "track", "memtierdconfig": "policy:\n  name: age\n"}],
        memory={"allowLimits": {"shop": ["memory.high"]}},
        memtierd={**found.section, "startSeconds": 0.1},
        scheduling=SCHEDULING,
        blockio=BLOCKIO,
        runtimeRoots={"crun": str(host.root / "crun")},
    )
    host.process(100, CGROUP)
    for name, value in BEFORE.items():
        (folder(host) / name).write_text(value)
    runs(host, ASKED)
    yield found
    found.clean()


def folder(host: Host) -> Path:
    return host.cgroup / CGROUP.lstrip("/")


def runs(host: Host, annotations: dict[str, str]) -> None:
    """Add the container to its runtime's state folder, with a bundle that has its requests."""
    bundle = host.root / "bundles" / "late"
    bundle.mkdir(parents=True, exist_ok=True)
    (bundle / "config.json").write_text(json.dumps({"annotations": crio_annotations() | annotations}))
    crun.record(host.root / "crun", ID, 100, bundle, 1000)


def again(host: Host) -> Report:
    return reconcile(host.context())


def values(host: Host) -> dict[str, str]:
    return {name: (folder(host) / name).read_text() for name in AFTER}


def record(host: Host) -> MemberRecord:
    found = host.context().ledger.read_member(UID, ID)
    assert found is not None
    return found


def test_unseen_container_gets_features_without_monitoring(late: MemtierdHost) -> None:
    late.host.configure(**json.loads(late.host.config.read_text()) | {"monitoring": {"enabled": False}})
    assert again(late.host).applied == ALL
    assert late.host.groups() == []
    assert not again(late.host).changed


def test_dry_run_reports_features_to_apply(late: MemtierdHost) -> None:
    from resctrl_hooks.core.node.reconcile.report import Options  # noqa: PLC0415

    report = reconcile(late.host.context(), Options(dry_run=True))
    assert report.applied == ALL
    assert values(late.host) == {name: BEFORE[name] for name in AFTER}
    assert late.host.records() == []


CLOCK = time.time
UNTIL_USR1 = "going=1; trap going= USR1; while test $going; do sleep 0.02; done"


def test_memtierd_that_keeps_ending_is_restarted_a_limited_number_of_times(
    late: MemtierdHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = late.host
    program(host.root / "memtierd", panics(UNTIL_USR1))
    again(host)
    for number in range(MOST_STARTS):
        ahead = 31 * 86400 * (-1) ** number  # the clock jumps by a month
        monkeypatch.setattr("time.time", lambda ahead=ahead: CLOCK() + ahead)
        os.kill(late.pid(), signal.SIGUSR1)
        wait_until(lambda: not is_alive(late.supervisor()))
        report = again(host)
        assert late.runs() == (report.applied == {"memtierd": [ID]}) == (number + 1 < MOST_STARTS)
        lines = [one for one in host.log.read_text().splitlines() if "memtierd" in one and "was restarted" in one]
        assert len(lines) == min(number + 1, MOST_STARTS - 1)
        assert f"exited and was restarted; {PANIC}" in lines[0]
        assert "step.go" not in lines[0]
    assert report.events["unmet"][f"{ID[:12]} memtierd"].endswith(f"exits within an hour; {PANIC}")
    assert report.reasons == ["memtierd"]
    monkeypatch.setattr(feature.FEATURE, "lost", lambda *_: "must not be asked again")
    later = again(host)
    assert (later.events["unmet"], later.applied) == (report.events["unmet"], {})
    assert host.log.read_text().count("not restarted") == 1


def test_container_being_started_by_hook_is_left_alone(late: MemtierdHost, monkeypatch: pytest.MonkeyPatch) -> None:
    again(late.host)
    pid, before, real = late.pid(), record(late.host), feature.FEATURE.holds

    def not_yet(*_: Any) -> bool:
        monkeypatch.setattr(feature.FEATURE, "holds", real)
        return False

    monkeypatch.setattr(feature.FEATURE, "holds", not_yet)
    monkeypatch.setattr(
        feature.FEATURE, "lost", lambda *_: "its last lines: (none)"
    )  # as systemd's says of one that runs
    assert again(late.host).applied == {}
    assert (late.pid(), is_alive(pid)) == (pid, True)
    assert "was restarted" not in late.host.log.read_text()
    assert record(late.host) == before
