"""The DaemonSets: well-formed, and their scripts install on a host's root and leave nothing there."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from install.staged import CONFIG, HOOKS, files

FOLDER = Path(__file__).parents[2] / "contrib/daemonset"


def daemonset(name: str) -> dict[str, Any]:
    documents = list(yaml.safe_load_all((FOLDER / name).read_text()))
    (found,) = [document for document in documents if document["kind"] == "DaemonSet"]
    pod: dict[str, Any] = found["spec"]["template"]
    assert found["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    return pod


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """What the image has, and an nsenter that writes down what it would do on the host."""
    folder = tmp_path / "programs"
    folder.mkdir()
    scripts = {
        "nsenter": f'echo "$*" >>{tmp_path}/nsenter\n',
        "resctrl-hook": f'exec {sys.executable} -m resctrl_hooks "$@"\n',
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}")
        (folder / name).chmod(0o755)
    return folder


def run(name: str, host: Path, programs: Path, tmp_path: Path) -> None:
    (container,) = daemonset(name)["spec"]["initContainers"]
    shell, options, script = container["command"]
    (tmp_path / "config.yaml").write_text("namespaces: [shop]\n")
    script = script.replace("/config/config.yaml", f"{tmp_path}/config.yaml")
    environment = {"HOST": str(host), "PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run([shell, options, script], env=environment, check=True, capture_output=True)


def test_it_comes_and_goes(tmp_path: Path, programs: Path) -> None:
    host = tmp_path / "host"
    (host / "etc").mkdir(parents=True)
    (host / "usr/bin").mkdir(parents=True)
    (host / "usr/bin/crio").touch()
    before = files(host)
    for _ in range(2):  # the second is a rollout
        run("resctrl-hooks.yaml", host, programs, tmp_path)
        assert {HOOKS, CONFIG} <= files(host)
        assert "shop" in (host / "etc/resctrl-hooks/config.json").read_text()
    run("remove.yaml", host, programs, tmp_path)
    assert {name for name in files(host) if "resctrl" in name} == set()
    assert files(host) - {"/etc", "/run"} <= before | {"/etc"}


def test_systemd_of_the_host_is_told(tmp_path: Path, programs: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    run("resctrl-hooks.yaml", host, programs, tmp_path)
    told = (tmp_path / "nsenter").read_text().splitlines()
    assert told[0].endswith("systemctl daemon-reload")
    started = " ".join(told)
    for unit in ("sys-fs-resctrl.mount", "reconcile.timer", "reconcile.path", "compile.service"):
        assert unit in started


@pytest.mark.parametrize("name", ["resctrl-hooks.yaml", "remove.yaml"])
def test_only_the_installer_is_privileged(name: str) -> None:
    spec = daemonset(name)["spec"]
    assert spec["hostPID"] is True
    assert [container["securityContext"].get("privileged") for container in spec["initContainers"]] == [True]
    for container in spec["containers"]:
        assert "privileged" not in container["securityContext"]
        assert "volumeMounts" not in container
