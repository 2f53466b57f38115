"""The MachineConfig's files on a node: hooks, bytecode, and removal."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Host, crio_annotations, state
from core.install.installed_node import InstalledNode, installed_node
from core.install.staged import FIRST, call, deliver, given, led
from hosts.ignition import unpacked
from project.test_node_half import EVERY_PYTHON

from openshift.rendering import files_of, text_of, units_of
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.install.hook_json import hook_problems
from resctrl_hooks.core.install.paths import ADMIN_HOOKS, BOOT_CODE, CODE, HOOK_NAME, PYTHON
from resctrl_hooks.core.node.archive import ARCHIVE

HOUSES = ("lab",)
UID = "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"
HOOK = f"{ADMIN_HOOKS}/{HOOK_NAME}"


def lay_out(value: dict[str, Any], root: Path) -> None:
    """Write the files as Ignition would, below ``root``."""
    for file in files_of(value):
        path = root / file["path"].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(unpacked(file["contents"]))
        path.chmod(file["mode"])


def test_doctor_finds_healthy_node_and_nothing_else_changes_it(value: dict[str, Any], tmp_path: Path) -> None:
    lay_out(value, tmp_path)
    for program in ("bin/sh", "usr/bin/python3", "usr/bin/crio"):
        given(tmp_path, program)
    given(tmp_path, "etc/crio/crio.conf.d/00-default.conf", f'[crio.runtime]\nhooks_dir = ["{ADMIN_HOOKS}"]\n')
    found = CliRunner().invoke(main, ["doctor", "--root", str(tmp_path)])
    assert found.exit_code == 0, found.output
    assert found.output.endswith("no problems, no warnings\n"), found.output
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for words in (["install", "--runtime", "crio"], ["uninstall"]):
        refused = CliRunner().invoke(main, [*words, "--root", str(tmp_path)])
        assert refused.exit_code == 1
        assert "belongs to a MachineConfig" in refused.output
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


class Node(Host):
    """A root folder with the files in it, as Ignition would write them, and a small host for the hook to work on."""

    STATE = "state"

    def __init__(self, root: Path, value: dict[str, Any]) -> None:
        self.value = value
        lay_out(value, root)
        # The hook works in a separate tree; the test sets the paths in its settings.
        super().__init__(root, real_proc=True, log={"target": "none"})
        settings = self.at("/etc/resctrl-hooks/config.json")
        settings.write_text(json.dumps(json.loads(settings.read_text()) | json.loads(self.config.read_text())))
        words = json.loads(self.at(HOOK).read_text())["hook"]["args"]
        self.hook = ["/bin/sh", *(led(root, word) for word in words[1:])]

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def created(self, command: list[str]) -> tuple[subprocess.CompletedProcess[bytes], list[str]]:
        """Call a hook for a new process, which ends then; return the call, and the tasks of the group if it exists."""
        with subprocess.Popen(["/bin/sleep", "100"]) as process:
            done = call(command, self.told("created", process.pid))
            tasks = self.resctrl / "mon_groups" / UID / "tasks"
            found = tasks.read_text().replace(str(process.pid), "the process").split("\n") if tasks.exists() else []
            process.kill()
        return done, found

    def told(self, status: str, pid: int) -> dict[str, Any]:
        return state(id="c" * 64, status=status, pid=pid, bundle=self.bundle(), annotations=crio_annotations(UID))

    def unit_command(self, name: str) -> list[str]:
        found = re.search(r"^ExecStart=(.*)$", units_of(self.value)[name]["contents"], re.MULTILINE)
        assert found
        return [led(self.root, word) for word in found[1].split()]


@pytest.fixture
def node(tmp_path: Path, value: dict[str, Any]) -> Node:
    return Node(tmp_path, value)


def test_reconcile_runs_at_ignition_path(node: Node) -> None:
    done = call([*node.unit_command("resctrl-hooks-reconcile.service"), "--json"])
    assert json.loads(done.stdout), done.stderr
    assert done.stderr == b""


@EVERY_PYTHON
def test_hook_runs_by_every_python_before_and_after_compilation(node: Node, tmp_path: Path, python: str) -> None:
    """3.9 is that of RHEL 9's CoreOS, 3.12 that of RHEL 10's."""
    command = [python if word == PYTHON else word for word in node.hook]
    before = sorted(node.at("/usr").rglob("*"))
    first, tasks = node.created(command)
    assert (first.returncode, first.stderr, tasks[:1]) == (0, b"", ["the process"])
    made = tmp_path / "run"
    interpreter, *words, _ = node.unit_command("resctrl-hooks-compile.service")
    compiled = call([python, *words, str(made)])
    assert (compiled.returncode, compiled.stderr) == (0, b"")
    assert (interpreter, len(list(made.iterdir()))) == (PYTHON, 2)
    stopped = call(command, node.told("stopped", 0))
    assert (stopped.returncode, stopped.stderr) == (0, b"")
    assert sorted(node.at("/usr").rglob("*")) == before, "hooks write nothing into the operator's files"


@pytest.mark.ci
def test_damaged_archive_lets_container_start(node: Node) -> None:
    (archive,) = node.at(CODE).glob(f"node-*/{ARCHIVE}")
    for data in (b"", archive.read_bytes()[:5000], b"BZh9" + bytes(100)):
        archive.write_bytes(data)
        done = call(node.hook, node.told("created", os.getpid()))
        assert (done.returncode, done.stderr.count(b"\n")) == (0, 1)
        assert b"container started without resctrl-hooks" in done.stderr


def test_oneshot_makes_bytecode_that_script_expects(node: Node, tmp_path: Path) -> None:
    *words, target = node.unit_command("resctrl-hooks-compile.service")
    assert target.startswith(BOOT_CODE)
    script = node.at(f"{CODE}/launch.py")
    assert re.findall(r'^COMPILED = "(.*)"$', script.read_text(), re.MULTILINE) == [target]
    # The same below the test's folder, and then only the bytecode is left.
    there = tmp_path / "run" / os.path.basename(target)
    script.write_text(script.read_text().replace(target, str(there)))
    done = call([*words, str(there)])
    assert (done.returncode, done.stderr) == (0, b"")
    for path in node.at(CODE).glob("node-*/**/*.*"):
        path.unlink()
    assert node.created(node.hook)[1]


@pytest.mark.ci
def test_containers_can_be_removed_after_each_removal_step(node: Node) -> None:
    for file in files_of(node.value):
        node.at(file["path"]).unlink()
        registered = list(node.at(ADMIN_HOOKS).glob("*.json"))
        assert all(hook_problems(path.read_bytes()) == [] for path in registered)
        for done in (node.created(node.hook)[0], call(node.hook, node.told("stopped", 0))):
            assert done.returncode == 0, file["path"]
            assert done.stderr.count(b"\n") <= 1


# From 0.1 to this version and back, while containers run on a simulated resctrl

WEB, DB, NEW = "a" * 64, "b" * 64, "c" * 64


class Delivered(InstalledNode):
    """A host to which a version's MachineConfig brings its code."""

    def hook(self) -> list[str]:
        """Return the command line that is in hooks' JSON, and so in each container's bundle."""
        return self.launch("hook")

    def moved(self, id_: str) -> float:
        """Return a container's traffic from this version's counters."""
        mine = [one.value for one in self.host.context.monitor.read(id_) if one.counter.name == "mbm_total_bytes"]
        assert mine
        return sum(value or 0 for value in mine)


@pytest.mark.ci
@pytest.mark.fuse
@pytest.mark.parametrize("before, after", [("0.1", "this"), ("this", "0.1")], ids=["upgrade", "downgrade"])
def test_running_containers_keep_their_groups_and_counts(tmp_path: Path, before: str, after: str) -> None:
    texts = {"0.1": FIRST.read_text(), "this": text_of()}
    with installed_node(tmp_path, Delivered) as node:
        deliver(node.root, texts[before])
        node.start(WEB)
        node.start(DB)
        groups = node.groups()
        assert groups.keys() == {WEB, DB}
        moved = node.moved(WEB)
        assert moved > 0

        deliver(node.root, texts[after])

        node.reconcile()
        assert node.groups() == groups
        assert node.is_in_group(WEB)
        assert node.is_in_group(DB)
        assert node.moved(WEB) >= moved
        node.start(NEW)
        node.end(DB)  # by the command that its bundle has, with the other version's record
        assert node.groups().keys() == {WEB, NEW}
        node.end(WEB)
        node.end(NEW)
        node.reconcile()
        assert node.groups() == {}
        assert list(node.host.context.ledger.keys()) == []
