"""The commands `reconcile` and `release`: options, output, exit codes, and repetition; the budget and the report."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import GROUP, ID, LAUNCH, PYTHON, UID, Host, always, crio_annotations, raising, standard_streams
from golden import Golden
from hosts import crun
from hosts.cluster import POD, Cluster, pod_number
from hosts.faults import failing

from resctrl_hooks.core.install.unit_files import units
from resctrl_hooks.core.install.units import RECONCILE
from resctrl_hooks.core.node import lifecycle, main
from resctrl_hooks.core.node.errors import InputError, LockTimeoutError, NoRMIDsError, RMIDsBusyError
from resctrl_hooks.core.node.host.programs import ProgramError
from resctrl_hooks.core.node.reconcile import command, release
from resctrl_hooks.core.node.reconcile.budget import FILE, Budget
from resctrl_hooks.core.node.reconcile.command import read_live, reconcile_command
from resctrl_hooks.core.node.reconcile.report import Options, Report
from resctrl_hooks.core.node.restored import Restored

HOUSES = ("lab",)


OURS = pytest.mark.parametrize(
    "peoples", [False, pytest.param(True, marks=pytest.mark.ci)], ids=["node-half", "people-half"]
)


def command_of(host: Host, *arguments: str, peoples: bool) -> list[str]:
    ours = [sys.executable, "-m", "resctrl_hooks"] if peoples else [*PYTHON, str(LAUNCH)]
    return [*ours, "--config", str(host.config), *arguments]


def test_unreadable_live_file_is_an_error_and_releases_nothing(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_live(str(tmp_path / "missing"))
    cluster.start(1)
    assert reconcile_command(str(cluster.host.config), ["--live", str(tmp_path / "missing")]) == 1
    assert cluster.kernel.groups() == {("", POD)}


@pytest.mark.parametrize("arguments, code", [
    *((words, 2) for words in (["--wrong"], ["--live"], ["extra"])),
    *((["--watch", pause], 2) for pause in ("x", "-1", "0", "0s", "0.999", "999ms", "²", "9" * 20, "86401", "25h")),
    *((["--watch", pause], 130) for pause in ("86400", "24h", "1", "1000ms")),
])  # fmt: skip
def test_pause_is_from_a_second_to_a_day_and_wrong_use_exits_with_2(
    host: Host, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int
) -> None:
    monkeypatch.setattr(command, "once", always(0))
    monkeypatch.setattr(command.time, "sleep", raising(KeyboardInterrupt()))  # type: ignore[attr-defined]
    assert reconcile_command(str(host.config), arguments) == code


@OURS
def test_watch_repeats_until_interrupted(tmp_path: Path, peoples: bool) -> None:
    host = Host(tmp_path, real_proc=True)
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


@pytest.mark.parametrize("fault, code, said", [
    ("namespace", 1, "resctrl-hook: reconcile: not in the host's user namespace; run it as root on the host\n"),
    ("settings", 2, "resctrl-hook: reconcile: invalid settings in "),
    ("a bug", 1, "resctrl-hook: internal error in resctrl-hook: RuntimeError: a bug"),
])  # fmt: skip
def test_failed_pass_is_reported_without_a_traceback(
    host: Host, monkeypatch: pytest.MonkeyPatch, fault: str, code: int, said: str
) -> None:
    if fault == "settings":
        host.config.write_text("{")
    else:
        monkeypatch.setattr(command, "in_initial_user_namespace", always(value=fault != "namespace"))
        monkeypatch.setattr(command, "reconcile", raising(RuntimeError("a bug")))
    with standard_streams(b"") as written:
        assert reconcile_command(str(host.config), []) == code
    assert written().startswith(said)


@pytest.mark.parametrize("text, keys", [
    ("b\n\n a \n", {"a", "b"}), (' ["a",\n"b"]\n', {"a", "b"}), ("/" * 100, f"invalid key '{'/' * 80}' in "),
    ('["a", 1]', "invalid key '1' in .*; write a JSON list of keys, or one key per line"),
])  # fmt: skip
def test_live_file_has_keys_by_line_or_as_json_and_can_be_a_link(tmp_path: Path, text: str, keys: Any) -> None:
    (tmp_path / "real").write_text(text)
    (tmp_path / "link").symlink_to("real")
    if isinstance(keys, set):
        assert read_live(str(tmp_path / "link")) == keys
        return
    with pytest.raises(InputError, match=keys):
        read_live(str(tmp_path / "link"))


PODS = 4


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Return a node on which containers run that no hook has seen."""
    made = Cluster(tmp_path)
    for number in range(PODS):
        made.unseen(number, pod_number(number))
    return made


def test_passes_without_processor_time_left_adopt_all_containers_one_by_one(cluster: Cluster) -> None:
    state = Path(cluster.context().settings.state_dir)
    adopted: list[str] = []
    for number in range(PODS):
        (id_,) = cluster.reconcile(Options(wait=False, budget=Budget(0))).events["adopted"]
        assert id_ not in adopted
        adopted.append(id_)
        assert number == PODS - 1 or ((state / FILE).read_text() not in adopted and (state / "wake").exists())
    alarms: list[int] = []
    assert not cluster.reconcile(Options(wait=False, budget=Budget(60, alarms.append))).changed
    assert len(alarms) == 1 + PODS, "a pass that makes progress lives on"


# Release, which an uninstallation runs from the node's own code


@pytest.fixture
def counted(host: Host, pod: dict[str, Any]) -> Host:
    """Return a host with one pod in a group of ours, and a foreign group."""
    host.state = host.root / "run/resctrl-hooks"
    host.configure()
    assert host.call(pod).code == 0
    (host.resctrl / "mon_groups/foreign").mkdir()
    assert host.groups() == [GROUP, "mon_groups/foreign"]
    return host


def released(host: Host, *words: str) -> int:
    return main.main(["--config", str(host.config), "release", *words])


def test_release_removes_groups_records_and_the_state_directory(
    counted: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    assert released(counted) == 0
    assert counted.groups() == ["mon_groups/foreign"]
    assert not counted.state.exists()
    assert capsys.readouterr().out == f"released {UID}\n"
    assert released(counted) == 0, "nothing is left to do"


def test_failed_release_keeps_records(counted: Host, capsys: pytest.CaptureFixture[str]) -> None:
    with failing(lifecycle, "release_container", LockTimeoutError("the lock is held")):
        assert released(counted) == 1
    assert capsys.readouterr().err.startswith(f"cannot release {UID}: the lock is held; ")
    assert counted.groups() == [GROUP, "mon_groups/foreign"]
    assert f"containers/{ID}" in counted.records()
    assert released(counted) == 0
    assert counted.groups() == ["mon_groups/foreign"]


def test_release_with_extra_argument_does_nothing(counted: Host) -> None:
    assert released(counted, "all") == 2
    assert counted.groups() == [GROUP, "mon_groups/foreign"]


def restored_by(monkeypatch: pytest.MonkeyPatch, module: ModuleType, restore: Any) -> None:
    """Let a module know one house that changes values of the node, and restores them with this function."""
    monkeypatch.setattr(module, "changed_values", always([("guard", "the bandwidth guard", "")]))
    monkeypatch.setattr(module, "load", always(restore))


def test_values_that_cannot_be_restored_are_reported(
    counted: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    restored_by(monkeypatch, release, raising(OSError(5, "I/O error", "/x")))
    assert released(counted) == 1
    assert "cannot restore the values changed by the bandwidth guard: " in capsys.readouterr().err
    assert counted.state.exists()


def test_restored_values_are_printed(
    counted: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Restored("the guard")
    found.done.append("class bronze, domain 0: MB 90 -> 100")
    restored_by(monkeypatch, release, always(found))
    assert released(counted) == 0
    assert capsys.readouterr().out == f"restored class bronze, domain 0: MB 90 -> 100\nreleased {UID}\n"


# The report: all events as a line, a table and a document, with the names of pods and containers


CONTAINER = "c" * 64
NAMES: Any = {"namespace": "shop", "pod": "web-0", "container": "nginx"}
DONE = (
    "adopted", "moved", "released", "cleaned", "claimed", "placed", "applied memory", "applied blockio", "repaired",
    "orphan", "handover", "tidied", "assigned", "unassigned",
)  # fmt: skip
"""Kinds of events that count as a change."""
STATES: dict[str, tuple[bool, bool]] = {
    "waiting": (False, True),
    "queued": (True, True),
    "failed": (False, False),
    "problem": (False, False),
    "left": (False, False),
    "uncounted": (True, True),
    "unmet": (True, True),
    "foreign": (True, True),
}
"""The other kinds: whether such a report is ok, and whether it is well."""


@pytest.mark.parametrize("dry_run", [False, True])
def test_report_of_all_events(golden: Golden, monkeypatch: pytest.MonkeyPatch, dry_run: bool) -> None:
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.25)
    report = Report(dry_run=dry_run)
    report.learn(UID, NAMES, CONTAINER)
    nameless: Any = {"namespace": None}
    report.learn("nameless", nameless, "")
    for kind in (*DONE, *STATES):
        report.add(kind, "nameless", UID, why="EIO" if kind in STATES else "")
    for what in (CONTAINER, CONTAINER[:12], f"{CONTAINER[:12]} memtierd"):
        report.add("failed", what, why="ENOMEM")
    report.add("failed", UID, why="EBUSY")
    report.add("claimed", UID)  # counts for each of its groups
    report.count("moved", 3)
    report.count("left", 0)
    document: dict[str, Any] = {**report.as_document(), "host": "node"}
    golden(report.as_line(), "line")
    golden(report.as_text(), "text")
    items = document.pop("items")
    golden("\n".join(map(json.dumps, (document, *items))), "document")
    assert report.applied == {"memory": ["nameless", UID], "blockio": ["nameless", UID]}
    assert Report().as_line() == ""
    assert not Report().changed


@pytest.mark.parametrize("kind", [*DONE, *STATES])
def test_only_changes_are_changes_and_only_problems_are_problems(kind: str) -> None:
    report = Report()
    report.add(kind, UID)
    assert report.changed == (kind in DONE)
    assert (report.ok, report.well) == STATES.get(kind, (True, True))


@pytest.mark.parametrize("shared, kind", [(False, "waiting"), (True, "queued")])
def test_pods_wait_for_limbo_only_if_all_do_and_are_queued_under_sharing_rules(shared: bool, kind: str) -> None:
    waits = Report(shared=shared)
    seen = [waits.only_limbo]
    for key, limbo in (("a", True), ("b", False), ("c", True)):
        waits.wait(key, RMIDsBusyError("in limbo") if limbo else NoRMIDsError("none left"))
        seen.append(waits.only_limbo)
    assert seen == [True, True, False, False]
    assert [*waits.events[kind]] == ["a", "b", "c"]
    assert waits.ok is shared
    waits.forget_waiting()
    assert (waits.events["waiting"], waits.events["queued"], waits.only_limbo) == ({}, {}, True)
