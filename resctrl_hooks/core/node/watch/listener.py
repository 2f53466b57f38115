"""The socket on which the kernel reports each exec, and the reasons why it may be unavailable."""

import _socket
import errno
import select
import sys

from ..errors import HookError
from .connector import ACK, EXEC, FAMILY, GROUP, LISTEN, PROTOCOL, events, exec_filter, request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Source(Protocol):
        """Where execs come from: `Listener`."""

        overruns: int

        def wait(self, seconds: float) -> "list[int]":
            """Wait at most so long, and return the processes that have called exec."""

        def close(self) -> None:
            """Stop receiving."""


_BUFFER = 8 << 20  # bytes; an event takes about 1 kB of it, so some 8000 execs can wait
_SO_RCVBUFFORCE, _SO_ATTACH_FILTER = 33, 26
_LONGEST = 4096
_PATIENCE = 2.0  # seconds for the kernel's acknowledgement, which comes at once


class NoConnectorError(HookError):
    """The kernel reports no execs to this process."""


class Listener:
    """Receives execs. ``overruns`` counts how often the kernel dropped events since the buffer was full.

    Args:
        beside: a descriptor that also ends a wait when it is readable; negative for none.

    Raises:
        NoConnectorError: this kernel has no process connector, or not for this process.
    """

    def __init__(self, beside: int = -1) -> None:
        self.overruns = 0
        self._socket = _open()
        self._poll = select.poll()
        self._poll.register(self._socket.fileno(), select.POLLIN)
        try:
            self._subscribe()
            if beside >= 0:
                self._poll.register(beside, select.POLLIN)
        except BaseException:
            self._socket.close()
            raise

    def _subscribe(self) -> None:
        """Subscribe in the form that every kernel knows and acknowledges, then with the mask of Linux 6.6."""
        try:
            self._socket.send(request(LISTEN))
            answer = self._answer()
        except ConnectionRefusedError as error:
            raise NoConnectorError(
                "no process connector in this network namespace",
                hint="the watcher requires the host's initial network namespace",
                errno=error.errno or 0,
            ) from error
        except OSError as error:
            raise _no_connector(error) from error
        if answer is None:
            raise NoConnectorError(
                "no answer from the kernel on the process connector",
                hint="this requires CONFIG_PROC_EVENTS and the host's initial PID and user namespaces",
            )
        if answer:
            raise NoConnectorError(
                "the kernel rejected the subscription to execs", hint="this requires CAP_NET_ADMIN", errno=answer
            )
        self._socket.send(request(LISTEN, EXEC))

    def _answer(self) -> "int | None":
        """Wait for the acknowledgement of a request, and return its errno; None if there is none."""
        while self._poll.poll(_PATIENCE * 1000):
            for kind, value in events(self._socket.recv(_LONGEST)):
                if kind == ACK:
                    return value
        return None

    def close(self) -> None:
        """End the subscription."""
        self._socket.close()

    def wait(self, seconds: float) -> "list[int]":
        """Wait at most so long for an exec, and return the processes of the first datagram.

        It does not wait for a second one, because the first process may live for a millisecond.
        """
        if not self._poll.poll(max(0, int(seconds * 1000))):
            return []
        try:
            datagram = self._socket.recv(_LONGEST)
        except BlockingIOError:
            return []  # poll can return without a datagram, and for the other descriptor
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            self.overruns += 1
            return []
        return [value for kind, value in events(datagram) if kind == EXEC]


def _open() -> "_socket.socket":
    try:
        found = _socket.socket(FAMILY, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC, PROTOCOL)
    except OSError as error:
        raise _no_connector(error) from error
    try:
        found.setblocking(False)  # noqa: FBT003  # the C function takes no names
        _filter(found)
        found.bind((0, GROUP))
        try:
            found.setsockopt(_socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        except PermissionError:
            found.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVBUF, _BUFFER)  # up to net.core.rmem_max
    except OSError as error:
        found.close()
        raise _no_connector(error) from error
    return found


def _no_connector(error: OSError) -> NoConnectorError:
    if error.errno in (errno.EPERM, errno.EACCES):
        return NoConnectorError("no permission for the process connector", hint="this requires CAP_NET_ADMIN")
    if error.errno == errno.EPROTONOSUPPORT:
        return NoConnectorError(
            "this kernel has no process connector", hint="it needs CONFIG_CONNECTOR and CONFIG_PROC_EVENTS"
        )
    hint = "docs/exec.md lists the requirements"
    return NoConnectorError("cannot use the process connector", hint=hint, errno=error.errno or 0)


def _filter(socket: "_socket.socket") -> None:
    import array  # its buffer has an address, which the kernel wants

    program = array.array("Q", exec_filter())
    address, length = program.buffer_info()
    # struct sock_fprog: a length, padding, a pointer
    fprog = length.to_bytes(2, sys.byteorder) + bytes(6) + address.to_bytes(8, sys.byteorder)
    socket.setsockopt(_socket.SOL_SOCKET, _SO_ATTACH_FILTER, fprog)
