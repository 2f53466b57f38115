"""`simulate --scene`: a node on which the commands show who suffers, because of whom, and that a limit helps."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hosts.processes import wait_until

from resctrl_hooks.core.cli import main
from resctrl_hooks.lab.scene import story
from resctrl_hooks.lab.scene.scenes import SCENES

CAUSES = {"noisy": "memory-bandwidth", "cache": "l3-cache", "cpu": "cpu-contention", "quiet": ""}
RUN = [sys.executable, "-m", "resctrl_hooks"]


def run(*words: str) -> str:
    done = subprocess.run([*RUN, *words], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A node whose first starts were killed, and during whose start a second one was tried."""
    folder = tmp_path_factory.mktemp("node")
    words = [*RUN, "simulate", str(folder), "--scene", "quiet", "--background"]
    for seconds in (0.4, 0.8, 1.2, 2.0, 4.0):
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as killed:
            time.sleep(seconds)
            killed.kill()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as start:
        assert start.stdout
        start.stdout.readline()
        second = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (second.returncode, f"process {start.pid} is starting a node" in second.stderr) == (1, True)
        pid = int(start.stdout.read().split()[-1])
    yield folder
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not os.path.ismount(folder / "resctrl"))


@pytest.mark.ci
@pytest.mark.fuse
@pytest.mark.xdist_group("scene")
@pytest.mark.parametrize("scene", CAUSES)
def test_scene_has_its_verdict_cause_and_culprit(node: Path, scene: str) -> None:
    run("simulate", str(node), "--scene", scene)
    output = run("--config", str(node / "config.json"), "diagnose", "shop/web", "--for", "5s", "-o", "json")
    found = json.loads(output)["items"][0]
    because = {one["cause"]: [pod["name"] for pod in one["pods"]] for one in found["causes"] if one["factor"]}
    cause = CAUSES[scene]
    expected = ("slowed", {cause: ["batch/reports"]}) if cause else ("normal", {})
    assert (found["verdict"], because) == expected


@pytest.mark.ci
@pytest.mark.fuse
@pytest.mark.runtime
def test_demo_finds_proves_and_limits_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with story.prepared() as begun:
        story.tell(begun)
    page = capsys.readouterr().out.split()[-1]
    assert (Path(page).stat().st_size > 0, os.listdir(tmp_path)) == (True, [Path(page).name])


@pytest.mark.ci
@pytest.mark.fuse
def test_interrupted_demo_without_runtime_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(story, "RUNTIMES", ())
    with story.prepared() as begun:
        assert begun.pods.result() == "plain processes"
    assert os.listdir(tmp_path) == []


def test_demo_without_fuse_names_what_is_missing_and_the_page_has_all_scenes(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs/simulation.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == SCENES.keys()
    real = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: path != "/dev/fuse" and real(path))
    result = CliRunner().invoke(main, ["demo", "--neighbour"])
    assert (result.exit_code, "/dev/fuse is missing" in result.output) == (1, True)


PAGE = Path(__file__).parents[3] / "docs/diagnose.md"
SHOWN = re.compile(r"^# resctrl-hook (.*)\n((?:(?!```|#).*\n)*)", re.MULTILINE)
LONG = ("--experiment", "--apply")
"""Commands of the page that take a minute; their options are tested elsewhere."""


@pytest.mark.ci
@pytest.mark.fuse
@pytest.mark.xdist_group("scene")
def test_commands_of_the_page_print_what_it_shows(node: Path) -> None:
    run("simulate", str(node), "--scene", "noisy")
    for command, shown in SHOWN.findall(PAGE.read_text()):
        if not any(one in command for one in LONG):
            printed = run("--config", str(node / "config.json"), *shlex.split(command))
            words = set(re.findall(r"[a-z][a-z/-]+", shown)) - {"resctrl-hook"}
            missing = [word for word in words if word not in printed]
            assert missing == [], printed


@pytest.mark.fuse
@pytest.mark.parametrize("mode, words", [(0o755, "has other files"), (0o777, "other users can write")])
def test_scene_in_unsuitable_folder_is_refused(tmp_path: Path, mode: int, words: str) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    for name in ("letter", "work.json"):
        (folder / name).write_text("")
    folder.chmod(mode)
    for place, said in ((folder, words), (link, "is a link")):
        result = CliRunner().invoke(main, ["simulate", str(place), "--scene", "noisy"])
        assert (result.exit_code, said in result.output) == (1, True)
    assert {path.name for path in folder.iterdir()} == {"letter", "work.json"}
