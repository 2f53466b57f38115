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
from core.install.staged import given
from golden import Golden
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


def test_connection_is_ok_or_its_fault_is_named_with_a_remedy(host: Host, golden: Golden) -> None:
    golden(lines(plugin(host)), "does not run")
    golden(lines(told(host)), "connected")
    dropped = told(host, drops=2, dropped=time.time() - 600, why="the runtime closed the connection")
    golden(lines(dropped), "connected again")
    golden(lines(told(host, connected=False, why="no such")), "not connected")
    off = 'version = 3\n[plugins."io.containerd.nri.v1.nri"]\ndisable = true\n'
    for path, text in (("etc/containerd/config.toml", off), ("usr/bin/containerd", "")):
        given(Path(host.tree.root), path, text)
    golden(lines(told(host)), "NRI is off")
    Path(host.tree.real("/var/run/nri/nri.sock")).unlink()
    golden(lines(told(host)), "no socket")
    for file in (host.tree.real(f"{UNITS}/{NRI}"), f"{host.settings.state_dir}/nri.json"):
        Path(file).unlink()
    golden(lines(plugin(host)), "not installed")


@pytest.mark.houses("placement")
def test_overlap_with_other_plugin_is_named(host: Host, golden: Golden) -> None:
    for program, config in (
        ("90-nri-memtierd", {}),
        ("90-nri-memtierd", {"classes": [{"name": "a", "allowswap": True}]}),
        ("nri-memory-qos", {"unifiedAnnotations": ["memory.high"]}),
        ("nri-resource-policy-balloons", {"placement": {"enabled": True}}),
        ("nri-resource-policy-balloons", {}),
        ("nri-resctrl-mon", {}),
        ("nri-resctrl-mon", {"groupPrefix": "rh-"}),
    ):
        theirs = given(Path(host.tree.root), f"opt/nri/plugins/{program}")
        vars(host.settings).update(vars(Settings({**config, "stateDir": host.settings.state_dir})))
        golden(lines(told(host)), f"{program}, {config}")
        theirs.unlink()


@pytest.mark.houses("placement")
def test_values_of_other_programs_that_stay_are_named(host: Host) -> None:
    ledger = host.context.ledger
    ledger.prepare()
    kept = {"memory": ["memory.high is 100 instead of 67108864"]}
    for number in range(4):
        member: Any = {"namespace": "shop", "pod": f"web-{number}", "container": "c0", "kept": kept}
        ledger.write_member(UID, f"{number:064x}", member)
    for others in ({}, {"placement": ["cpuset is cpus 1"]}):
        ledger.write_member(UID, f"{9:064x}", {"pod": "other", "kept": others})
        (found,) = [one for one in told(host) if one.level == "warning"]
        assert "another program set stay in 4 containers: shop/web-0/c0 (memory: memory.high is 100" in found.text
        assert found.text.endswith(" and 1 more")


def test_plugin_serves_containerd_instead_of_a_hook(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    patient.write("usr/bin/containerd", "")
    patient.write("etc/systemd/system/resctrl-hooks-nri.service", "")
    assert patient.said("hook", "ok")[0].startswith("containerd does not call OCI hooks; the NRI plugin serves its ")
    (patient.root / "etc/systemd/system/resctrl-hooks-nri.service").unlink()
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
