"""The kernel's process connector: its messages as Linux 6.18 sent and took them, subscriptions, and the real socket."""

import errno
import os
import select
import subprocess
import sys
import time
from typing import Any

import pytest
from conftest import always
from hosts.faults import Fail
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.watch import listener as module
from resctrl_hooks.core.node.watch.connector import ACK, EXEC, LISTEN, events, exec_filter, request
from resctrl_hooks.core.node.watch.listener import Listener, NoConnectorError

EXECED = bytes.fromhex(
    "4c0000000300000001000000000000000100000001000000010000000000000028000000020000000000000097ea1aaccc000000"
    "345400003554000000000000000000000000000000000000"
)
"""An exec of thread 0x5434 of process 0x5435."""
LITTLE = pytest.mark.skipif(sys.byteorder != "little", reason="the captured messages are little-endian")


def message(what: int, *data: int) -> bytes:
    """As the captured one, of another event."""
    words = b"".join(value.to_bytes(4, "little") for value in data)
    return EXECED[:36] + what.to_bytes(4, "little") + EXECED[40:52] + words + EXECED[52 + len(words) :]


@LITTLE
@given(st.binary(max_size=200), st.integers(0, 80))
def test_any_bytes_are_read_without_error(rubbish: bytes, kept: int) -> None:
    for kind, value in events(EXECED[:kept] + rubbish):
        assert kind in (ACK, EXEC)
        assert 0 <= value < 1 << 32


@LITTLE
def test_messages_of_a_datagram_and_requests_have_kernel_format() -> None:
    fork = message(1, 7, 7, 8, 8)
    assert list(events(EXECED + fork + message(0, 0) + EXECED)) == [(EXEC, 0x5435), (ACK, 0), (EXEC, 0x5435)]
    plain, masked = request(LISTEN), request(LISTEN, EXEC)
    assert (len(plain), plain[:4], plain[4:6]) == (40, bytes([40, 0, 0, 0]), b"\3\0")
    assert plain[16:24] == b"\1\0\0\0\1\0\0\0"  # CN_IDX_PROC, CN_VAL_PROC
    assert plain[32:34] == b"\4\0"  # struct cn_msg's len: with any other, Linux before 6.6 ignores it
    assert plain[36:] == b"\1\0\0\0"
    assert (masked[32:34], masked[36:]) == (b"\x08\0", b"\1\0\0\0\2\0\0\0")


def run_filter(program: bytes, data: bytes) -> int:
    """Classic BPF with the three instructions that the filter has (Linux, Documentation/networking/filter.rst)."""
    accumulator = at = 0
    while True:
        code, then, otherwise = int.from_bytes(program[at : at + 2], "little"), program[at + 2], program[at + 3]
        value = int.from_bytes(program[at + 4 : at + 8], "little")
        at += 8
        if code == 0x20:
            accumulator = int.from_bytes(data[value : value + 4], "big")
        elif code == 0x15:
            at += 8 * (then if accumulator == value else otherwise)
        else:
            assert code == 0x06
            return value


@LITTLE
def test_filter_passes_acknowledgements_and_execs_only() -> None:
    passed = [what for what in (0, 2, 1, 4, 0x40, 0x80000000) if run_filter(exec_filter(), message(what, 1, 2))]
    assert passed == [0, 2]


ACKNOWLEDGED = message(0, 0)
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "")


class Socket:
    """A socket with prepared answers, datagrams and errors, and its poll with limits; ``refused`` options fail."""

    def __init__(self, *answers: bytes | OSError, refused: tuple[int, ...] = ()) -> None:
        self.answers, self.refused = [*answers], refused
        self.sent: list[bytes] = []
        self.options: list[tuple[int, Any]] = []
        self.limits: list[float] = []
        self.bound: object = None
        self.blocking, self.closed = True, False
        self.fileno = self.register = always(0)

    def setblocking(self, value: bool) -> None:  # as the real one
        self.blocking = value

    def bind(self, address: object) -> None:
        self.bound = address

    def setsockopt(self, _: int, option: int, value: Any) -> None:
        if option in self.refused:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        self.options.append((option, value))

    def send(self, data: bytes) -> None:
        if REFUSED in self.answers:
            raise REFUSED
        self.sent.append(data)

    def recv(self, _: int) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def poll(self, limit: float) -> bool:
        self.limits.append(limit)
        return bool(self.answers)

    def close(self) -> None:
        self.closed = True


def connected(monkeypatch: pytest.MonkeyPatch, socket: Socket) -> Listener:
    """Return a listener that gets this socket."""
    monkeypatch.setattr(module._socket, "socket", always(socket))  # type: ignore[attr-defined]
    monkeypatch.setattr(module.select, "poll", always(socket))  # type: ignore[attr-defined]
    return Listener()


def test_listener_subscribes_with_and_without_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    socket = Socket(EXECED, ACKNOWLEDGED)
    listener = connected(monkeypatch, socket)
    assert socket.sent == [request(LISTEN), request(LISTEN, EXEC)]
    assert (socket.bound, socket.blocking, socket.closed) == ((0, 1), False, False)
    assert [option for option, _ in socket.options] == [26, 33]
    assert socket.limits == [2000, 2000]
    listener.close()
    assert socket.closed
    socket = Socket(ACKNOWLEDGED, refused=(33,))
    connected(monkeypatch, socket)
    assert socket.options[1:] == [(8, 8 << 20)], "its buffer is as large as permitted"


@pytest.mark.parametrize("socket, reason", [
    (Socket(refused=(26,)), "no permission for the process connector"),  # for the filter
    (Socket(), "no answer from the kernel on the process connector; this requires CONFIG_PROC_EVENTS"),
    (Socket(message(0, 1)), "the kernel rejected the subscription to execs (EPERM)"),
    (Socket(REFUSED), "no process connector in this network namespace"),
    (Socket(OSError(errno.EACCES, "")), "no permission for the process connector; this requires CAP_NET_ADMIN"),
    (Socket(OSError(errno.EIO, "")), "cannot use the process connector (EIO)"),
])  # fmt: skip
def test_refused_subscription_is_reported(monkeypatch: pytest.MonkeyPatch, socket: Socket, reason: str) -> None:
    with pytest.raises(NoConnectorError) as caught:
        connected(monkeypatch, socket)
    assert reason in str(caught.value)
    assert socket.closed


def test_kernel_without_connector_is_reported(fail: Fail) -> None:
    fail(module._socket, "socket", OSError(errno.EPROTONOSUPPORT, "Protocol not supported"))  # type: ignore[attr-defined]
    with pytest.raises(NoConnectorError, match="this kernel has no process connector"):
        Listener()


def test_wait_returns_the_execs_of_one_datagram(monkeypatch: pytest.MonkeyPatch) -> None:
    socket = Socket(ACKNOWLEDGED)
    listener = connected(monkeypatch, socket)
    assert listener.wait(1.5) == listener.wait(-1) == []
    assert socket.limits[-2:] == [1500, 0]
    socket.answers += [EXECED + ACKNOWLEDGED, BlockingIOError(), OSError(errno.ENOBUFS, ""), OSError(errno.EIO, "")]
    assert [listener.wait(1) for _ in range(3)] == [[0x5435], [], []]
    assert listener.overruns == 1
    with pytest.raises(OSError, match=r"\[Errno 5\]"):
        listener.wait(1)


def test_real_listener_reports_the_exec_of_a_child_and_wakes_for_a_descriptor_beside() -> None:
    reader, writer = os.pipe()
    try:
        listener = Listener(reader)
    except NoConnectorError as error:
        pytest.skip(f"no process connector here: {error}")
    try:
        with subprocess.Popen(["sleep", "0"]) as child:
            found: list[int] = []
            end = time.monotonic() + 300
            # A wait may return early without an exec: the kernel sends each listener the others' acknowledgements.
            while child.pid not in found and time.monotonic() < end:
                found += listener.wait(1)
        assert child.pid in found
        os.write(writer, b"1")
        assert (reader, select.POLLIN) in listener._poll.poll(0)
        assert isinstance(listener.wait(0), list)
    finally:
        listener.close()
        os.close(reader)
        os.close(writer)
