"""Other programs: their execution, systemd, a second instance of this one, and unfinished files of killed ones."""

import os
import posix
import signal
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import always, raising
from hosts.notify_socket import NotifySocket

from resctrl_hooks.core.node.host import notify as notify_module
from resctrl_hooks.core.node.host import programs
from resctrl_hooks.core.node.host import systemd as units
from resctrl_hooks.core.node.host.instance import RunningError, only_instance
from resctrl_hooks.core.node.host.notify import Notify
from resctrl_hooks.core.node.host.programs import ProgramError, find_program
from resctrl_hooks.core.node.host.programs import run as run_program
from resctrl_hooks.core.node.host.unfinished import remove_unfinished


def test_output_and_exit_code_are_returned_and_bounded() -> None:
    assert run_program(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], 5) == (3, "out\nerr")
    code, output = run_program(["/bin/sh", "-c", "yes | head -c 500000"], 20)
    assert (code, len(output) <= 1 << 16) == (0, True)
    assert set(programs.ENVIRONMENT) == {"PATH", "LC_ALL"}


def test_hanging_program_is_killed() -> None:
    for words in (["/bin/sleep", "1000"], ["/bin/sh", "-c", "exec >/dev/null 2>&1; sleep 1000"]):
        with pytest.raises(ProgramError, match="did not exit within"):
            run_program(words, 0.05)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # none is left, not even as a zombie


def test_programs_are_found_at_fixed_paths(tmp_path: Path) -> None:
    assert find_program("sh") in ("/usr/bin/sh", "/bin/sh")
    (tmp_path / "x").mkdir()
    with pytest.raises(ProgramError, match="cannot find the program x in"):
        find_program("x", (str(tmp_path),))
    with pytest.raises(ProgramError, match="cannot run"):
        run_program(["/no/such/program"], 1)


def test_program_inherits_no_ignored_signals(tmp_path: Path) -> None:
    with (tmp_path / "said").open("wb") as output:
        pid = programs.spawn(["/bin/cat", "/proc/self/status"], output.fileno(), leader=True)
        assert os.waitpid(pid, 0) == (pid, 0)
    said = dict(line.split(":\t", 1) for line in (tmp_path / "said").read_text().splitlines() if ":\t" in line)
    ignored = int(said["SigIgn"], 16)
    taken = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM]
    assert [number.name for number in taken if ignored >> (number - 1) & 1] == []
    assert int(said["SigBlk"], 16) == 0


# systemd


def test_systemd_errors_are_passed_on_and_invalid_properties_reach_no_argument_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(units, "run", raising(AssertionError()))
    monkeypatch.setattr(units, "find_program", lambda name: f"/usr/bin/{name}")
    for name, value in (("--now", ""), ("MemoryHigh=1 CPUWeight", "1"), ("MemoryHigh", "1\nExec=/x")):
        with pytest.raises(units.UnitError, match="invalid property"):
            units.set_properties("x.scope", {name: value}, 1)
    monkeypatch.setattr(units, "run", always((1, "Failed: no such thing")))
    with pytest.raises(units.UnitError, match="Failed: no such thing"):
        units.set_properties("a.scope", {"MemoryHigh": "1"}, 1.0)


def test_assignments_are_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with NotifySocket(tmp_path, monkeypatch) as systemd:
        Notify()(READY="1", STATUS="mode act")
        assert systemd.received() == ["READY=1\nSTATUS=mode act"]
    monkeypatch.setitem(posix.environ, b"NOTIFY_SOCKET", bytes(tmp_path / "none"))
    Notify()(READY="1")
    name = f"resctrl-hooks-test-{posix.getpid()}"
    monkeypatch.setitem(posix.environ, b"NOTIFY_SOCKET", b"@" + name.encode())
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract:
        abstract.bind("\0" + name)
        Notify()(READY="1")
        assert abstract.recv(4096, socket.MSG_DONTWAIT) == b"READY=1"


def test_watchdog_of_this_process_is_notified_twice_in_its_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(notify_module, "time", clock)
    monkeypatch.setitem(posix.environ, b"WATCHDOG_USEC", b"8000000")
    with NotifySocket(tmp_path, monkeypatch) as systemd:
        for pid in ("", str(posix.getpid())):
            monkeypatch.setitem(posix.environ, b"WATCHDOG_PID", pid.encode())
            notify = Notify()
            assert (notify.alive(), systemd.received()) == (4, ["WATCHDOG=1"])
            clock.now += 1
            assert (notify.alive(), systemd.received()) == (3, [])
            clock.now += 3
            assert (notify.alive(), systemd.received()) == (4, ["WATCHDOG=1"])
        monkeypatch.setitem(posix.environ, b"WATCHDOG_PID", b"1")
        assert (Notify().alive(), systemd.received()) == (float("inf"), [])
    monkeypatch.delitem(posix.environ, b"WATCHDOG_PID")
    monkeypatch.delitem(posix.environ, b"NOTIFY_SOCKET", raising=False)
    assert Notify().alive() == 4


# One instance per node


@pytest.mark.usefixtures("open_umask")
def test_second_instance_names_the_first(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    os.close(only_instance(str(path)))
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("12345678901234567890")  # of an earlier, longer process id
    fd = only_instance(str(path))
    assert path.read_text() == str(os.getpid())
    open_before = len(os.listdir("/proc/self/fd"))
    for text, pid, words in (
        (path.read_text(), os.getpid(), f"another instance is running, process {os.getpid()}"),
        ("", 0, "another instance is running"),
        (f"{7:<20}resctrl-guard", 7, "resctrl-guard is running, process 7"),
    ):
        path.write_text(text)
        with pytest.raises(RunningError) as caught:
            only_instance(str(path))
        assert (caught.value.pid, str(caught.value)) == (pid, words)
    assert len(os.listdir("/proc/self/fd")) == open_before
    os.close(fd)
    os.close(only_instance(str(path), "resctrl-guard"))
    assert path.read_text() == f"{os.getpid():<20}resctrl-guard"
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        only_instance(str(tmp_path / "link"))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("age, removed", [(0, 0), (30, 0), (90, 1), (-90, 1), (-86400 * 40, 1)])
def test_unfinished_file_of_an_ended_writer_is_removed_once_it_is_old_or_of_a_later_clock(
    tmp_path: Path, age: float, removed: int
) -> None:
    (tmp_path / "a~4194304").mkdir()
    for name in ("counters~4194304", f"counters~{os.getpid()}", "counters~x", "counters"):
        (tmp_path / name).touch()
    for path in tmp_path.iterdir():
        os.utime(path, (time.time() - age,) * 2)
    assert remove_unfinished(str(tmp_path), "/proc") == removed
    assert len(os.listdir(tmp_path)) == 5 - removed
    assert (tmp_path / "a~4194304").is_dir(), "a foreign folder stays, and keeps no file"
