"""The command `reconcile`: its options, its output, its exit codes, and repetition; and its budget."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import LAUNCH, PYTHON, Host, always, crio_annotations, standard_streams
from hosts import crun
from hosts.cluster import POD, Cluster, pod_number
from hosts.commands import here

from resctrl_hooks.core.cli import main
from resctrl_hooks.core.install.unit_files import units
from resctrl_hooks.core.install.units import RECONCILE
from resctrl_hooks.core.node.errors import InputError, NoRMIDsError
from resctrl_hooks.core.node.host.programs import ProgramError
from resctrl_hooks.core.node.reconcile import command
from resctrl_hooks.core.node.reconcile.budget import FILE, Budget
from resctrl_hooks.core.node.reconcile.command import read_live, reconcile_command
from resctrl_hooks.core.node.reconcile.report import Options, Report

HOUSES = ("lab",)


OURS = pytest.mark.parametrize(
    "peoples", [False, pytest.param(True, marks=pytest.mark.ci)], ids=["node-half", "people-half"]
)


def command_of(host: Host, *arguments: str, peoples: bool) -> list[str]:
    ours = [sys.executable, "-m", "resctrl_hooks"] if peoples else [*PYTHON, str(LAUNCH)]
    return [*ours, "--config", str(host.config), *arguments]


def ended(host: Host, stdout: Any, *arguments: str, peoples: bool) -> tuple[int, bytes]:
    """Run a command whose stdout is buffered as it is without a terminal; return its exit code and stderr."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = command_of(host, *arguments, peoples=peoples)
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, check=False, timeout=300, env=buffered)
    return done.returncode, done.stderr


def test_unreadable_live_file_is_an_error_and_releases_nothing(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_live(str(tmp_path / "missing"))
    cluster.start(1)
    assert reconcile_command(str(cluster.host.config), ["--live", str(tmp_path / "missing")]) == 1
    assert cluster.kernel.groups() == {("", POD)}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--wrong"],
        ["--live"],
        ["extra"],
        *(["--watch", pause] for pause in ("x", "-1", "0", "0s", "0.999", "999ms", "²", "9" * 20, "86401", "25h")),
    ],
)
def test_wrong_use_exits_with_2(host: Host, arguments: list[str]) -> None:
    assert reconcile_command(str(host.config), arguments) == 2


@OURS
def test_watch_repeats_until_interrupted(tmp_path: Path, peoples: bool) -> None:
    host = Host(tmp_path, real_proc=True, runtimeRoots={"crun": str(tmp_path / "crun")})
    (tmp_path / "crun").mkdir()
    command = command_of(host, "reconcile", "--json", "--watch", "1", peoples=peoples)
    container = subprocess.Popen(["sleep", "1000"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        try:
            assert json.loads(watching.stdout.readline())["containers"] == 0
            bundle = host.bundle({"annotations": crio_annotations(POD), "linux": {}})
            crun.record(tmp_path / "crun", "later", container.pid, bundle)
            items: list[dict[str, str]] = []
            while not items:
                items = json.loads(watching.stdout.readline())["items"]
            assert [(item["event"], item["id"]) for item in items] == [("adopted", "later")]
            assert host.tasks(f"mon_groups/{POD}") == [container.pid]
            watching.send_signal(signal.SIGINT)
            assert watching.wait(20) == 130
            assert watching.stderr.read() == ""
        finally:
            watching.kill()
            container.kill()
            container.wait()


def test_people_half_prints_json_with_both_spellings(host: Host) -> None:
    for words in (["--json"], ["-o", "json"]):
        result = CliRunner().invoke(main, ["--config", str(host.config), "reconcile", "--dry-run", *words])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["dryRun"] is True


@pytest.mark.parametrize(
    "words, peoples",
    [
        (["reconcile"], False),
        *(
            pytest.param(words.split(), True, marks=pytest.mark.ci)
            for words in here("reconcile --json", "topology", "--version", "list --json")
        ),
    ],
)
def test_full_disk_is_one_line_and_a_failure(tmp_path: Path, words: list[str], peoples: bool) -> None:
    with open("/dev/full", "wb") as disk:
        code, stderr = ended(Cluster(tmp_path).host, disk, *words, peoples=peoples)
    what = b"reconcile: cannot write the report: " if words[0] == "reconcile" else b"cannot write the output: "
    assert (code, stderr) == (1, b"resctrl-hook: " + what + b"No space left on device\n")


def test_watch_survives_full_disk(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.command.time.sleep", pause)
    with open("/dev/full", "w") as disk, open(os.devnull, "w") as nowhere:
        monkeypatch.setattr(sys, "stdout", disk)
        assert reconcile_command(str(cluster.host.config), ["--watch", "1"]) == 130
        os.dup2(nowhere.fileno(), disk.fileno())  # the rest of its buffer
    assert capfd.readouterr().err.count("cannot write the report") == 2


@pytest.mark.parametrize("failed, code", [(False, 0), (True, 1)])
def test_waiting_pods_do_not_fail_timer_unit(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, failed: bool, code: int
) -> None:
    def waiting(*_: object) -> Report:
        report = Report()
        report.wait(POD, NoRMIDsError("no RMID is free"))
        if failed:
            report.events["failed"][POD] = "whatever"
        return report

    monkeypatch.setattr("resctrl_hooks.core.node.reconcile.command.reconcile", waiting)
    assert reconcile_command(str(cluster.host.config), []) == 1
    assert reconcile_command(str(cluster.host.config), ["--waiting-ok"]) == code
    (unit,) = [text for name, text in units(str(cluster.host.config)).items() if name == RECONCILE]
    assert b"reconcile --waiting-ok\n" in unit


@pytest.mark.parametrize(
    "answer, said",
    [
        ((0, ""), ""),
        ((0, "one\ntwo"), ""),
        ((1, "a: wrong\nb: wrong"), "cannot apply the edited {config}: a: wrong; b: wrong"),
        (ProgramError("it did not exit"), "cannot apply the edited {config}: it did not exit"),
    ],
)
def test_edited_configuration_is_applied_before_a_pass(
    host: Host, monkeypatch: pytest.MonkeyPatch, answer: Any, said: str
) -> None:
    calls: list[list[str]] = []

    def run(arguments: list[str], _: float) -> Any:
        calls.append(arguments)
        if isinstance(answer, Exception):
            raise answer
        return answer

    config = str(host.config)
    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "find_program", lambda name, _: f"/usr/bin/{name}")
    monkeypatch.setattr(command, "is_unapplied", always(value=False))
    command.apply_edited(config)
    assert calls == []
    monkeypatch.setattr(command, "is_unapplied", always(value=True))
    with standard_streams(b"") as written:
        command.apply_edited(config)
    assert calls == [["/usr/bin/resctrl-hook", "--config", config, "config", "apply", "--if-newer"]]
    assert written() == (f"resctrl-hook: {said.format(config=config)}\n" if said else "")


def test_pass_in_another_user_namespace_fails(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "in_initial_user_namespace", always(value=False))
    with standard_streams(b"") as written:
        assert reconcile_command(str(host.config), []) == 1
    assert written() == "resctrl-hook: reconcile: not in the host's user namespace; run it as root on the host\n"


def test_pass_with_unusable_settings_is_reported(host: Host) -> None:
    host.config.write_text("{")
    with standard_streams(b"") as written:
        assert reconcile_command(str(host.config), []) == 2
    assert written().startswith("resctrl-hook: reconcile: invalid settings in ")


def test_pass_with_an_internal_error_ends_without_a_traceback(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Report:
        raise RuntimeError("a bug")

    monkeypatch.setattr(command, "reconcile", broken)
    with standard_streams(b"") as written:
        assert reconcile_command(str(host.config), []) == 1
    assert "internal error in resctrl-hook: RuntimeError: a bug" in written()


@pytest.mark.parametrize("pause", ["86400", "24h", "1", "1000ms"])
def test_pause_can_be_a_second_or_a_day(host: Host, monkeypatch: pytest.MonkeyPatch, pause: str) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "once", always(0))
    monkeypatch.setattr(command.time, "sleep", interrupt)  # type: ignore[attr-defined]
    assert reconcile_command(str(host.config), ["--watch", pause]) == 130


def test_live_file_can_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("b\n\n a \n")
    (tmp_path / "link").symlink_to("real")
    assert read_live(str(tmp_path / "link")) == {"a", "b"}


def test_invalid_key_is_truncated_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("/" * 100)
    with pytest.raises(InputError, match=f": invalid key '{'/' * 80}'"):
        read_live(str(path))


def test_live_file_can_be_a_json_list(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(' ["a",\n"b"]\n')
    assert read_live(str(path)) == {"a", "b"}
    path.write_text('["a", 1]')
    with pytest.raises(InputError, match="neither a JSON list nor one key per line: invalid key '1'"):
        read_live(str(path))


PODS = 4


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Return a node on which containers run that no hook has seen."""
    made = Cluster(tmp_path)
    for number in range(PODS):
        made.unseen(number, pod_number(number))
    return made


def one_pass(cluster: Cluster, seconds: float) -> Report:
    return cluster.reconcile(Options(wait=False, budget=Budget(seconds)))


def test_passes_without_processor_time_left_adopt_all_containers_one_by_one(cluster: Cluster) -> None:
    adopted = [[*one_pass(cluster, 0).events["adopted"]] for _ in range(PODS)]
    assert [len(each) for each in adopted] == [1] * PODS
    assert len({id_ for each in adopted for id_ in each}) == PODS
    assert not one_pass(cluster, 60).changed


def test_pass_that_stops_wakes_the_next_and_begins_it_there(cluster: Cluster) -> None:
    state = Path(cluster.context().settings.state_dir)
    first = [*one_pass(cluster, 0).events["adopted"]]
    assert (state / FILE).read_text() not in first
    assert (state / "wake").exists()
