"""The log: its targets in order, bounded lines that cannot be forged, and nothing that can go wrong."""

import os
import signal
import socket
from _signal import ITIMER_REAL, SIGALRM
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, Host, standard_streams, state
from hosts import crun
from hosts.memtierd import OTHER, MemtierdHost
from hosts.processes import is_alive, wait_until
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node import context, locks, plain_log
from resctrl_hooks.core.node import log as module
from resctrl_hooks.core.node.context import LONGEST_STARVED, Context, set_deadline
from resctrl_hooks.core.node.errors import DeadlineError, LockTimeoutError
from resctrl_hooks.core.node.features.memtierd import feature as memtierd
from resctrl_hooks.core.node.features.memtierd import start as starting
from resctrl_hooks.core.node.log import DEBUG, ERROR, INFO, NOTICE, WARNING, Log, silent
from resctrl_hooks.core.node.outside import Outside
from resctrl_hooks.core.node.plain_log import to_stderr
from resctrl_hooks.core.node.reconcile.reconcile import reconcile


class Daemon:
    """A datagram socket as journald's or syslogd's."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(0)

    def lines(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self.socket.recv(1 << 20).decode())
            except BlockingIOError:
                return found


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[tuple[Daemon, Daemon]]:
    made = Daemon(tmp_path / "journal"), Daemon(tmp_path / "syslog")
    yield made
    for one in made:
        one.socket.close()


def made(tmp_path: Path, **section: Any) -> Log:
    names = {"journalSocket": "journal", "syslogSocket": "syslog", "file": "file"}
    return Log({key: str(tmp_path / name) for key, name in names.items()} | section, stderr=False)


def test_auto_uses_first_available_target_in_its_own_form(tmp_path: Path, daemons: tuple[Daemon, Daemon]) -> None:
    log = made(tmp_path)
    log(INFO, "done", key="k", duration_usec=7)
    assert daemons[0].lines() == [
        "MESSAGE=done\nPRIORITY=6\nSYSLOG_IDENTIFIER=resctrl-hook\nRESCTRL_KEY=k\nRESCTRL_DURATION_USEC=7\n"
    ]
    (tmp_path / "journal").unlink()
    log(WARNING, "a", key="k")
    assert daemons[1].lines() == [f"<28>resctrl-hook[{os.getpid()}]: a key=k"]
    assert not (tmp_path / "file").exists()
    (tmp_path / "syslog").unlink()
    log(WARNING, "b")
    assert (tmp_path / "file").read_text() == f"<28>resctrl-hook[{os.getpid()}]: b\n"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert daemons[0].lines() == daemons[1].lines() == []


@pytest.mark.parametrize("target, where", [("journal", 0), ("syslog", 1), ("file", 2), ("none", None), ("odd", None)])
def test_explicit_target_is_used(
    tmp_path: Path, daemons: tuple[Daemon, Daemon], target: str, where: int | None
) -> None:
    made(tmp_path, target=target)(ERROR, "x")
    got = [len(daemons[0].lines()), len(daemons[1].lines()), int((tmp_path / "file").exists())]
    assert got == [int(place == where) for place in range(3)]


def test_levels_filter_lines_and_long_fields_are_truncated(tmp_path: Path, daemons: tuple[Daemon, Daemon]) -> None:
    for level, expected in (("error", 1), ("warning", 2), ("info", 4), ("debug", 5), ("odd", 4)):
        for priority in (ERROR, WARNING, NOTICE, INFO, DEBUG):
            made(tmp_path, level=level)(priority, "x")
        assert len(daemons[0].lines()) == expected
    made(tmp_path)(INFO, "\ud800" * 1_000_000)
    (line,) = daemons[0].lines()
    assert len(line) < 13_000


def test_slow_daemon_is_not_waited_for(tmp_path: Path, daemons: tuple[Daemon, Daemon]) -> None:
    log = made(tmp_path)
    for _ in range(2000):
        log(INFO, "x")
    assert 0 < len(daemons[0].lines()) < 2000
    assert daemons[1].lines() == []


def test_missing_log_is_not_a_failure_and_a_full_one_begins_again(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "fifo")
    for name in ("none/file", "link", "fifo"):
        made(tmp_path, file=str(tmp_path / name))(INFO, "x")
    for wrong in ("/a\0b", "/\ud800", "/" + "x" * 5000, ""):
        made(tmp_path, journalSocket=wrong, syslogSocket=wrong, file=wrong)(ERROR, "x")
    assert sorted(os.listdir(tmp_path)) == ["fifo", "link"]
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(plain_log._LARGEST_FILE + 1)
    made(tmp_path, target="file")(INFO, "x")
    assert path.stat().st_size < 100


@given(st.text(st.characters(codec=None), max_size=50), st.text(st.characters(codec=None), max_size=50))
def test_fields_and_lines_cannot_be_forged(message: str, value: str) -> None:
    native = module._native(INFO, message, {"key": value}).decode()
    assert native.count("\n") == 4
    names = ["MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "RESCTRL_KEY"]
    assert [line.partition("=")[0] for line in native.splitlines()] == names
    assert plain_log.syslog_line(INFO, message, {"key": value}).decode().isprintable()


def test_problems_are_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log({"target": "none"})
    with standard_streams(b"") as written:
        log(WARNING, "a\nb\ud800", key="k")
        log(INFO, "not this")
    assert written() == "resctrl-hook: a\\nb\\ud800\n"
    silent(ERROR, "x", key="k")
    to_stderr(NOTICE, "x", key="k")
    to_stderr(INFO, "not this")
    assert capsys.readouterr().err == "resctrl-hook: x key=k\n"


class Machine:
    """Its clock, the seconds without a processor, and the timer that the hook has set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.starved = 100.0, 7.0
        self.timers: list[tuple[float, float]] = []
        self.alarm: Any = None
        monkeypatch.setattr(context, "time", self)
        monkeypatch.setattr(context, "_starved", lambda: self.starved)
        monkeypatch.setattr(context, "signal", self._handle)
        monkeypatch.setattr(context, "setitimer", self._set)
        monkeypatch.setattr(context, "pthread_sigmask", lambda *_: None)

    def monotonic(self) -> float:
        return self.now

    def _handle(self, number: int, handler: Any) -> None:
        assert number == SIGALRM
        self.alarm = handler

    def _set(self, timer: int, seconds: float, again: float = 0) -> None:
        assert timer == ITIMER_REAL
        self.timers.append((seconds, again))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize("starved, left", [(0.0, 0.0), (0.5, 0.5), (3.0, 3.0), (1000.0, LONGEST_STARVED)])
def test_deadline_is_later_by_the_time_without_a_processor(machine: Machine, starved: float, left: float) -> None:
    set_deadline(5.0)
    machine.now += 5.0
    machine.starved += starved
    if left:
        machine.alarm()
    else:
        with pytest.raises(DeadlineError):
            machine.alarm()
    assert machine.timers == [(5.0, 0.25), *([(left, 0.25)] if left else [(0, 0), (0.25, 0.25)])]
    machine.now += left
    for _ in range(2):
        with pytest.raises(DeadlineError, match="deadline of the hook exceeded"):
            machine.alarm()


def test_log_and_patience_follow_the_settings_unless_given(host: Host) -> None:
    host.configure(deadlineSeconds=5)
    assert host.context().monitor.patience == 4.0
    host.context().log(ERROR, "by the settings")
    assert "by the settings" in host.log.read_text()
    silent = Log({"target": "file", "file": f"{host.root}/another"})
    context = Context(host.context().settings, silent)
    assert context.log is silent
    assert (context.failures, context.refusable) == ([], True)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of calls that start, watch or end a memtierd in this process; none of them holds a key."""
    calls: list[str] = []

    def noted(owner: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            calls.append(name)
            assert not locks._threads, name  # the keys that this process holds
            return real(*given, **named)

        monkeypatch.setattr(owner, name, call)

    noted(starting, "start")
    for name in ("end", "running"):
        noted(memtierd, name)
    noted(memtierd.FEATURE, "lost")  # other tests leave the method on the instance
    return calls


def test_hook_reconcile_and_poststop_hold_no_key_while_programs_run(node: MemtierdHost, kept: list[str]) -> None:
    assert node.start(alone=False).code == 0
    assert node.start(OTHER, 200, alone=False).code == 0
    for id_, pid in ((ID, 100), (OTHER, 200)):
        crun.record(node.crun, id_, pid, node.bundle(), 1000)
    os.kill(node.pid(), signal.SIGKILL)
    wait_until(lambda: not is_alive(node.pid()))
    assert reconcile(node.context()).applied == {"memtierd": [ID]}
    for id_, pid in ((ID, 100), (OTHER, 200)):
        node.end_process(pid)
        node.call(state(id=id_, status="stopped", pid=0))
    assert {"start", "end", "running", "lost"} <= set(kept)
    assert (node.left(), node.context().ledger.containers()) == ([], [])


def test_work_for_a_container_waits_for_that_of_another_process(host: Host) -> None:
    context = host.context()
    context.monitor.patience = 0.05
    with context.monitor.hold("k") as locked, Outside(locked, "c", context), context.monitor.hold("k") as other:
        with Outside(other, "another", context):
            pass
        with pytest.raises(LockTimeoutError), Outside(other, "c", context):
            pytest.fail("two processes work for one container")
        context.ledger.lock("other", 0).__exit__()
    assert os.listdir(f"{context.ledger.folder}/pods") == ["other"]
