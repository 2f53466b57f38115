"""The DaemonSets: well-formed; installing on a host and leaving nothing there; serving metrics with few rights."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from core.install.daemonsets import CONTRIB, daemonset, metrics_container
from core.install.staged import CONFIG, HOOKS, files, given, install
from resctrl_hooks import Monitor, __version__
from resctrl_hooks.core.install.paths import LAUNCH
from resctrl_hooks.core.install.pod import REMEDY, VARIABLE, outdated
from resctrl_hooks.core.install.unit_files import ENABLED
from resctrl_hooks.core.install.units import EXEC
from resctrl_hooks.core.node.ledger import TOTALS
from resctrl_hooks.core.node.names import RESCTRL_ROOT, STATE_DIR
from resctrl_hooks.core.node.settings import DEFAULT_CONFIG

NSENTER = """#!/bin/sh
echo "$*" >>{told}
case "$*" in
*launch.py*) # the node's own code, which lies below a folder here
  shift 4
  exec $(echo "$*" | sed "s# /usr/local# $HOST/usr/local#; s# /etc# $HOST/etc#") ;;
esac
"""
"""Replaces the host's nsenter, and records the calls."""


class Machine:
    """A host below a folder, the image's programs, and an nsenter that records its calls on the host."""

    def __init__(self, root: Path) -> None:
        self.root, self.host, self.programs = root, root / "host", root / "programs"
        self.nsenter = given(root, "programs/nsenter", NSENTER.format(told=root / "told"))
        hook = given(root, "programs/resctrl-hook", f'#!/bin/sh\nexec {sys.executable} -m resctrl_hooks "$@"\n')
        for program in (self.nsenter, hook):
            program.chmod(0o755)

    def run(self, name: str, *, killed_before: int = -1, deleted_before: int = -1, more: str = "") -> None:
        """Run a manifest's script; it is killed before a step, or its pod is deleted."""
        (container,) = daemonset(name)["spec"]["initContainers"]
        shell, options, script = container["command"]
        settings = f"namespaces: [shop]\nresctrlPath: {self.root}/resctrl\nstateDir: {self.root}/run/resctrl-hooks\n"
        script = script.replace(" /config/config.yaml", f" {given(self.root, 'config.yaml', settings + more)}")
        for step, event in ((killed_before, "exit 99"), (deleted_before, "kill -TERM $$")):
            if step >= 0:
                lines = script.splitlines()
                lines.insert(steps(script)[step], event)
                script = "\n".join(lines)
        environment = {"HOST": str(self.host), "PATH": f"{self.programs}:{os.environ['PATH']}"}
        done = subprocess.run([shell, options, script], env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == (0 if killed_before < 0 else 99), done.stderr

    def told(self) -> list[str]:
        """Return the calls on the host so far, and forget them."""
        lines = (self.root / "told").read_text().splitlines()
        (self.root / "told").unlink()
        return [line.partition(" -- ")[2] for line in lines]

    def ours(self) -> set[str]:
        return {name for name in files(self.host) if "resctrl" in name}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"


def steps(script: str) -> list[int]:
    """Return the lines at which a script's commands begin; a condition is one command."""
    lines = enumerate(script.splitlines())
    return [number for number, line in lines if line and line[0] not in " #" and line != "fi"]


RESET = ["systemctl daemon-reload", "systemctl reset-failed resctrl-hooks-*"]
REMOVAL = steps(daemonset("remove.yaml")["spec"]["initContainers"][0]["command"][2])


@pytest.mark.ci
def test_installer_installs_keeps_and_removes(machine: Machine) -> None:
    host = machine.host
    given(host, "usr/bin/crio")
    (host / "etc").mkdir()
    before = files(host)
    machine.run("resctrl-hooks.yaml")
    assert {HOOKS, CONFIG} <= files(host)
    assert "shop" in (host / "etc/resctrl-hooks/config.json").read_text()
    calls = machine.told()
    assert calls[0] == "systemctl daemon-reload"
    installed = [unit for unit in ENABLED if (host / "etc/systemd/system" / unit).exists()]
    assert EXEC in installed
    assert [unit for unit in ENABLED if unit in " ".join(calls)] == installed

    config = host / CONFIG.lstrip("/")
    first = config.stat()
    machine.run("resctrl-hooks.yaml")  # a rollout
    assert (config.stat().st_ino, config.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    config.write_text("namespaces: [other]\n")
    machine.run("resctrl-hooks.yaml")
    assert "shop" in config.read_text()

    machine.told()
    machine.run("remove.yaml")
    stop, release, *others = machine.told()
    assert (stop, others) == ("systemctl stop resctrl-hooks-*", RESET)
    assert release.endswith("launch.py --config /etc/resctrl-hooks/config.yaml release")
    assert machine.ours() == set()
    assert files(host) - {"/etc", "/run"} <= before


@pytest.mark.ci
@pytest.mark.houses("placement")
def test_code_of_an_enabled_feature_is_there_before_its_settings(machine: Machine) -> None:
    """Its containers would be refused in between."""
    machine.run("resctrl-hooks.yaml")
    code = machine.host / "usr/local/libexec/resctrl-hooks"
    assert not list(code.glob("node-*/placement"))
    (_, _, script) = daemonset("resctrl-hooks.yaml")["spec"]["initContainers"][0]["command"]
    assert script.count('resctrl-hook "$@"') == 2
    (apply,) = [number for number, line in enumerate(script.splitlines()) if line.endswith("config apply")]
    step = steps(script).index(apply) + 1
    machine.run("resctrl-hooks.yaml", killed_before=step, more="placement: {enabled: true}\n")
    assert "placement" in (machine.host / "etc/resctrl-hooks/config.json").read_text()
    assert list(code.glob("node-*/placement"))


@pytest.mark.ci
@pytest.mark.parametrize("step", [1, 4])
def test_installation_is_completed_if_its_pod_is_deleted_meanwhile(machine: Machine, step: int) -> None:
    """A unit of another version is stopped."""
    listed = "resctrl-hooks-later.service not-found active a\nresctrl-hooks-exec.service loaded active running b"
    more = f"case $* in *list-units*) echo '{listed}' ;; *reset-failed*) exit 1 ;; esac\n"
    machine.nsenter.write_text(machine.nsenter.read_text() + more)
    machine.run("resctrl-hooks.yaml", deleted_before=step)
    assert HOOKS in files(machine.host)
    calls = machine.told()
    assert any(call.startswith("systemctl restart resctrl-hooks-reconcile.timer") for call in calls)
    assert [call for call in calls if " stop " in call] == ["systemctl stop resctrl-hooks-later.service"]


@pytest.mark.ci
def test_removal_killed_before_each_step_is_completed_by_retry(machine: Machine, tmp_path: Path) -> None:
    host, installed, resctrl = machine.host, tmp_path / "installed", tmp_path / "resctrl"
    (host / "etc").mkdir(parents=True)
    machine.run("resctrl-hooks.yaml")
    shutil.copytree(host, installed, symlinks=True)
    for step in range(len(REMOVAL)):
        shutil.rmtree(host)
        shutil.copytree(installed, host, symlinks=True)
        for folder in ("mon_groups/foreign", "info"):
            (resctrl / folder).mkdir(parents=True, exist_ok=True)
        Monitor(str(resctrl), state_dir=str(tmp_path / "run/resctrl-hooks")).ensure_group(UID)
        machine.run("remove.yaml", killed_before=step)
        assert (host / LAUNCH.lstrip("/")).exists() or not (resctrl / "mon_groups" / UID).exists(), step
        machine.run("remove.yaml")
        assert machine.ours() == set()
        assert [path.name for path in (resctrl / "mon_groups").iterdir()] == ["foreign"]
        assert not (tmp_path / "run/resctrl-hooks").exists()
        assert machine.told()[-2:] == RESET


def test_manifests_of_another_version_are_reported_on_a_running_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(tmp_path, "run/systemd/system/x")
    for manifests, warns in ((__version__, False), ("0.3.0", True)):
        monkeypatch.setenv(VARIABLE, manifests)
        assert ("warning: the DaemonSet's manifests are of version" in install(tmp_path)) is warns
    (container,) = daemonset("resctrl-hooks.yaml")["spec"]["initContainers"]
    assert {"name": VARIABLE, "value": __version__} in container["env"]
    assert outdated("", "2") == outdated("2", "2") == ""
    assert outdated("1", "2") == "the DaemonSet's manifests are of version 1, its image is of 2"
    unknown = outdated("unknown", "2")
    assert unknown.startswith("the DaemonSet's manifests are of version unknown, its image is of 2; older ones do not ")
    assert "of the image's version" in REMEDY


@pytest.mark.parametrize("name", ["resctrl-hooks.yaml", "remove.yaml"])
def test_only_the_installer_is_privileged_and_the_deleted_pod_ends_with_0(name: str) -> None:
    spec = daemonset(name)["spec"]
    assert spec["hostPID"] is True
    assert [container["securityContext"].get("privileged") for container in spec["initContainers"]] == [True]
    (container,) = spec["containers"]
    context = container["securityContext"]
    assert (context["capabilities"], context["seccompProfile"]) == ({"drop": ["ALL"]}, {"type": "RuntimeDefault"})
    assert not {"privileged", "volumeMounts"} & {*context, *container}
    with subprocess.Popen(container["command"], start_new_session=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        try:
            while not children.read_text():  # it sleeps, so its trap is set
                assert process.poll() is None
            process.terminate()
            assert process.wait() == 0
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the sleep, which ends with the pod's container


def test_pod_monitor_selects_metrics_pods_which_wait_for_resctrl() -> None:
    monitor = yaml.safe_load((CONTRIB / "prometheus/podmonitor.yaml").read_text())
    container, paths = metrics_container()
    volumes = {volume["name"]: volume["hostPath"] for volume in daemonset("metrics.yaml")["spec"]["volumes"]}
    # The kubelet sets up only volumes that a container mounts: the pod waits until resctrl is mounted.
    mounted = [volumes[mount["name"]] for mount in container["volumeMounts"]]
    assert {"path": f"{RESCTRL_ROOT}/info", "type": "Directory"} in mounted
    assert monitor["spec"]["selector"]["matchLabels"] == daemonset("metrics.yaml")["metadata"]["labels"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["honorLabels"] is True
    assert [(port["name"], port["containerPort"]) for port in container["ports"]] == [(endpoint["port"], 9777)]
    state = [STATE_DIR, f"{STATE_DIR}/{TOTALS}", RESCTRL_ROOT, f"{RESCTRL_ROOT}/info"]
    assert sorted(paths.values()) == [os.path.dirname(DEFAULT_CONFIG), *state]
