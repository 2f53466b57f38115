"""How the watcher connects to the kernel's process connector, with a socket that answers as a test says."""

import errno
from typing import Any

import pytest
from hosts.faults import Fail

from resctrl_hooks.core.node.watch import listener as module
from resctrl_hooks.core.node.watch.connector import EXEC, LISTEN, request
from resctrl_hooks.core.node.watch.listener import Listener, NoConnectorError

from .test_connector import EXECED, message

ACKNOWLEDGED = message(0, 0)


class Socket:
    """A socket with prepared answers: datagrams and errors; ``refused`` options fail."""

    def __init__(self, answers: list[bytes | OSError], refused: tuple[int, ...] = ()) -> None:
        self.answers = answers
        self.refused = refused
        self.sent: list[bytes] = []
        self.options: list[tuple[int, Any]] = []
        self.bound: object = None
        self.blocking = True
        self.closed = False

    def setblocking(self, value: bool) -> None:  # as the real one
        self.blocking = value

    def bind(self, address: object) -> None:
        self.bound = address

    def setsockopt(self, _: int, option: int, value: Any) -> None:
        if option in self.refused:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        self.options.append((option, value))

    def send(self, data: bytes) -> None:
        if self.answers and isinstance(self.answers[0], ConnectionRefusedError):
            raise self.answers.pop(0)  # type: ignore[misc]
        self.sent.append(data)

    def recv(self, _: int) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def fileno(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True


class Poll:
    """A poll that is ready while the socket has an answer; its time limits are recorded."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self.limits: list[float] = []

    def register(self, *_: object) -> None:
        """Accept the socket."""

    def poll(self, limit: float) -> bool:
        self.limits.append(limit)
        return bool(self.socket.answers)


def connect(monkeypatch: pytest.MonkeyPatch, *answers: bytes | OSError, refused: tuple[int, ...] = ()) -> Any:
    """Return the socket and the poll that the listener gets, and a function that makes it."""
    socket = Socket([*answers], refused)
    poll = Poll(socket)
    monkeypatch.setattr(module._socket, "socket", lambda *_: socket)  # type: ignore[attr-defined]
    monkeypatch.setattr(module.select, "poll", lambda: poll)  # type: ignore[attr-defined]
    return socket, poll, Listener


def test_listener_subscribes_with_and_without_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    socket, poll, made = connect(monkeypatch, EXECED, ACKNOWLEDGED)
    listener = made()
    assert socket.sent == [request(LISTEN), request(LISTEN, EXEC)]
    assert (socket.bound, socket.blocking, socket.closed) == ((0, 1), False, False)
    assert [option for option, _ in socket.options] == [26, 33]
    assert poll.limits == [2000, 2000]
    listener.close()
    assert socket.closed


def test_buffer_is_as_large_as_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    socket, _, made = connect(monkeypatch, ACKNOWLEDGED, refused=(33,))
    made()
    assert socket.options[1:] == [(8, 8 << 20)]


@pytest.mark.parametrize(
    "answers, reason",
    [
        ([], "no answer from the kernel on the process connector; this requires CONFIG_PROC_EVENTS"),
        ([message(0, 1)], "the kernel rejected the subscription to execs (EPERM)"),
        ([ConnectionRefusedError(errno.ECONNREFUSED, "")], "no process connector in this network namespace"),
        ([OSError(errno.EACCES, "")], "no permission for the process connector; this requires CAP_NET_ADMIN"),
        ([OSError(errno.EIO, "")], "cannot use the process connector (EIO)"),
    ],
)
def test_refused_subscription_is_reported(
    monkeypatch: pytest.MonkeyPatch, answers: list[bytes | OSError], reason: str
) -> None:
    socket, _, made = connect(monkeypatch, *answers)
    with pytest.raises(NoConnectorError) as caught:
        made()
    assert reason in str(caught.value)
    assert socket.closed


def test_refused_filter_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    socket, _, made = connect(monkeypatch, refused=(26,))
    with pytest.raises(NoConnectorError, match="no permission for the process connector"):
        made()
    assert socket.closed


def test_kernel_without_connector_is_reported(fail: Fail) -> None:
    fail(module._socket, "socket", OSError(errno.EPROTONOSUPPORT, "Protocol not supported"))  # type: ignore[attr-defined]
    with pytest.raises(NoConnectorError, match="this kernel has no connector"):
        Listener()


def test_wait_returns_the_execs_of_one_datagram(monkeypatch: pytest.MonkeyPatch) -> None:
    socket, poll, made = connect(monkeypatch, ACKNOWLEDGED)
    listener = made()
    assert listener.wait(1.5) == listener.wait(-1) == []
    assert poll.limits[-2:] == [1500, 0]
    socket.answers += [EXECED + ACKNOWLEDGED, BlockingIOError(), OSError(errno.ENOBUFS, ""), OSError(errno.EIO, "")]
    assert [listener.wait(1) for _ in range(3)] == [[0x5435], [], []]
    assert listener.overruns == 1
    with pytest.raises(OSError, match=r"\[Errno 5\]"):
        listener.wait(1)
