"""The command `watch`: how it starts, reports and ends."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, always, raising, standard_streams
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


@pytest.mark.parametrize("case, code, said", [
    ("interrupt", INTERRUPTED, ""), ("arguments", 2, "usage: watch\n"),
    ("another", 1, "resctrl-hook: watch: another instance is running, process "),
    ("state", 1, "resctrl-hook: watch: "), ("settings", 1, "resctrl-hook: watch: no settings; run "),
    ("namespace", 1, "resctrl-hook: watch: not in the host's user namespace; run it as root on the host"),
])  # fmt: skip
def test_watcher_that_does_not_run_has_a_reason(
    host: Host, program: Path, monkeypatch: pytest.MonkeyPatch, fail: Fail, case: str, code: int, said: str
) -> None:
    if case == "namespace":
        monkeypatch.setattr(command, "in_initial_user_namespace", always(value=False))
    host.state.parent.mkdir(parents=True)
    if case == "state":
        host.state.touch()
        said += f"cannot use {host.state}"
    elif case == "another":
        host.state.mkdir()
        only_instance(f"{host.state}/{LOCK}")
        said += f"{os.getpid()}\n"
    fail(Watcher, "run", KeyboardInterrupt())
    find = raising(SettingsError("no settings")) if case == "settings" else load
    found, stderr = run(host, *(["x"] if case == "arguments" else []), find=find)
    assert (found, stderr.startswith(said), bool(stderr)) == (code, True, bool(said))
    assert INTERRUPTED == 130
