"""systemd's end of a service's notifications, in place of the real one (sd_notify(3))."""

import posix
import socket
from pathlib import Path
from typing import Self

import pytest


class NotifySocket:
    """The socket that ``NOTIFY_SOCKET`` names in this process' environment."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(0)
        self._socket.bind(str(folder / "notify"))
        monkeypatch.setitem(posix.environ, b"NOTIFY_SOCKET", bytes(folder / "notify"))

    def received(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
