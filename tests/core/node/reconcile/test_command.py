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
from conftest import GROUP, ID, LAUNCH, PYTHON, UID, Host, always, crio_annotations, not_none, raising, standard_streams
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


@pytest.mark.parametrize("arguments, code", [
    *((words, 2) for words in (["--wrong"], ["--live"], ["extra"])), (["--live", "/missing"], 1),
    *((["--watch", pause], 2) for pause in ("x", "-1", "0", "0s", "0.999", "999ms", "²", "9" * 20, "86401", "25h")),
    *((["--watch", pause], 130) for pause in ("86400", "24h", "1", "1000ms")),
])  # fmt: skip
def test_arguments_have_exit_codes(host: Host, monkeypatch: pytest.MonkeyPatch, arguments: Any, code: int) -> None:
    if code != 1:
        monkeypatch.setattr(command, "once", always(0))
    passes: list[Any] = []
    monkeypatch.setattr(command, "reconcile", lambda *given: passes.append(given))
    monkeypatch.setattr(command.time, "sleep", raising(KeyboardInterrupt()))  # type: ignore[attr-defined]
    assert reconcile_command(str(host.config), arguments) == code
    assert passes == [], "a missing list of living pods releases none"


@pytest.mark.parametrize(
    "ours",
    [[*PYTHON, str(LAUNCH)], pytest.param([sys.executable, "-m", "resctrl_hooks"], marks=pytest.mark.ci)],
    ids=["node-half", "people-half"],
)
def test_watch_repeats_until_interrupted(tmp_path: Path, ours: list[str]) -> None:
    host = Host(tmp_path, real_proc=True)
    (tmp_path / "crun").mkdir()
    command = [*ours, "--config", str(host.config), "reconcile", "--json", "--watch", "1"]
    container = subprocess.Popen(["sleep", "1000"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        try:
            reports = map(json.loads, not_none(watching.stdout))
            assert next(reports)["containers"] == 0
            bundle = host.bundle({"annotations": crio_annotations(POD), "linux": {}})
            crun.record(tmp_path / "crun", "later", container.pid, bundle)
            items = next(report["items"] for report in reports if report["items"])
            assert [(item["event"], item["id"]) for item in items] == [("adopted", "later")]
            assert host.tasks(f"mon_groups/{POD}") == [container.pid]
            watching.send_signal(signal.SIGINT)
            assert watching.wait(20) == 130
            assert not_none(watching.stderr).read() == ""
        finally:
            watching.kill()
            container.kill()
            container.wait()


def test_watch_survives_full_disk(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    pauses = iter([None])
    monkeypatch.setattr(command.time, "sleep", lambda _: next(pauses))  # type: ignore[attr-defined]
    with open("/dev/full", "w") as disk, open(os.devnull, "w") as nowhere:
        monkeypatch.setattr(sys, "stdout", disk)
        with pytest.raises(StopIteration):
            reconcile_command(str(cluster.host.config), ["--watch", "1"])
        os.dup2(nowhere.fileno(), disk.fileno())  # the rest of its buffer
    assert capfd.readouterr().err.count("cannot write the report") == 2


@pytest.mark.parametrize("failed, code", [(False, 0), (True, 1)])
def test_waiting_pods_fail_no_timer(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, failed: bool, code: int) -> None:
    report = Report()
    report.wait(POD, NoRMIDsError("no RMID is free"))
    if failed:
        report.events["failed"][POD] = "whatever"
    monkeypatch.setattr(command, "reconcile", always(report))
    assert reconcile_command(str(cluster.host.config), []) == 1
    assert reconcile_command(str(cluster.host.config), ["--waiting-ok"]) == code
    assert b"reconcile --waiting-ok\n" in units(str(cluster.host.config))[RECONCILE]


@pytest.mark.parametrize("answer, said", [
    (always((0, "")), ""),
    (always((0, "one\ntwo")), ""),
    (always((1, "a: wrong\nb: wrong")), "cannot apply the edited {config}: a: wrong; b: wrong"),
    (raising(ProgramError("it did not exit")), "cannot apply the edited {config}: it did not exit"),
])  # fmt: skip
def test_edited_configuration_is_applied(host: Host, monkeypatch: pytest.MonkeyPatch, answer: Any, said: str) -> None:
    calls: list[list[str]] = []
    config = str(host.config)

    def run(arguments: list[str], _: float) -> Any:
        calls.append(arguments)
        return answer()

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "find_program", lambda name, _: f"/usr/bin/{name}")
    for unapplied in (False, True):
        monkeypatch.setattr(command, "is_unapplied", always(unapplied))
        with standard_streams(b"") as written:
            command.apply_edited(config)
        assert calls == [["/usr/bin/resctrl-hook", "--config", config, "config", "apply", "--if-newer"]] * unapplied
    assert written() == (f"resctrl-hook: {said.format(config=config)}\n" if said else "")


@pytest.mark.parametrize("fault, code, said", [
    ("namespace", 1, "resctrl-hook: reconcile: not in the host's user namespace; run it as root on the host\n"),
    ("settings", 2, "resctrl-hook: reconcile: invalid settings in "),
    ("a bug", 1, "resctrl-hook: internal error in resctrl-hook: RuntimeError: a bug"),
])  # fmt: skip
def test_failed_pass_is_reported(host: Host, monkeypatch: pytest.MonkeyPatch, fault: str, code: int, said: str) -> None:
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


def test_passes_without_processor_time_left_adopt_all_containers_one_by_one(cluster: Cluster) -> None:
    for number in range(4):
        cluster.unseen(number, pod_number(number))
    state = Path(cluster.context().settings.state_dir)
    adopted: list[str] = []
    for number in range(4):
        (id_,) = cluster.reconcile(Options(wait=False, budget=Budget(0))).events["adopted"]
        assert id_ not in adopted
        adopted.append(id_)
        assert number == 3 or ((state / FILE).read_text() not in adopted and (state / "wake").exists())
    alarms: list[int] = []
    assert not cluster.reconcile(Options(wait=False, budget=Budget(60, alarms.append))).changed
    assert len(alarms) == 1 + 4, "a pass that makes progress lives on"


def test_release_removes_all_or_reports_why(host: Host, pod: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    host.state = host.root / "run/resctrl-hooks"
    host.configure()
    assert host.call(pod).code == 0
    (host.resctrl / "mon_groups/foreign").mkdir()
    release_command = ["--config", str(host.config), "release"]
    assert main.main([*release_command, "all"]) == 2
    with failing(lifecycle, "release_container", LockTimeoutError("the lock is held")):
        assert main.main(release_command) == 1
    assert capsys.readouterr().err.startswith(f"usage: release\ncannot release {UID}: the lock is held; ")
    assert host.groups() == [GROUP, "mon_groups/foreign"]
    assert f"containers/{ID}" in host.records()
    restored_by(monkeypatch, release, raising(OSError(5, "I/O error", "/x")))
    assert main.main(release_command) == 1
    assert "cannot restore the values changed by the bandwidth guard: " in capsys.readouterr().err
    assert host.state.exists()
    assert host.call(pod).code == 0
    found = Restored("the guard")
    found.done.append("class bronze, domain 0: MB 90 -> 100")
    restored_by(monkeypatch, release, always(found))
    assert main.main(release_command) == 0
    assert capsys.readouterr().out == f"restored class bronze, domain 0: MB 90 -> 100\nreleased {UID}\n"
    assert (host.groups(), host.state.exists()) == (["mon_groups/foreign"], False)
    monkeypatch.undo()
    assert main.main(release_command) == 0, "nothing is left to do"


def restored_by(monkeypatch: pytest.MonkeyPatch, module: ModuleType, restore: Any) -> None:
    """Let a module know one house that changes values of the node, and restores them with this function."""
    monkeypatch.setattr(module, "changed_values", always([("guard", "the bandwidth guard", "")]))
    monkeypatch.setattr(module, "load", always(restore))


# The report: all events as a line, a table and a document, with the names of pods and containers


CONTAINER = "c" * 64
NAMES: Any = {"namespace": "shop", "pod": "web-0", "container": "nginx"}
DONE = (
    "adopted", "moved", "released", "cleaned", "claimed", "placed", "applied memory", "applied blockio", "repaired",
    "orphan", "handover", "tidied", "assigned", "unassigned",
)  # fmt: skip
"""Kinds of events that count as a change."""
STATES = {
    "waiting": (False, True), "queued": (True, True), "failed": (False, False), "problem": (False, False),
    "left": (False, False), "uncounted": (True, True), "unmet": (True, True), "foreign": (True, True),
}  # fmt: skip
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
