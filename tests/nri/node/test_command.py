"""The command's options, the values that they replace, and the plugin's status."""

import fcntl
import gc
import os
import posix
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Host
from core.node.watch.test_status import check_each_field
from hosts.faults import Fail
from hosts.record_types import check, check_fields

from resctrl_hooks.core.node.errors import LedgerError, SettingsError
from resctrl_hooks.core.node.host.instance import RunningError
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.settings import Settings, load
from resctrl_hooks.nri.node import command
from resctrl_hooks.nri.node.command import nri_command, parse
from resctrl_hooks.nri.node.status import NAME, EventRecord, NriRecord, Status, read_status


@pytest.mark.parametrize(
    "words, given",
    [
        ("", {}),
        ("--socket /x", {"socket": "/x"}),
        ("-socket=/x --name=a", {"socket": "/x", "name": "a"}),
        ("-idx 07 -v", {"idx": "07", "v": "1"}),
        ("--vv -config /c", {"vv": "1", "config": "/c"}),
        ("-cgroups-dir=/g --run-dir /r", {"cgroups-dir": "/g", "run-dir": "/r"}),
        ("-name=", {"name": ""}),
        ("-name a=b", {"name": "a=b"}),
        ("-name a -name b", {"name": "b"}),
        ("name", None),
        ("-name", None),
        ("-v=1", None),
        ("-what", None),
        ("---name a", None),
        ("-idx 7", None),
        ("-idx 100", None),
        ("-idx x1", None),
        ("-idx \u0660\u0667", None),
    ],
)  # fmt: skip
def test_options_are_parsed_with_one_dash_or_two(words: str, given: dict[str, str] | None) -> None:
    assert parse(words.split()) == given


@pytest.mark.parametrize(
    "given, cgroups, run, level",
    [
        ({}, "/sys/fs/cgroup", None, "info"),
        ({"cgroups-dir": "/g/"}, "/g", None, "info"),
        ({"run-dir": "/r"}, "/sys/fs/cgroup", "/r", "info"),
        ({"v": "1"}, "/sys/fs/cgroup", None, "debug"),
        ({"vv": "1"}, "/sys/fs/cgroup", None, "debug"),
    ],
)
def test_options_replace_settings(given: dict[str, str], cgroups: str, run: str | None, level: str) -> None:
    settings, problem = command._overriding(lambda _: (Settings({}), "a problem"), given)("/c")
    assert (settings.cgroup_path, problem) == (cgroups, "a problem")
    assert settings.memtierd["runDir"] == (run or Settings({}).memtierd["runDir"])
    assert settings.log.get("level", "info") == level


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

    class Resident:
        def __init__(self, path: str, plugin: Any, notify: Any) -> None:
            steps.append((path, plugin.name, plugin.index))

        def close(self) -> None:
            steps.append("closed")

        def run(self, workers: Any) -> None:
            steps.append("run")

    class Workers:
        def __init__(self, forget: Any, serve: Any) -> None:
            made.append(forget)

        def keep(self, companion: Any) -> None:
            steps.append("keep")

        def end(self) -> None:
            steps.append("end")

    for one in (Resident, Workers):
        monkeypatch.setattr(command, one.__name__, one)
    monkeypatch.setattr(command, "become_urgent", lambda: steps.append("urgent"))
    before = set(os.listdir("/proc/self/fd"))
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
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("wanted", [True, False])
def test_exec_watcher_follows_the_settings(host: Host, monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:
    said: list[Any] = []
    host.configure(monitoring={"exec": "watch" if wanted else "reconcile"})
    plugin = SimpleNamespace(refresh=lambda: load(str(host.config))[0], log=lambda *words, **_: said.append(words))
    companion = command._exec_watcher("/c", load, plugin, stderr=False)  # type: ignore[arg-type]
    monkeypatch.setattr(command, "is_enabled", lambda settings: settings.monitoring["exec"] == "watch")
    assert companion.is_useful() is wanted
    ends: list[bool] = []

    def watch(config: str, until: Any, find: Any, *, stderr: bool) -> None:
        assert (config, find, stderr) == ("/c", load, False)
        ends.extend([until(SimpleNamespace(is_on=True)), until(SimpleNamespace(is_on=False))])
        raise RunningError(7)

    monkeypatch.setattr("resctrl_hooks.core.node.watch.command.watch", watch)
    monkeypatch.setattr(posix, "getppid", os.getpid)
    companion.run()
    monkeypatch.setattr(posix, "getppid", lambda: 1)
    companion.run()
    assert ends == [False, True, True, True]
    assert said == []


# The status


def served(folder: str) -> Status:
    status = Status(folder, "/run/nri.sock")
    status.connected("containerd", "2.1.9")
    status.served("StartContainer", 0.1, failed=True)
    status.dropped("it hung up")
    return status


def test_status_matches_its_type(tmp_path: Path) -> None:
    served(str(tmp_path))
    check(NriRecord, (tmp_path / NAME).read_bytes())


def test_record_checks_each_of_its_fields(tmp_path: Path) -> None:
    values = served(str(tmp_path)).values
    check_fields(NriRecord, dict(values))
    check_fields(EventRecord, values["events"]["StartContainer"])


def test_status_with_a_wrong_field_is_none(tmp_path: Path) -> None:
    check_each_field(tmp_path / NAME, dict(served(str(tmp_path)).values), read_status)
