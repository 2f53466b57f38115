"""The log: its targets in order, bounded lines that cannot be forged, and nothing that can go wrong."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import standard_streams
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node import log as module
from resctrl_hooks.core.node import plain_log
from resctrl_hooks.core.node.log import DEBUG, ERROR, INFO, NOTICE, WARNING, Log, silent
from resctrl_hooks.core.node.plain_log import to_stderr


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
