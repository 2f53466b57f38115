"""The command `watch`: how it starts, reports and ends."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, always, standard_streams
from hosts.faults import Fail

from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.host.instance import RunningError, only_instance
from resctrl_hooks.core.node.settings import Settings, load
from resctrl_hooks.core.node.watch import command
from resctrl_hooks.core.node.watch.command import INTERRUPTED, LOCK, watch_command
from resctrl_hooks.core.node.watch.watcher import Watcher

Until = Callable[[Any], bool]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the watcher's program, which an upgrade replaces."""
    path = tmp_path / "launch.py"
    path.touch()
    monkeypatch.setattr("sys.argv", [str(path)])
    monkeypatch.setattr(command, "in_initial_user_namespace", always(value=True))
    return path


def run(host: Host, *words: str, find: Any = load) -> tuple[int, str]:
    """Return the exit code of the command, and its stderr."""
    with standard_streams(b"") as written:
        code = watch_command(str(host.config), [*words], find)
    return code, written()


def test_watcher_is_the_only_one_and_ends_after_an_upgrade(
    host: Host, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def watch(self: Watcher, until: Until) -> None:
        asked.append(until(self))
        program.write_text("new")
        os.utime(program, (1, 1))
        asked.append(until(self))
        program.unlink()
        asked.append(until(self))
        with pytest.raises(RunningError):
            only_instance(f"{host.state}/{LOCK}")

    def find(_: str) -> tuple[Settings, str]:
        return load(str(host.config))[0], "the last valid settings stay active"

    monkeypatch.setattr(Watcher, "run", watch)
    code, stderr = run(host, find=find)
    assert (code, asked) == (0, [False, True, True])
    assert stderr == "resctrl-hook: the last valid settings stay active\n"
    assert host.state.stat().st_mode & 0o777 == 0o700
    os.close(only_instance(f"{host.state}/{LOCK}"))


def test_interrupt_has_its_own_exit_code(host: Host, program: Path, fail: Fail) -> None:
    fail(Watcher, "run", KeyboardInterrupt())
    assert run(host) == (INTERRUPTED, "")
    assert INTERRUPTED == 130


def test_second_watcher_of_a_node_fails(host: Host, program: Path) -> None:
    host.state.mkdir(parents=True)
    lock = only_instance(f"{host.state}/{LOCK}")
    assert run(host) == (1, f"resctrl-hook: watch: another instance is running, process {os.getpid()}\n")
    os.close(lock)


def test_unusable_state_directory_is_reported(host: Host, program: Path) -> None:
    host.state.parent.mkdir(parents=True)
    host.state.write_text("")
    code, stderr = run(host)
    assert (code, stderr.startswith("resctrl-hook: watch: "), str(host.state) in stderr) == (1, True, True)


def test_unusable_settings_are_reported(host: Host, program: Path) -> None:
    def refuse(_: str) -> Any:
        raise SettingsError("no settings")

    code, stderr = run(host, find=refuse)
    assert (code, stderr.startswith("resctrl-hook: watch: no settings; run ")) == (1, True)


def test_user_namespace_is_reported(host: Host, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "in_initial_user_namespace", always(value=False))
    code, stderr = run(host)
    assert (code, "not in the host's user namespace; run it as root on the host" in stderr) == (1, True)
    assert not host.state.exists()


def test_arguments_are_wrong_use(host: Host) -> None:
    assert run(host, "x") == (2, "usage: watch\n")
