"""Safe file access, and other programs: bounded reads, atomic writes, JSON; execution, systemd, one instance."""

import errno
import json
import os
import posix
import re
import signal
import socket
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import always, raising
from hosts.descriptors import nothing_left_open
from hosts.faults import Fail
from hosts.notify_socket import NotifySocket
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.host import files, instance, programs, unfinished
from resctrl_hooks.core.node.host import notify as notify_module
from resctrl_hooks.core.node.host import systemd as units
from resctrl_hooks.core.node.host.notify import Notify
from resctrl_hooks.core.node.host.programs import ProgramError

SCALARS = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(st.characters(codec=None), max_size=20)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)


@given(JSON)
def test_json_round_trip_is_identical(value: Any) -> None:
    data = files.format_json(value)
    assert data.isascii()
    assert data.count(b"\n") == 1
    assert files.parse_json(data) == value == json.loads(data)


@given(st.binary(max_size=60) | st.text('[]{}",:0123eE.-tfn \\u', max_size=40).map(str.encode))
def test_reader_agrees_with_json_package(data: bytes) -> None:
    """Only a number of more than 32 digits is refused here and read there."""
    try:
        expected = json.loads(data.decode(), parse_constant=raising(ValueError()))
    except (ValueError, RecursionError):
        with pytest.raises(ValueError, match=r"."):
            files.parse_json(data)
    else:
        assert re.search(rb"\d{33}", data) or files.parse_json(data) == expected


def test_record_is_one_line_of_plain_values_in_key_order_and_invalid_json_refused() -> None:
    record = {"b": [True, None, 0.5], "a": {"ü": 1}}
    assert files.format_json(record) == b'{"b": [true, null, 0.5], "a": {"\\u00fc": 1}}\n'
    large = b" " * (1 << 16)
    assert files.parse_json(b"[" + large + b"1" * 32 + b"]") == [int("1" * 32)]
    for value, kind, words in (
        ({"a": {1}}, TypeError, "set cannot be stored in a record"), ({(1,): 1}, TypeError, "keys must be"),
        ({"a": float("nan")}, ValueError, "not JSON compliant"),
    ):  # fmt: skip
        with pytest.raises(kind, match=words):
            files.format_json(value)
    for data, words in (
        (b"", "expected a JSON value at character 0"), (b"NaN", "NaN is not JSON"), (b"\xff", "decode"),
        (b"{} {}", "unexpected text after the JSON value at character 2"), (b"[Infinity]", "Infinity is not JSON"),
        (b"\xef\xbb\xbf{}", "expected a JSON value"), (b"9" * 5000, "many digits"), (b'{"a" 1}', "delimiter"),
        (b"[" * 100_000, "nested too deeply"), (b'{"a":' * 100_000, "nested too deeply"),
        (b'"\x01"', "control character"),
        (b"[" + large + b"1" * 33 + b"]", "number with too many digits"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            files.parse_json(data)


SIZES = st.one_of(*(st.integers(around - 1, around + 1) for around in (1, 2048, 4096, 8192)), st.integers(0, 20_000))


@given(SIZES, st.integers(-1, 1) | st.integers(-20_000, 20_000))
def test_each_reader_returns_all_data_up_to_its_bound(size: int, more: int) -> None:
    data, limit = os.urandom(size), max(size + more, 0)

    def piped() -> bytes:
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        try:
            return files.read_all(reading, limit, "it")
        finally:
            os.close(reading)

    path = f"/dev/shm/reader-{os.getpid()}"
    Path(path).write_bytes(data)
    try:
        assert files.read_kernel_file(path) == data
        for read in (piped, lambda: files.read_file(path, limit), lambda: files.read_small_file(path, limit)):
            if size <= limit:
                assert read() == data
            else:
                with pytest.raises(OSError, match=f"larger than {limit} bytes") as caught:
                    read()
                assert caught.value.errno == errno.EFBIG
    finally:
        os.unlink(path)


def test_special_file_is_neither_read_nor_waited_for_and_none_stays_open(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("f")
    os.mkfifo(tmp_path / "fifo")
    with nothing_left_open():
        files.write_file(str(tmp_path / "f"), b"x")
        for name, number in (
            ("link", errno.ELOOP), ("fifo", errno.EINVAL), (".", errno.EINVAL), ("none", errno.ENOENT),
            ("f", errno.EFBIG),
        ):  # fmt: skip
            with pytest.raises(OSError, match=r".") as caught:
                files.read_file(str(tmp_path / name), 10 if name != "f" else 0)
            assert caught.value.errno == number
        assert files.read_file(str(link), 10, follow=True) == files.read_kernel_file(str(link)) == b"x"
        with pytest.raises(OSError, match="not a regular file"):
            files.read_small_file(str(tmp_path / "fifo"), 10)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_only_files_of_root_and_of_the_reader_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_text("x")
    for mode, owner, reader, trusted in (
        (0o600, 0, 0, True), (0o644, 0, 65534, True), (0o600, 65534, 65534, True),
        (0o620, 0, 0, False), (0o602, 0, 0, False), (0o600, 65534, 0, False), (0o600, 1, 65534, False),
    ):  # fmt: skip
        path.chmod(mode)
        os.chown(path, owner, owner)
        monkeypatch.setattr(posix, "geteuid", always(reader))
        assert files.read_file(str(path), 10) == b"x"
        with nullcontext() if trusted else pytest.raises(PermissionError, match="other than root"):
            assert files.read_file(str(path), 10, trusted=True) == b"x"


@pytest.mark.usefixtures("open_umask")
def test_write_replaces_whole_file_and_a_failed_one_leaves_nothing(tmp_path: Path, fail: Fail) -> None:
    path = tmp_path / "f"
    for data, mode in ((b"one", 0o600), (b"two" * 100_000, 0o644)):
        files.write_file(str(path), data, mode)
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (data, mode)
    (tmp_path / "pod").mkdir()
    with pytest.raises(IsADirectoryError):
        files.write_file(str(tmp_path / "pod"), b"x")
    fail(posix, "write", OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match="No space"):
        files.write_file(str(path), b"new")
    assert path.read_bytes() == data
    assert sorted(os.listdir(tmp_path)) == ["f", "pod"]


def test_link_in_place_of_temporary_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = os.open

    def spy(path: str, flags: int, mode: int) -> int:
        seen.append(path)
        os.symlink("/nonexistent/target", path)
        return real(path, flags, mode)

    monkeypatch.setattr(posix, "open", spy)
    with pytest.raises(OSError, match=r"symbolic link|loop"):
        files.write_file(str(tmp_path / "f"), b"x")
    assert len(seen) == 1


def test_program_runs_from_a_fixed_path_with_bounds(tmp_path: Path) -> None:
    assert programs.find_program("sh") in ("/usr/bin/sh", "/bin/sh")
    (tmp_path / "x").mkdir()
    with pytest.raises(ProgramError, match="cannot find the program x in"):
        programs.find_program("x", (str(tmp_path),))
    with pytest.raises(ProgramError, match="cannot run"):
        programs.run(["/no/such/program"], 1)
    assert programs.run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], 5) == (3, "out\nerr")
    code, output = programs.run(["/bin/sh", "-c", "yes | head -c 500000"], 20)
    assert (code, len(output) <= 1 << 16) == (0, True)
    assert set(programs.ENVIRONMENT) == {"PATH", "LC_ALL"}
    for words in (["/bin/sleep", "1000"], ["/bin/sh", "-c", "exec >/dev/null 2>&1; sleep 1000"]):
        with pytest.raises(ProgramError, match="did not exit within"):
            programs.run(words, 0.05)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # none is left, not even as a zombie


def test_program_inherits_no_ignored_signals(tmp_path: Path) -> None:
    with (tmp_path / "said").open("wb") as output:
        pid = programs.spawn(["/bin/cat", "/proc/self/status"], output.fileno(), leader=True)
        assert os.waitpid(pid, 0) == (pid, 0)
    said = dict(line.split(":\t", 1) for line in (tmp_path / "said").read_text().splitlines() if ":\t" in line)
    ignored = int(said["SigIgn"], 16)
    taken = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM]
    assert [number.name for number in taken if ignored >> (number - 1) & 1] == []
    assert int(said["SigBlk"], 16) == 0


def test_systemd_errors_are_passed_on_and_invalid_properties_reach_no_argument_list(monkeypatch: Any) -> None:
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


def test_watchdog_of_this_process_is_notified_twice_in_its_period(tmp_path: Path, monkeypatch: Any) -> None:
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


@pytest.mark.usefixtures("open_umask")
def test_second_instance_names_the_first(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    os.close(instance.only_instance(str(path)))
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("12345678901234567890")  # of an earlier, longer process id
    fd = instance.only_instance(str(path))
    assert path.read_text() == str(os.getpid())
    with nothing_left_open():
        for text, pid, words in (
            (path.read_text(), os.getpid(), f"another instance is running, process {os.getpid()}"),
            ("", 0, "another instance is running"),
            (f"{7:<20}resctrl-guard", 7, "resctrl-guard is running, process 7"),
        ):
            path.write_text(text)
            with pytest.raises(instance.RunningError) as caught:
                instance.only_instance(str(path))
            assert (caught.value.pid, str(caught.value)) == (pid, words)
    os.close(fd)
    os.close(instance.only_instance(str(path), "resctrl-guard"))
    assert path.read_text() == f"{os.getpid():<20}resctrl-guard"
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="lock"):
        instance.only_instance(str(path))
    assert os.listdir(tmp_path) == ["lock"]


def test_unfinished_file_of_an_ended_writer_is_removed_once_it_is_old_or_of_a_later_clock(tmp_path: Path) -> None:
    (tmp_path / "a~4194304").mkdir()
    for age, removed in ((0, 0), (30, 0), (90, 1), (-90, 1), (-86400 * 40, 1)):
        for name in ("counters~4194304", f"counters~{os.getpid()}", "counters~x", "counters"):
            (tmp_path / name).touch()
        for path in tmp_path.iterdir():
            os.utime(path, (time.time() - age,) * 2)
        assert unfinished.remove_unfinished(str(tmp_path), "/proc") == removed
        assert len(os.listdir(tmp_path)) == 5 - removed
        assert (tmp_path / "a~4194304").is_dir(), "a foreign folder stays, and keeps no file"
