"""Notifications to systemd, and the watchdog's rhythm."""

import posix
import socket
from pathlib import Path

import pytest
from hosts.notify_socket import NotifySocket

from resctrl_hooks.core.node.host import notify as module
from resctrl_hooks.core.node.host.notify import Notify


class Clock:
    """A clock that stands at ``now``."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found


def test_assignments_are_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with NotifySocket(tmp_path, monkeypatch) as systemd:
        Notify()(READY="1", STATUS="mode act")
        assert systemd.received() == ["READY=1\nSTATUS=mode act"]


def test_abstract_socket_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"resctrl-hooks-test-{posix.getpid()}"
    monkeypatch.setitem(posix.environ, b"NOTIFY_SOCKET", b"@" + name.encode())
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0" + name)
        Notify()(READY="1")
        assert systemd.recv(4096, socket.MSG_DONTWAIT) == b"READY=1"


def test_missing_socket_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(posix.environ, b"NOTIFY_SOCKET", bytes(tmp_path / "none"))
    Notify()(READY="1")


def test_watchdog_is_notified_twice_in_its_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setitem(posix.environ, b"WATCHDOG_USEC", b"8000000")
    with NotifySocket(tmp_path, monkeypatch) as systemd:
        notify = Notify()
        assert (notify.alive(), systemd.received()) == (4, ["WATCHDOG=1"])
        clock.now += 1
        assert (notify.alive(), systemd.received()) == (3, [])
        clock.now += 3
        assert (notify.alive(), systemd.received()) == (4, ["WATCHDOG=1"])


@pytest.mark.parametrize("own", [True, False])
def test_watchdog_of_another_process_is_not_notified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, own: bool
) -> None:
    monkeypatch.setitem(posix.environ, b"WATCHDOG_USEC", b"8000000")
    monkeypatch.setitem(posix.environ, b"WATCHDOG_PID", str(posix.getpid() if own else 1).encode())
    with NotifySocket(tmp_path, monkeypatch) as systemd:
        assert Notify().alive() == (4 if own else float("inf"))
        assert systemd.received() == (["WATCHDOG=1"] if own else [])


def test_without_systemd_nothing_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(posix.environ, b"WATCHDOG_USEC", b"8000000")
    monkeypatch.delitem(posix.environ, b"NOTIFY_SOCKET", raising=False)
    assert Notify().alive() == 4
