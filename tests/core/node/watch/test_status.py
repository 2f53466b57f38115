"""The command `watch` and its status: how it starts, reports and ends."""

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, always, raising, standard_streams
from hosts.faults import Fail, failing

from resctrl_hooks.core.node.errors import SettingsError
from resctrl_hooks.core.node.host.instance import RunningError, only_instance
from resctrl_hooks.core.node.settings import load
from resctrl_hooks.core.node.watch import command, watcher
from resctrl_hooks.core.node.watch.status import EVENTS, NAME, OFTEN, Status, read_status


def test_status_is_written_only_after_a_change_and_figures_after_a_while(tmp_path: Path, monkeypatch: Any) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert read_status(str(tmp_path)) is None
    status = Status(str(tmp_path))
    status.become(EVENTS, "because")
    assert read_status(str(tmp_path)) == status.values
    assert (status.values["mode"], status.values["why"]) == (EVENTS, "because")
    (tmp_path / NAME).unlink()
    status.write()
    assert read_status(str(tmp_path)) is None
    status.values["events"] += 1
    status.write()
    written = []
    for later in (1004.0, 1005.0, 1005.5):
        now = later
        status.values["events"] += 1
        status.write_sometimes(OFTEN)
        written.append((read_status(str(tmp_path)) or {})["events"])
    assert written == [1, 1, 4]
    (tmp_path / NAME).write_text(json.dumps({**status.values, "pid": "x"}))
    assert read_status(str(tmp_path)) is None


NO_WRITES = pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.EACCES])


class Lines(list[str]):
    """The messages of a log."""

    def log(self, priority: int, message: str, **_fields: str | int) -> None:
        self.append(message)


def check_messages(lines: Lines, path: Path, write: Callable[[], None], number: int) -> None:
    """Check that one message is about a status file that cannot be written, and one about its end."""
    name = path.stem
    error = OSError(number, os.strerror(number), f"/run/{path.name}")
    with failing("resctrl_hooks.core.node.retried", "write_file", error):
        for _ in range(5):
            write()
    (line,) = lines
    assert line == f"{name}: {path} is not current: /run/{path.name}: {os.strerror(number)}"
    for _ in range(2):
        write()
    assert lines[1:] == [f"{name}: {path} is current again"]
    assert path.exists()


@NO_WRITES
def test_status_that_cannot_be_written_is_logged_once_and_so_is_its_end(tmp_path: Path, number: int) -> None:
    lines = Lines()
    status = Status(str(tmp_path), lines.log)
    check_messages(lines, tmp_path / NAME, lambda: status.become(str(time.monotonic())), number)


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
        code = command.watch_command(str(host.config), [*words], find)
    return code, written()


def test_watcher_is_the_only_one_and_ends_after_an_upgrade(host: Host, program: Path, monkeypatch: Any) -> None:
    asked: list[bool] = []

    def watch(self: watcher.Watcher, until: Callable[[Any], bool]) -> None:
        asked.append(until(self))
        program.write_text("new")
        os.utime(program, (1, 1))
        asked.append(until(self))
        program.unlink()
        asked.append(until(self))
        with pytest.raises(RunningError):
            only_instance(f"{host.state}/{command.LOCK}")

    monkeypatch.setattr(watcher.Watcher, "run", watch)
    found = load(str(host.config))[0], "the last valid settings stay active"
    assert run(host, find=always(found)) == (0, "resctrl-hook: the last valid settings stay active\n")
    assert asked == [False, True, True]
    assert host.state.stat().st_mode & 0o777 == 0o700
    os.close(only_instance(f"{host.state}/{command.LOCK}"))


@pytest.mark.parametrize("case, code, said", [
    ("interrupt", command.INTERRUPTED, ""), ("arguments", 2, "usage: watch\n"),
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
        only_instance(f"{host.state}/{command.LOCK}")
        said += f"{os.getpid()}\n"
    fail(watcher.Watcher, "run", KeyboardInterrupt())
    find = raising(SettingsError("no settings")) if case == "settings" else load
    found, stderr = run(host, *(["x"] if case == "arguments" else []), find=find)
    assert (found, stderr.startswith(said), bool(stderr)) == (code, True, bool(said))
    assert command.INTERRUPTED == 130
