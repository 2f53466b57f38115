"""doctor on the exec watcher."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from install.staged import put

from resctrl_hooks.doctor.host import Host
from resctrl_hooks.doctor.watch import exec_watcher


@pytest.fixture
def host(tmp_path: Path) -> Host:
    put(tmp_path)
    made = Host("/etc/resctrl-hooks/config.yaml", str(tmp_path))
    made.settings.state_dir = str(tmp_path / "state")
    (tmp_path / "state").mkdir()
    return made


def told(host: Host, **values: Any) -> str:
    status = {"pid": os.getpid(), "mode": "events", "events": 7, "moved": 3, **values}
    (Path(host.settings.state_dir) / "exec.json").write_text(json.dumps(status))
    return said(host)


def said(host: Host) -> str:
    return "\n".join(f"{finding.level}: {finding.text}; {finding.remedy}" for finding in exec_watcher(host))


def test_watcher_that_receives_execs_is_ok(host: Host) -> None:
    assert told(host).startswith("ok: the exec watcher receives execs: 3 processes moved after 7 execs")


def test_stopped_watcher_is_a_warning_with_its_unit(host: Host) -> None:
    assert "systemctl enable --now resctrl-hooks-exec.service" in said(host)
    assert told(host, pid=1 << 22).startswith("warning: the exec watcher does not run")


def test_sampling_is_a_warning_with_its_cause(host: Host) -> None:
    found = told(host, mode="sampling", why="this kernel has no connector")
    assert "warning: the exec watcher polls every two seconds" in found
    assert "this kernel has no connector" in found


def test_lost_events_are_a_warning(host: Host) -> None:
    assert "events lost 2 times, rate limit exceeded 1 times" in told(host, overruns=2, degraded=1)


def test_unconfigured_watch_is_ok(host: Host) -> None:
    host.settings.monitoring["exec"] = "reconcile"
    assert said(host).startswith("ok: no exec watcher")


def test_disabled_watcher_is_a_warning(host: Host) -> None:
    assert "the exec watcher is off: shutting down" in told(host, mode="off", why="shutting down")
