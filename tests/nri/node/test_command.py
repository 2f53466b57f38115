"""The command's options, the values that they replace, and the plugin's status."""

import fcntl
import gc
import json
import os
import posix
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Host
from golden import Golden
from hosts.descriptors import nothing_left_open
from hosts.faults import Fail
from hosts.record_types import check, check_fields

from resctrl_hooks.core.node.errors import LedgerError, SettingsError
from resctrl_hooks.core.node.host.instance import RunningError
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.settings import Settings, load
from resctrl_hooks.nri.node import command
from resctrl_hooks.nri.node import gap as module
from resctrl_hooks.nri.node import resident as resident_module
from resctrl_hooks.nri.node.command import nri_command, parse
from resctrl_hooks.nri.node.connection import ClosedError
from resctrl_hooks.nri.node.gap import FIRST, LONGEST_WITHOUT_CONNECTION, Gap
from resctrl_hooks.nri.node.protobuf import WireError
from resctrl_hooks.nri.node.resident import Resident
from resctrl_hooks.nri.node.service import RegistrationError, ResubscribeError
from resctrl_hooks.nri.node.status import NAME, EventRecord, NriRecord, Status, read_status

WORDS = (
    *("", "--socket /x", "-socket=/x --name=a", "-idx 07 -v", "--vv -config /c", "-cgroups-dir=/g --run-dir /r"),
    *("-name=", "-name a=b", "-name a -name b", "name", "-name", "-v=1", "-what", "---name a"),
    *("-idx 7", "-idx 100", "-idx x1", "-idx \u0660\u0667"),
)


def test_options_have_one_dash_or_two_and_replace_settings(golden: Golden) -> None:
    lines = []
    for words in WORDS:
        given = parse(words.split())
        settings, problem = command._overriding(lambda _: (Settings({}), "a problem"), given or {})("/c")
        assert problem == "a problem"
        level = settings.log.get("level", "info")
        lines.append(f"{words}: {given}; {settings.cgroup_path}, {settings.memtierd['runDir']}, {level}")
    golden("\n".join(lines))


@pytest.mark.parametrize(
    "owner, name, error, words",
    [
        (command, "only_instance", RunningError(7), "nri: another instance is running"),
        (command, "only_instance", PermissionError(13, "Permission denied"), "/nri.lock: Permission denied"),
        (Ledger, "prepare", LedgerError("no room"), "/nri.lock: no room"),
    ],
)
def test_instance_that_cannot_run_says_why(
    host: Host, fail: Fail, owner: Any, name: str, error: Exception, words: str
) -> None:
    fail(owner, name, error)
    assert nri_command(str(host.config), []) == 1
    assert words in host.log.read_text()


def test_wrong_use_and_invalid_settings_exit_with_2(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    assert nri_command(str(host.config), ["what"]) == 2
    assert capfd.readouterr().err.startswith("usage: nri ")

    def find(path: str) -> Any:
        assert path == "/c"
        raise SettingsError("they are wrong")

    assert nri_command(str(host.config), ["-config", "/c"], find) == 2
    assert "nri: they are wrong" in capfd.readouterr().err


@pytest.mark.parametrize(
    "words, path, name, index",
    [([], "/var/run/nri/nri.sock", "resctrl-hooks", "97"), (["-socket=/s", "-name=a", "-idx=07"], "/s", "a", "07")],
)
def test_plugin_is_served_by_processes_that_close_its_descriptors(
    host: Host, monkeypatch: pytest.MonkeyPatch, words: list[str], path: str, name: str, index: str
) -> None:
    steps: list[Any] = []
    made: list[Any] = []

    def resident(path: str, plugin: Any, _: Any) -> Any:
        steps.append((path, plugin.name, plugin.index))
        return SimpleNamespace(close=lambda: steps.append("closed"), run=lambda _: steps.append("run"))

    def workers(forget: Any, _: Any) -> Any:
        made.append(forget)
        return SimpleNamespace(keep=lambda _: steps.append("keep"), end=lambda: steps.append("end"))

    monkeypatch.setattr(command, "Resident", resident)
    monkeypatch.setattr(command, "Workers", workers)
    monkeypatch.setattr(command, "become_urgent", lambda: steps.append("urgent"))
    with nothing_left_open():
        try:
            assert nri_command(str(host.config), words) == 0
        finally:
            gc.unfreeze()
        assert steps == [(path, name, index), "keep", "urgent", "run", "end"]
        assert (host.state / "nri.lock").read_text() == str(os.getpid())
        with (host.state / "nri.lock").open() as lock:
            with pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            made[0]()
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert steps[-1] == "closed"


@pytest.mark.parametrize("wanted", [True, False])
def test_exec_watcher_follows_the_settings(host: Host, monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:
    said: list[Any] = []
    host.configure(monitoring={"exec": "watch" if wanted else "reconcile"})
    plugin: Any = SimpleNamespace(refresh=lambda: load(str(host.config))[0], log=lambda *words, **_: said.append(words))
    companion = command._exec_watcher("/c", load, plugin, stderr=False)
    monkeypatch.setattr(command, "is_enabled", lambda settings: settings.monitoring["exec"] == "watch")
    assert companion.is_useful() is wanted
    ends: list[bool] = []

    def watch(config: str, until: Any, find: Any, *, stderr: bool) -> None:
        assert (config, find, stderr) == ("/c", load, False)
        ends.extend(until(SimpleNamespace(is_on=is_on)) for is_on in (True, False))
        raise RunningError(7)

    monkeypatch.setattr("resctrl_hooks.core.node.watch.command.watch", watch)
    for parent in (os.getpid(), 1):
        monkeypatch.setattr(posix, "getppid", lambda parent=parent: parent)
        companion.run()
    assert (ends, said) == ([False, True, True, True], [])


def test_status_matches_its_type_whose_fields_are_checked(tmp_path: Path) -> None:
    status = Status(str(tmp_path), "/run/nri.sock")
    status.connected("containerd", "2.1.9")
    status.served("StartContainer", 0.1, failed=True)
    status.dropped("it hung up")
    check(NriRecord, (tmp_path / NAME).read_bytes())
    check_fields(NriRecord, dict(status.values))
    check_fields(EventRecord, status.values["events"]["StartContainer"])
    (tmp_path / NAME).write_text(json.dumps({**status.values, "pid": "x"}))
    assert read_status(str(tmp_path)) is None


# Between connections: pauses, reasons, and the passes that the plugin makes by itself


class Passes:
    """A gap on its clock, whose workers count passes."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.is_full = 100.0, False
        self.limits: list[float] = []
        self.gap = Gap(lambda _: None)
        self.end: Callable[[], None] = lambda: None
        patch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))

    def start(self, _: Any, limit: float, done: Callable[[int | None, bytes], None]) -> None:
        self.limits.append(limit)
        if self.is_full:
            raise OSError
        self.end = lambda: done(0, b"")

    def after(self, seconds: float) -> int:
        """Return how many passes have been started after so many seconds."""
        self.now += seconds
        self.gap.serve(self)  # type: ignore[arg-type]  # the part of Workers that it uses
        return len(self.limits)


OPEN, LOST, CLOSED, END = "open", "lost", "closed", "end"
LONG = LONGEST_WITHOUT_CONNECTION


@pytest.mark.parametrize(
    "script",
    [
        [(1000, 0), OPEN, CLOSED, (1000, 0)],
        [OPEN, (FIRST / 2, 0), CLOSED, (FIRST, 0)],  # a runtime that synchronizes soon
        [OPEN, (FIRST, 1), (10, 1), END, (29, 1), (1, 2)],  # no overlap, and a quarter of the time at most
        [LOST, (FIRST / 2, 0), OPEN, (FIRST / 2, 1)],  # a new connection delays no pass
        [LOST, (LONG + 1, 0), OPEN, (LONG + 1, 1)],  # without a connection it ends by itself
        [LOST, (LONG, 1)],
        [LOST, (LONG + 0.1, 0)],
        [LOST, (0, 0), LONG - FIRST / 2, LOST, (FIRST / 4, 1), END, (LONG - 1, 2)],  # the first is due since the first
        [LOST, (0, 0), LONG + 1, LOST, (FIRST / 2, 0), (FIRST / 2, 1)],
        [OPEN, (FIRST, 1), END, (FIRST - 0.1, 1), (0.1, 2)],  # short passes are a second apart
    ],
)
def test_passes_are_made_in_a_gap_and_only_there(monkeypatch: pytest.MonkeyPatch, script: list[Any]) -> None:
    """Numbers let time pass; pairs let it pass, and say how many passes have been started then."""
    passes = Passes(monkeypatch)
    for step in script:
        if step in (OPEN, LOST):
            passes.gap.open(connected=step == OPEN)
        elif step == CLOSED:
            passes.gap.close()
        elif step == END:
            passes.end()
        elif isinstance(step, tuple):
            assert passes.after(step[0]) == step[1]
        else:
            passes.now += step


def test_pass_gets_a_minute_and_is_tried_again_without_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = Passes(monkeypatch)
    passes.is_full = True
    passes.gap.open(connected=True)
    assert [passes.after(seconds) for seconds in (FIRST, 0, FIRST)] == [1, 1, 2]
    assert passes.limits == [60.0, 60.0]


def test_pauses_double_up_to_a_second_and_reset_after_a_long_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that ends without a reason, since another one is to follow at once, is no drop."""
    said: list[Any] = []
    now = 0.0
    plugin: Any = SimpleNamespace(dropped=said.append, adopt=None)
    resident = Resident("/x", plugin, lambda **fields: said.append(fields))  # type: ignore[arg-type]
    lasting = [0, 0, -1, 0, 0, 0, 10, 11, 0]
    pauses: list[float] = []

    def serve(_: Any) -> str:
        nonlocal now
        seconds = lasting.pop(0)
        now += abs(seconds)
        return "" if seconds < 0 else "ended"

    def wait(pause: float, _: Any) -> None:
        pauses.append(pause)
        if not lasting:
            resident._end()

    monkeypatch.setattr(resident_module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(resident_module, "signal", lambda *_: None)
    monkeypatch.setattr(resident, "_serve", serve)
    monkeypatch.setattr(resident, "_wait", wait)
    resident.run(plugin)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 0.1, 0.2]
    assert said[:3] == ["ended", {"READY": "1"}, "ended"]
    assert (said.count({"READY": "1"}), said.count("ended"), said[-1]) == (1, 8, {"STOPPING": "1"})


@pytest.mark.parametrize(
    "error, why",
    [
        (ClosedError("closed"), "closed"),
        (WireError("no protocol"), "no protocol"),
        (RegistrationError("no"), "the runtime rejected this plugin: no"),
        (ResubscribeError("other events"), ""),
        (FileNotFoundError(2, "No such file or directory"), "/x: No such file or directory"),
        (None, "shutting down"),
    ],
)
def test_end_of_a_connection_has_its_reason(monkeypatch: pytest.MonkeyPatch, error: Exception | None, why: str) -> None:
    closed: list[bool] = []
    plugin: Any = SimpleNamespace(adopt=None)
    resident = Resident("/x", plugin, plugin)
    connects = not isinstance(error, OSError)

    def run(until: Callable[[], bool]) -> None:
        assert until() is False
        if error is not None:
            raise error

    def connect(_: str) -> Any:
        if not connects:
            run(lambda: False)
        return SimpleNamespace(close=lambda: closed.append(True))

    monkeypatch.setattr(resident_module, "Connection", connect)
    monkeypatch.setattr(resident_module, "Service", lambda *_: SimpleNamespace(run=run))
    assert resident._serve(plugin) == why
    resident.close()
    assert closed == [True] * connects, "there is no connection to close twice"


def test_children_are_looked_after_between_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child's answer ends the wait for it, and the watchdog is served."""
    now = 0
    waits: list[float] = []
    passes: list[bool] = []
    plugin: Any = SimpleNamespace(adopt=None)
    resident = Resident("/x", plugin, SimpleNamespace(alive=lambda: 10))  # type: ignore[arg-type]

    def wait(seconds: int) -> None:
        nonlocal now
        now += seconds if waits else 4
        waits.append(seconds)

    workers: Any = SimpleNamespace(wait=wait)
    monkeypatch.setattr(resident_module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(resident, "_gap", SimpleNamespace(serve=lambda _: passes.append(True)))
    resident._wait(25, workers)
    assert (waits, len(passes)) == ([10, 10, 10, 1], 4)
    resident._end()
    resident._wait(60, workers)
    assert len(waits) == 4
