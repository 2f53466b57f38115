"""doctor on the NRI plugin."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from install.staged import install

from resctrl_hooks.doctor.finding import Finding
from resctrl_hooks.doctor.host import Host
from resctrl_hooks.doctor.nri import plugin, removed_groups
from resctrl_hooks.install.paths import UNITS
from resctrl_hooks.install.units import NRI


@pytest.fixture
def host(tmp_path: Path) -> Host:
    install(tmp_path, runtime="containerd")
    made = Host("/etc/resctrl-hooks/config.yaml", str(tmp_path))
    made.settings.state_dir = str(tmp_path / "state")
    (tmp_path / "state").mkdir()
    socket = tmp_path / "var/run/nri/nri.sock"
    socket.parent.mkdir(parents=True)
    socket.touch()
    return made


def told(host: Host, **values: Any) -> list[Finding]:
    status = {"pid": os.getpid(), "connected": True, "runtime": "containerd", "version": "2.1.9", "drops": 0, **values}
    (Path(host.settings.state_dir) / "nri.json").write_text(json.dumps(status))
    return list(plugin(host))


def words(findings: list[Finding]) -> str:
    return "\n".join(f"{finding.level}: {finding.text}" for finding in findings)


def test_connected_plugin_is_ok(host: Host) -> None:
    assert words(told(host)) == "ok: the NRI plugin is connected to containerd 2.1.9"


def test_last_disconnection_is_reported(host: Host) -> None:
    found = words(told(host, drops=2, dropped=time.time() - 600, why="the runtime closed the connection"))
    assert "dropped 2 times, last 10 min ago: the runtime closed the connection" in found


def test_disconnected_plugin_is_reported(host: Host) -> None:
    assert "problem: the NRI plugin is not connected: no such" in words(told(host, connected=False, why="no such"))


def test_stopped_plugin_is_reported(host: Host) -> None:
    assert "problem: the NRI plugin does not run" in words(list(plugin(host)))


def test_disabled_nri_is_reported(host: Host) -> None:
    config = Path(host.tree.real("/etc/containerd/config.toml"))
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('version = 3\n[plugins."io.containerd.nri.v1.nri"]\ndisable = true\n')
    program = Path(host.tree.real("/usr/bin/containerd"))
    program.parent.mkdir(parents=True, exist_ok=True)
    program.touch()
    assert "problem: NRI is off in /etc/containerd/config.toml" in words(told(host))


def test_unreachable_runtime_is_reported(host: Host) -> None:
    Path(host.tree.real("/var/run/nri/nri.sock")).unlink()
    assert "problem: no runtime listens on /var/run/nri/nri.sock" in words(told(host))


def test_other_plugins_are_named(host: Host) -> None:
    theirs = Path(host.tree.real("/opt/nri/plugins/90-nri-memtierd"))
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    assert "warning: other NRI plugins run on this node: 90-nri-memtierd" in words(told(host))


def test_plugin_is_ignored_where_unused(host: Host) -> None:
    Path(host.tree.real(f"{UNITS}/{NRI}")).unlink()
    assert (
        words(list(plugin(host)))
        == "ok: the NRI plugin is not installed; a runtime that calls the hook does not need it"
    )


def test_removed_groups_are_a_problem_with_remedy(host: Host) -> None:
    assert [found.level for found in removed_groups(host)] == ["ok"]
    told = {"total": 3, "last": time.time() - 30, "pods": {}}
    (Path(host.settings.state_dir) / "vanished").write_text(json.dumps(told))
    (found,) = removed_groups(host)
    assert found.level == "problem"
    assert "another program removed 3 groups of live pods, last 30 s ago" in found.text
    assert "nri-resctrl-mon" in str(found.remedy)
