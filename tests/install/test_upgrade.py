"""From 0.1 to this version, and back, while containers run on a simulated resctrl: files as a MachineConfig brings."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hosts.monitored import MonitoredHost, monitored_host

from install.staged import FIRST, deliver
from resctrl_hooks.cli import main
from resctrl_hooks.install.paths import LAUNCH
from resctrl_hooks.simulation import mounted

WEB, DB, NEW = "a" * 64, "b" * 64, "c" * 64
pytestmark = pytest.mark.fuse
PATIENT = 60.0
"""Seconds of a hook's deadline: version 0.1 also counts the time that it waits for a processor of a busy machine."""


class Delivered:
    """A host to which a version's MachineConfig brings its code, below a folder; settings are this test's.

    Args:
        root: the folder.
        host: resctrl, the settings, and processes that stand for containers.
    """

    def __init__(self, root: Path, host: MonitoredHost) -> None:
        self.root = root
        self.host = host
        self.pids: dict[str, int] = {}

    def call(self, *words: str, said: str = "") -> str:
        """Return the command line that is in hooks' JSON, and so in each container's bundle."""
        command = ["/usr/bin/python3", "-I", "-S", f"{self.root}{LAUNCH}", "--config", str(self.host.config), *words]
        done = subprocess.run(command, input=said, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, id_: str) -> None:
        """A container's createRuntime."""
        self.pids[id_] = self.host.process()
        self.call("hook", said=self.state(id_, "creating"))

    def end(self, id_: str) -> None:
        """A container's end and its poststop."""
        os.kill(self.pids[id_], 9)
        for process in self.host.processes:
            if process.pid == self.pids[id_]:
                process.wait()
        self.call("hook", said=self.state(id_, "stopped"))

    def state(self, id_: str, status: str) -> str:
        """Return a runtime's state for a hook."""
        bundle = self.root / "bundle"
        bundle.mkdir(exist_ok=True)
        (bundle / "config.json").write_text('{"ociVersion": "1.1.0"}')
        value = {"ociVersion": "1.1.0", "id": id_, "status": status, "bundle": str(bundle)}
        return json.dumps(value | ({"pid": self.pids[id_]} if status == "creating" else {}))

    def groups(self) -> dict[str, int]:
        """Return the groups by their inode numbers, which another group of that name would not have."""
        return {entry.name: entry.inode() for entry in os.scandir(self.host.resctrl / "mon_groups")}

    def moved(self, id_: str) -> float:
        """Return a container's traffic from this version's metrics."""
        lines = self.host.run("metrics", "--format", "prometheus").stdout.splitlines()
        mine = [line for line in lines if line.startswith("l3_mbm_total_bytes_total{") and f'pod_uid="{id_}"' in line]
        assert mine
        return sum(float(line.split()[-1]) for line in mine)


@pytest.fixture
def delivered(tmp_path: Path) -> Iterator[Delivered]:
    (tmp_path / "host").mkdir()
    with (
        mounted(str(tmp_path / "resctrl")) as resctrl,
        monitored_host(tmp_path, str(resctrl), deadlineSeconds=PATIENT) as host,
    ):
        yield Delivered(tmp_path / "host", host)


@pytest.mark.parametrize("before, after", [("0.1", "this"), ("this", "0.1")], ids=["upgrade", "downgrade"])
def test_running_containers_keep_their_groups_and_counts(delivered: Delivered, before: str, after: str) -> None:
    texts = {"0.1": FIRST.read_text(), "this": CliRunner().invoke(main, ["machineconfig"]).stdout}
    deliver(delivered.root, texts[before])
    delivered.start(WEB)
    delivered.start(DB)
    groups = delivered.groups()
    assert groups.keys() == {WEB, DB}
    moved = delivered.moved(WEB)
    assert moved > 0

    deliver(delivered.root, texts[after])

    delivered.call("reconcile")
    assert delivered.groups() == groups
    for id_ in (WEB, DB):
        assert str(delivered.pids[id_]) in (delivered.host.resctrl / "mon_groups" / id_ / "tasks").read_text().split()
    assert delivered.moved(WEB) >= moved
    delivered.start(NEW)
    delivered.end(DB)  # by the command that its bundle has, with the other version's record
    assert delivered.groups().keys() == {WEB, NEW}
    delivered.end(WEB)
    delivered.end(NEW)
    delivered.call("reconcile")
    assert delivered.groups() == {}
    assert list(delivered.host.context.ledger.keys()) == []
