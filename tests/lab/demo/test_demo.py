"""The demo reports the true result with every subject, notices failures, and leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from resctrl_hooks.core.cli import main
from resctrl_hooks.lab.demo import podman, story
from resctrl_hooks.lab.demo.podman import Podman
from resctrl_hooks.lab.demo.process import PlainProcess
from resctrl_hooks.lab.demo.stage import Stage, staged
from resctrl_hooks.lab.demo.story import DemoError, available, run_demo
from resctrl_hooks.lab.demo.subject import POD_UID, RuntimeFailedError


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the demo makes its folder in this test; pytest's own folders are too long for Podman, which takes 50."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture
def stage(temporary: Path) -> Iterator[Stage]:
    with staged(plain=True) as stage:
        yield stage


def demo(*arguments: str) -> Result:
    before = signal.getsignal(signal.SIGTERM)
    try:
        return CliRunner().invoke(main, ["demo", "--no-neighbour", *arguments])
    finally:
        signal.signal(signal.SIGTERM, before)


NEXT = "Next: install it (README.md, section Install)"
PLAIN = (f"mon_groups/{POD_UID[:12]}", "tasks: sh", "mon_groups is empty", NEXT)
CONTAINER = ("waits for its start, already in its group", "tasks: sh, sleep", "no records")


@pytest.mark.parametrize(
    "words, shown",
    [
        ("process --plain", PLAIN),
        pytest.param("process", ("tasks: sh, sleep",), marks=pytest.mark.fuse),
        *(pytest.param(name, CONTAINER, marks=[pytest.mark.ci, pytest.mark.runtime]) for name in ("podman", "runc")),
    ],
)
def test_subject_is_counted_and_leaves_nothing(temporary: Path, words: str, shown: tuple[str, ...]) -> None:
    result = demo("--with", *words.split())
    assert result.exit_code == 0, result.output
    assert [text for text in shown if text not in result.output] == []
    if words == "process":
        assert re.search(r"mbm_total_bytes +[0-9]+ MB \+[1-9]", result.output)
    assert os.listdir(temporary) == []


@pytest.mark.ci
@pytest.mark.runtime
@pytest.mark.parametrize("numbers", [[], [signal.SIGTERM], [signal.SIGINT] * 3])
@pytest.mark.parametrize("step", ["2.", "4."])
def test_interrupted_demo_cleans_up(temporary: Path, numbers: list[int], step: str) -> None:
    words = [sys.executable, "-m", "resctrl_hooks", "demo", "--with", "podman"]
    settings = {**os.environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    process: Any = subprocess.Popen(words, env=settings, start_new_session=True, **streams)
    next(line for line in process.stdout if line.startswith(step))
    for number in numbers:
        os.killpg(process.pid, number)
        time.sleep(0.2)
    if numbers:
        process.stdout.read()
    process.stdout.close()  # without a signal as `demo | head`
    process.wait()
    assert process.returncode == (128 + numbers[0] if numbers else 1)
    assert os.listdir(temporary) == []
    assert str(temporary) not in Path("/proc/mounts").read_text()


def test_demo_without_fuse_uses_plain_tree_and_reports_it(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: path != "/dev/fuse" and real(path))
    result = demo("--with", "process")
    assert result.exit_code == 0, result.output
    assert "a plain directory tree replaces it" in result.output
    assert "/dev/fuse is missing" in result.output


def test_missing_requirements_are_named(stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert available() == (["process"], "run it as root to see the same with a real container")
    with pytest.raises(DemoError, match="podman requires root"):
        available("podman")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert available()[0] == ["process"]
    assert "install podman" in available()[1]
    with pytest.raises(DemoError, match="crun is not installed"):
        available("crun")
    monkeypatch.setattr(story, "in_initial_user_namespace", lambda: False)
    result = demo("--plain")
    assert (result.exit_code, "run the demo on the host" in result.output) == (1, True)


class Broken(PlainProcess):
    """A runtime that can't."""

    name = "broken"

    def create(self) -> str:
        raise RuntimeFailedError("first line\nno such luck")

    def remove(self) -> str:
        raise RuntimeFailedError("nothing to remove")


@pytest.mark.parametrize("versions", ["1 and 2", "2"])
@pytest.mark.parametrize("runc", [True, False])
def test_plain_process_after_failing_runtimes_is_explained_as_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], versions: str, *, runc: bool
) -> None:
    monkeypatch.setattr(story, "available", lambda _: (["podman", "crun", "process"], ""))
    monkeypatch.setattr(story, "has_only_version_2", lambda: versions == "2")
    monkeypatch.setattr("shutil.which", lambda name: name if name != "runc" or runc else None)
    for name in ("podman", "crun"):
        monkeypatch.setitem(story.SUBJECTS, name, Broken)
    run_demo(stage)
    output = capsys.readouterr().out
    assert "broken cannot run a container here; continuing without it: no such luck" in output
    explained = output.partition("\n2. ")[2]
    assert explained.startswith("A process starts in place of a container, and waits (a plain process)\n")
    assert not re.search(r"no runtime|runtime calls the hook again|while the runtime|of the container", explained)
    advice = "install runc" if versions != "2" and not runc else "correct the errors of the runtimes above"
    assert f"For more: {advice}" in explained


@pytest.mark.parametrize(
    "versions, found, chosen",
    [
        *(("2", ["crun", "runc"], "crun"), ("2", ["runc"], "runc"), ("2", [], None)),
        *(("1 and 2", ["crun", "runc"], "runc"), ("1 and 2", ["crun"], "crun")),
    ],
)
def test_podman_uses_installed_runtime_that_supports_cgroups(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, versions: str, found: list[str], chosen: str | None
) -> None:
    """Its state is below the stage, also for conmon: commands for this machine find no container of the demo."""
    monkeypatch.setattr(podman, "has_only_version_2", lambda: versions == "2")
    monkeypatch.setattr("shutil.which", lambda name: name if name in found else None)
    command = Podman(stage).command
    program = command[command.index("--runtime") + 1] if "--runtime" in command else None
    assert program == (chosen and f"{stage.folder}/bin/{chosen}")
    assert not program or f"exec {chosen} --root {stage.folder}/oci" in Path(program).read_text()


def test_requested_runtime_that_fails_names_an_alternative(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story, "available", lambda _: (["crun"], ""))
    monkeypatch.setattr("shutil.which", lambda name: name if name == "runc" else None)
    monkeypatch.setitem(story.SUBJECTS, "crun", Broken)
    with pytest.raises(RuntimeFailedError, match="no such luck\ncrun cannot run a container here; try --with runc"):
        run_demo(stage, "crun")


@pytest.mark.parametrize("calls, words", [([], "expected one group"), (["creating"], "groups are left")])
def test_runtime_that_does_not_call_the_hook_fails_demo(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, calls: list[str], words: str
) -> None:
    class Deaf(PlainProcess):
        def _call(self, status: str, pid: int) -> None:
            if status in calls:
                super()._call(status, pid)

    monkeypatch.setitem(story.SUBJECTS, "process", Deaf)
    with pytest.raises(DemoError, match=words):
        run_demo(stage, "process")


def test_failing_hook_is_reported(stage: Stage) -> None:
    stage.configure(resctrlPath="/nonexistent/resctrl")
    with pytest.raises(RuntimeFailedError, match="resctrl is not mounted"):
        run_demo(stage, "process")
