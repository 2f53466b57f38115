"""doctor on the NRI plugin."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import UID
from core.doctor.patient import Patient
from core.doctor.unrecorded import Node
from hosts.patients import lines, older, run_service, staged_host

from resctrl_hooks.core.doctor.finding import Finding
from resctrl_hooks.core.doctor.host import Host
from resctrl_hooks.core.doctor.versions import versions
from resctrl_hooks.core.install.paths import UNITS
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.nri.doctor.nri import plugin
from resctrl_hooks.nri.install.nri import NRI


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = staged_host(tmp_path, "containerd")
    socket = tmp_path / "var/run/nri/nri.sock"
    socket.parent.mkdir(parents=True)
    socket.touch()
    return made


def told(host: Host, **values: Any) -> list[Finding]:
    status = {"pid": os.getpid(), "connected": True, "runtime": "containerd", "version": "2.1.9", "drops": 0, **values}
    (Path(host.settings.state_dir) / "nri.json").write_text(json.dumps(status))
    return list(plugin(host))


def test_connected_plugin_is_ok(host: Host) -> None:
    assert lines(told(host)) == "ok: the NRI plugin is connected to containerd 2.1.9; "


def test_last_disconnection_is_reported(host: Host) -> None:
    found = lines(told(host, drops=2, dropped=time.time() - 600, why="the runtime closed the connection"))
    assert "dropped 2 times, last 10 min ago: the runtime closed the connection" in found


def test_disconnected_plugin_is_reported(host: Host) -> None:
    assert "problem: the NRI plugin is not connected: no such" in lines(told(host, connected=False, why="no such"))


def test_stopped_plugin_is_reported(host: Host) -> None:
    assert "problem: the NRI plugin does not run" in lines(plugin(host))


def test_disabled_nri_is_reported(host: Host) -> None:
    config = Path(host.tree.real("/etc/containerd/config.toml"))
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('version = 3\n[plugins."io.containerd.nri.v1.nri"]\ndisable = true\n')
    program = Path(host.tree.real("/usr/bin/containerd"))
    program.parent.mkdir(parents=True, exist_ok=True)
    program.touch()
    assert "problem: NRI is off in /etc/containerd/config.toml" in lines(told(host))


def test_unreachable_runtime_is_reported(host: Host) -> None:
    Path(host.tree.real("/var/run/nri/nri.sock")).unlink()
    assert "problem: no runtime listens on /var/run/nri/nri.sock" in lines(told(host))


PLACEMENT = pytest.mark.houses("placement")
BOTH = "and this configuration both set"


@pytest.mark.parametrize(
    "program, config, said",
    [
        ("90-nri-memtierd", {}, "ok: other NRI plugins set nothing that this configuration sets: 90-nri-memtierd"),
        (
            "90-nri-memtierd",
            {"classes": [{"name": "a", "allowswap": True}]},
            f"warning: the NRI plugin 90-nri-memtierd {BOTH} memory.high and memory.swap.max",
        ),
        ("nri-memory-qos", {"unifiedAnnotations": ["memory.high"]}, f"{BOTH} memory.high and memory.swap.max"),
        pytest.param(
            *("nri-resource-policy-balloons", {"placement": {"enabled": True}}, f"{BOTH} CPUs and memory nodes"),
            marks=PLACEMENT,
        ),
        ("nri-resource-policy-balloons", {}, "ok: other NRI plugins set nothing"),
        ("nri-resctrl-mon", {}, f"{BOTH} monitoring groups named by the pod's UID"),
        ("nri-resctrl-mon", {"groupPrefix": "rh-"}, "ok: other NRI plugins set nothing"),
    ],
)
def test_overlap_with_other_plugin_is_named(host: Host, program: str, config: dict[str, Any], said: str) -> None:
    theirs = Path(host.tree.real(f"/opt/nri/plugins/{program}"))
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    vars(host.settings).update(vars(Settings({**config, "stateDir": host.settings.state_dir})))
    assert said in lines(told(host))


@pytest.mark.parametrize("others", [{}, pytest.param({"placement": ["cpuset is cpus 1"]}, marks=PLACEMENT)])
def test_values_of_other_programs_that_stay_are_named(host: Host, others: dict[str, list[str]]) -> None:
    ledger = host.context.ledger
    ledger.prepare()
    kept = {"memory": ["memory.high is 100 instead of 67108864"]}
    for number in range(4):
        member: Any = {"namespace": "shop", "pod": f"web-{number}", "container": "c0", "kept": kept}
        ledger.write_member(UID, f"{number:064x}", member)
    ledger.write_member(UID, f"{9:064x}", {"pod": "other", "kept": others})
    (found,) = [one for one in told(host) if one.level == "warning"]
    assert "another program set stay in 4 containers: shop/web-0/c0 (memory: memory.high is 100" in found.text
    assert found.text.endswith(" and 1 more")


def test_plugin_is_ignored_where_unused(host: Host) -> None:
    Path(host.tree.real(f"{UNITS}/{NRI}")).unlink()
    assert lines(plugin(host)).startswith(
        "ok: the NRI plugin is not installed; a runtime that calls the hook does not "
    )


def test_containerd_with_the_nri_plugin_needs_no_hook(patient: Patient) -> None:
    patient.write("usr/bin/containerd", "")
    patient.write("etc/systemd/system/resctrl-hooks-nri.service", "")
    assert patient.said("hook", "ok")[0].startswith("containerd does not call OCI hooks; the NRI plugin serves its ")


def test_remedy_for_containerd_is_the_plugin(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    patient.write("usr/bin/containerd", "")
    monkeypatch.setattr(Host, "manifest", None)
    (found,) = (found for _, found in patient.findings("hook") if found.text.startswith("containerd"))
    assert found.remedy == "install the NRI plugin: `resctrl-hook install --runtime containerd`"


def test_plugin_that_runs_older_code_is_named(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "live", True)
    run_service(host, "nri.json", code_age=-60)
    assert lines(versions(host)) == older("nri")


def test_plugin_is_the_registration_of_a_pod(node: Node) -> None:
    status = Path(node.host.context().settings.state_dir) / "nri.json"
    status.parent.mkdir(parents=True, exist_ok=True)
    status.write_text("{}")
    assert node.explain().text.startswith(f"{UNITS}/{NRI} exists, but no record")
