"""The log: its targets in order, bounded lines that cannot be forged, and nothing that can go wrong."""

import os
import signal
import socket
from _signal import ITIMER_REAL, SIGALRM
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, Host, always, standard_streams, state
from hosts import crun
from hosts.memtierd import OTHER, MemtierdHost
from hosts.processes import is_alive, wait_until
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node import context, errors, locks, outside, plain_log
from resctrl_hooks.core.node import log as module
from resctrl_hooks.core.node.context import LONGEST_STARVED, Context, set_deadline
from resctrl_hooks.core.node.features.memtierd import feature as memtierd
from resctrl_hooks.core.node.features.memtierd import start as starting
from resctrl_hooks.core.node.log import DEBUG, ERROR, INFO, NOTICE, WARNING, Log, silent
from resctrl_hooks.core.node.plain_log import to_stderr


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[list[socket.socket]]:
    """Return the datagram sockets of journald and syslogd."""
    with ExitStack() as opened:
        made = [opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) for _ in range(2)]
        for one, name in zip(made, ("journal", "syslog"), strict=True):
            one.bind(str(tmp_path / name))
            one.settimeout(0)
        yield made


def lines(daemon: socket.socket) -> list[str]:
    found = []
    with suppress(BlockingIOError):
        while True:
            found.append(daemon.recv(1 << 20).decode())
    return found


def made(tmp_path: Path, **section: Any) -> Log:
    names = {"journalSocket": "journal", "syslogSocket": "syslog", "file": "file"}
    return Log({key: str(tmp_path / name) for key, name in names.items()} | section, stderr=False)


def test_auto_uses_first_available_target_in_its_own_form(tmp_path: Path, daemons: list[socket.socket]) -> None:
    log = made(tmp_path)
    log(INFO, "done", key="k", duration_usec=7)
    assert lines(daemons[0]) == [
        "MESSAGE=done\nPRIORITY=6\nSYSLOG_IDENTIFIER=resctrl-hook\nRESCTRL_KEY=k\nRESCTRL_DURATION_USEC=7\n"
    ]
    (tmp_path / "journal").unlink()
    log(WARNING, "a", key="k")
    assert lines(daemons[1]) == [f"<28>resctrl-hook[{os.getpid()}]: a key=k"]
    assert not (tmp_path / "file").exists()
    (tmp_path / "syslog").unlink()
    log(WARNING, "b")
    assert (tmp_path / "file").read_text() == f"<28>resctrl-hook[{os.getpid()}]: b\n"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert lines(daemons[0]) == lines(daemons[1]) == []


@pytest.mark.parametrize("target, where", [("journal", 0), ("syslog", 1), ("file", 2), ("none", None), ("odd", None)])
def test_explicit_target_is_used(tmp_path: Path, daemons: Any, target: str, where: int | None) -> None:
    made(tmp_path, target=target)(ERROR, "x")
    got = [*(len(lines(daemon)) for daemon in daemons), int((tmp_path / "file").exists())]
    assert got == [int(place == where) for place in range(3)]


def test_levels_filter_lines_long_fields_are_truncated_and_slow_daemons_skipped(tmp_path: Path, daemons: Any) -> None:
    for level, expected in (("error", 1), ("warning", 2), ("info", 4), ("debug", 5), ("odd", 4)):
        for priority in (ERROR, WARNING, NOTICE, INFO, DEBUG):
            made(tmp_path, level=level)(priority, "x")
        assert len(lines(daemons[0])) == expected
    made(tmp_path)(INFO, "\ud800" * 1_000_000)
    (line,) = lines(daemons[0])
    assert len(line) < 13_000
    for _ in range(2000):
        made(tmp_path)(INFO, "x")
    assert 0 < len(lines(daemons[0])) < 2000
    assert lines(daemons[1]) == []


def test_missing_log_is_not_a_failure_and_a_full_one_begins_again(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "fifo")
    for name in ("none/file", "link", "fifo"):
        made(tmp_path, file=str(tmp_path / name))(INFO, "x")
    for wrong in ("/a\0b", "/\ud800", "/" + "x" * 5000, ""):
        made(tmp_path, journalSocket=wrong, syslogSocket=wrong, file=wrong)(ERROR, "x")
    assert sorted(os.listdir(tmp_path)) == ["fifo", "link"]
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, plain_log._LARGEST_FILE + 1)
    made(tmp_path, target="file")(INFO, "x")
    assert path.stat().st_size < 100


@given(st.text(st.characters(codec=None), max_size=50), st.text(st.characters(codec=None), max_size=50))
def test_fields_and_lines_cannot_be_forged(message: str, value: str) -> None:
    native = module._native(INFO, message, {"key": value}).decode()
    assert native.count("\n") == 4
    names = ["MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "RESCTRL_KEY"]
    assert [line.partition("=")[0] for line in native.splitlines()] == names
    assert plain_log.syslog_line(INFO, message, {"key": value}).decode().isprintable()


def test_problems_are_one_line_on_stderr_and_log_and_patience_follow_the_settings(host: Host, capsys: Any) -> None:
    log = Log({"target": "none"})
    with standard_streams(b"") as written:
        log(WARNING, "a\nb\ud800", key="k")
        log(INFO, "not this")
    assert written() == "resctrl-hook: a\\nb\\ud800\n"
    silent(ERROR, "x", key="k")
    to_stderr(NOTICE, "x", key="k")
    to_stderr(INFO, "not this")
    assert capsys.readouterr().err == "resctrl-hook: x key=k\n"
    host.configure(deadlineSeconds=5)
    assert host.context().monitor.patience == 4.0
    host.context().log(ERROR, "by the settings")
    assert "by the settings" in host.log.read_text()
    context = Context(host.context().settings, log)
    assert context.log is log
    assert (context.failures, context.refusable) == ([], True)


class Machine:
    """Its clock, the seconds without a processor, and the timer that the hook has set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.starved = 100.0, 7.0
        self.monotonic = lambda: self.now
        self.timers: list[tuple[float, float]] = []
        self.alarm: Any = None
        monkeypatch.setattr(context, "time", self)
        monkeypatch.setattr(context, "_starved", lambda: self.starved)
        monkeypatch.setattr(context, "signal", self._handle)
        monkeypatch.setattr(context, "setitimer", self._set)
        monkeypatch.setattr(context, "pthread_sigmask", always(None))

    def _handle(self, number: int, handler: Any) -> None:
        assert number == SIGALRM
        self.alarm = handler

    def _set(self, timer: int, seconds: float, again: float = 0) -> None:
        assert timer == ITIMER_REAL
        self.timers.append((seconds, again))


@pytest.mark.parametrize("starved, left", [(0.0, 0.0), (0.5, 0.5), (3.0, 3.0), (1000.0, LONGEST_STARVED)])
def test_deadline_is_later_by_the_time_without_a_processor(monkeypatch: Any, starved: float, left: float) -> None:
    machine = Machine(monkeypatch)
    set_deadline(5.0)
    machine.now += 5.0
    machine.starved += starved
    if left:
        machine.alarm()
    else:
        with pytest.raises(errors.DeadlineError):
            machine.alarm()
    assert machine.timers == [(5.0, 0.25), *([(left, 0.25)] if left else [(0, 0), (0.25, 0.25)])]
    machine.now += left
    for _ in range(2):
        with pytest.raises(errors.DeadlineError, match="deadline of the hook exceeded"):
            machine.alarm()
    set_deadline(0)
    assert machine.timers[-1] == (0, 0)


def test_hook_reconcile_and_poststop_hold_no_key_while_programs_run(node: MemtierdHost, monkeypatch: Any) -> None:
    called = set()

    def watch(owner: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            called.add(name)
            assert not locks._threads, name  # the keys that this process holds
            return real(*given, **named)

        monkeypatch.setattr(owner, name, call)

    # Other tests leave the method `lost` on the instance.
    for owner, name in ((starting, "start"), (memtierd, "end"), (memtierd, "running"), (memtierd.FEATURE, "lost")):
        watch(owner, name)
    pids = {ID: 100, OTHER: 200}
    for id_, pid in pids.items():
        assert node.start(id_, pid, alone=False).code == 0
        crun.record(node.crun, id_, pid, node.bundle(), 1000)
    os.kill(node.pid(), signal.SIGKILL)
    wait_until(lambda: not is_alive(node.pid()))
    assert node.reconcile().applied == {"memtierd": [ID]}
    for id_, pid in pids.items():
        node.end_process(pid)
        node.call(state(id=id_, status="stopped", pid=0))
    assert called == {"start", "end", "running", "lost"}
    assert (node.left(), node.context().ledger.containers()) == ([], [])


def test_work_for_a_container_waits_for_that_of_another_process(host: Host) -> None:
    context = host.context()
    context.monitor.patience = 0.05
    with context.monitor.hold("k") as locked, outside.Outside(locked, "c", context), context.monitor.hold("k") as other:
        with outside.Outside(other, "another", context):
            pass
        with pytest.raises(errors.LockTimeoutError), outside.Outside(other, "c", context):
            pytest.fail("two processes work for one container")
        context.ledger.lock("other", 0).__exit__()
    assert os.listdir(f"{context.ledger.folder}/pods") == ["other"]
