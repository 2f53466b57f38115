"""Each house but core can be removed: without its folder and its tests, everything else works and has none of it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import GROUP, PYTHON, Host, stopped

from project.contributed import REPOSITORY
from resctrl_hooks.core.doctor.runner import checks_of
from resctrl_hooks.core.install.payload import payload
from resctrl_hooks.core.parts import HOUSES, Part, load, parts

pytestmark = pytest.mark.no_cover
OTHERS = [name for name in HOUSES if name != "core"]
# What a copy has, as one JSON object.
INVENTORY = """
import json, sys
import click
sys.path.insert(0, "contrib")
import man
import resctrl_hooks
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.cli.schemas import schemas
from resctrl_hooks.core.doctor.runner import checks_of
from resctrl_hooks.core.install.payload import payload
from resctrl_hooks.core.parts import parts

def helps(command, context):
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            yield from helps(inner, click.Context(inner, info_name=name, parent=context))

found = {
    "package": resctrl_hooks.__file__,
    "parts": [part.name for part in parts()],
    "helps": dict(helps(main, click.Context(main, info_name="resctrl-hook", **main.context_settings))),
    "documents": [*schemas()],
    "man": man.man_page().decode(),
    "payload": [*payload().modules],
    "modules": [*sys.modules],
}
print(json.dumps(found))
"""


class Copy(NamedTuple):
    """A copy of the project without a house.

    Args:
        house: the house's part.
        folder: the copy's.
    """

    house: Part
    folder: Path

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run Python with the copy's modules before all others."""
        options: dict[str, Any] = {"capture_output": True, "text": True, "cwd": self.folder}
        environment = {**os.environ, "PYTHONPATH": f"{self.folder}:{self.folder}/tests", "NO_COLOR": "1"}
        return subprocess.run([sys.executable, *command], check=False, env=environment, **options)

    def output(self, *command: str | Path) -> str:
        """Return the output of a Python that succeeds."""
        done = self.run(*command)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in OTHERS])
def without(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """Copy the project, and delete a house's folder and tests."""
    house: Part = next(part for part in parts() if part.name == request.param)
    folder = tmp_path_factory.mktemp(f"without-{house.name}") / "project"
    ignored = shutil.ignore_patterns(".git", ".venv*", ".hypothesis", ".*_cache", ".nox", "dist", "build")
    shutil.copytree(REPOSITORY, folder, ignore=ignored, symlinks=True)
    for place in ("resctrl_hooks", "tests"):
        shutil.rmtree(folder / place / house.name)
    yield Copy(house, folder)
    shutil.rmtree(folder)


def units(part: Part) -> list[str]:
    return [unit.name for unit in load(part.units)] if part.units else []


@pytest.mark.ci
def test_copy_has_what_the_other_houses_add_and_nothing_of_this_one(without: Copy) -> None:
    house, others = without.house, [part for part in parts() if part is not without.house]
    found: dict[str, Any] = json.loads(without.output("-c", INVENTORY))
    assert Path(found["package"]).parents[1] == without.folder
    assert found["parts"] == [part.name for part in others]
    assert not [name for name in found["modules"] if name.startswith(f"resctrl_hooks.{house.name}.")]
    documents = [name for part in others if part.documents for name in load(part.documents)]
    assert sorted(found["documents"]) == sorted(documents)

    overview = without.output("-m", "resctrl_hooks", "--help")
    shown = {line.split()[0] for line in overview.splitlines() if line.startswith("  ") and line[2:3].isalpha()}
    expected = {name: entry for part in others for name, entry in part.commands.items() if " " not in name}
    assert expected.keys() - shown == {name for name, entry in expected.items() if entry.hidden}
    assert {path.split()[1] for path in found["helps"] if " " in path} == expected.keys()
    assert not [name for name in house.commands if f"resctrl-hook {name}" in found["helps"]]
    helps, man = "".join(found["helps"].values()), found["man"].replace("\\", "")
    in_man = {line.split()[1] for line in man.splitlines() if line.startswith(".SS ")}
    assert in_man >= expected.keys()
    called = re.findall(r"resctrl-hook ([a-zA-Z]+)", helps + man)
    assert not {name for name in house.commands if " " not in name} & {*shown, *in_man, *called}
    assert not [unit for unit in units(house) if unit in man]
    assert not [one for examples in house.examples.values() for one in examples if one in helps]
    assert not house.choice or f"--{house.name}" not in helps

    complete, folder = payload().modules, f"{house.name}/"
    theirs = b"".join(data for path, data in complete.items() if path.startswith(folder))
    assert not [path for path in found["payload"] if path.startswith(folder) or path not in complete]
    # A module of another house is left out if only this one imports it.
    left_out = [path for path in complete.keys() - {*found["payload"]} if not path.startswith(folder)]
    assert not [path for path in left_out if Path(path).stem.encode() not in theirs]


@pytest.mark.ci
def test_installation_and_doctor_have_none_of_its_code_units_and_checks(without: Copy, tmp_path: Path) -> None:
    command = ("-m", "resctrl_hooks", "install", "--root", tmp_path, "--runtime", "crio", "--runtime", "podman")
    planned = without.output(*command, "--dry-run")
    assert [*tmp_path.iterdir()] == []
    without.output(*command)
    installed = "\n".join(str(path) for path in tmp_path.rglob("*"))
    assert "/core/node/launch.py" in installed
    assert not [one for one in (f"/{without.house.name}/", *units(without.house)) if one in planned + installed]
    (without.folder / "config.yaml").touch()
    done = without.run("-m", "resctrl_hooks", "--config", "config.yaml", "doctor", "-o", "json")
    assert done.returncode in {0, 1}, done.stderr
    checks = {item["check"] for item in json.loads(done.stdout)["items"]}
    assert "configuration" in checks
    assert not checks & checks_of(without.house).keys()


@pytest.mark.ci
def test_hooks_and_reconcile_serve_a_container(without: Copy, host: Host, pod: dict[str, Any]) -> None:
    script = "import pathlib, sys, hosts.node_half as node; print(node.put_node_half(pathlib.Path(sys.argv[1])))"
    launch = without.output("-c", script, host.root / "code").strip()

    def run(stage: str, state: dict[str, Any]) -> str:
        command = [*PYTHON, launch, "--config", str(host.config), stage]
        done = subprocess.run(command, input=json.dumps(state), capture_output=True, check=False, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    host.configure(monitoring={"release": "last-container"})
    run("createRuntime", pod)
    assert host.tasks(GROUP) == [100, 101, 102]
    assert re.search(r"^running containers \.* 1$", run("reconcile", {}), re.MULTILINE)
    assert host.groups() == [GROUP]
    host.end_process(100)
    run("poststop", stopped())
    assert (host.groups(), host.records()) == ([], [])


@pytest.mark.removal
def test_remaining_tests_are_collected(without: Copy) -> None:
    done = without.run("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, "\n".join(line for line in done.stdout.splitlines() if line.startswith("ERROR"))


@pytest.mark.removal
@pytest.mark.timeout(7200)
def test_remaining_tests_pass(without: Copy) -> None:
    done = without.run("-m", "pytest", "-q", "-n", "2", "--deselect", "tests/project/test_removable.py")
    assert done.returncode == 0, done.stdout[-8000:]
