"""doctor on the exec watcher."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hosts.patients import lines
from hosts.processes import is_alive, wait_until

from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.watch import exec_watcher


def told(host: Host, **values: Any) -> str:
    status = {"pid": os.getpid(), "mode": "events", "events": 7, "moved": 3, **values}
    (Path(host.settings.state_dir) / "exec.json").write_text(json.dumps(status))
    return said(host)


def said(host: Host) -> str:
    return lines(exec_watcher(host))


def test_watcher_that_receives_execs_is_ok(staged: Host) -> None:
    assert told(staged).startswith("ok: the exec watcher receives execs: 3 processes moved after 7 execs")


def test_stopped_watcher_is_a_warning_with_its_unit(staged: Host) -> None:
    assert "systemctl enable --now resctrl-hooks-exec.service" in said(staged)
    assert told(staged, pid=1 << 22).startswith("warning: the exec watcher does not run")


def test_ended_watcher_that_its_parent_has_not_waited_for_does_not_run(staged: Host) -> None:
    with subprocess.Popen(["true"]) as ended:
        wait_until(lambda: not is_alive(ended.pid), "it has ended")
        assert told(staged, pid=ended.pid).startswith("warning: the exec watcher does not run")


@pytest.mark.parametrize("status", [{"pid": 1 << 22}, {"mode": "off", "why": "shutting down"}])
def test_host_without_systemd_is_told_to_run_the_watcher(
    staged: Host, monkeypatch: pytest.MonkeyPatch, status: dict[str, Any]
) -> None:
    monkeypatch.setattr(Host, "live", True)
    monkeypatch.setattr("resctrl_hooks.core.install.systemd.is_running", lambda: False)
    found = told(staged, **status)
    assert "keep `resctrl-hook watch` running as root" in found
    assert "systemctl" not in found


def test_sampling_is_a_warning_with_its_cause(staged: Host) -> None:
    found = told(staged, mode="sampling", why="this kernel has no connector")
    assert "warning: the exec watcher polls every two seconds" in found
    assert "this kernel has no connector" in found


def test_lost_events_are_a_warning(staged: Host) -> None:
    assert "events lost 2 times, rate limit exceeded 1 times" in told(staged, overruns=2, degraded=1)


def test_unconfigured_watch_is_ok(staged: Host) -> None:
    staged.settings.monitoring["exec"] = "reconcile"
    assert said(staged).startswith("ok: no exec watcher")


def test_disabled_watcher_is_a_warning(staged: Host) -> None:
    assert "the exec watcher is off: shutting down" in told(staged, mode="off", why="shutting down")
