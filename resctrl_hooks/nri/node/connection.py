"""One connection to a runtime's NRI socket: ttrpc messages in both directions, one reader."""

import _socket

from . import multiplexer, ttrpc
from .protobuf import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICE = "nri.pkg.api.v1alpha1.Runtime"
"""The service that the plugin calls; the runtime calls ``nri.pkg.api.v1alpha1.Plugin``."""

_AT_ONCE = 1 << 16
_PATIENCE = 2.0  # seconds within which the peer must read our data
_CALL_TIMEOUT = 10.0


class ClosedError(Exception):
    """The runtime closed the connection, or does not read our data."""


class Connection:
    """A connected socket.

    Raises:
        OSError: the socket has no listener.
    """

    def __init__(self, path: str) -> None:
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        self._frames = multiplexer.Demultiplexer()
        self._messages = {multiplexer.PLUGIN: ttrpc.Messages(), multiplexer.RUNTIME: ttrpc.Messages()}
        self._stream = -1
        try:
            self._socket.settimeout(_PATIENCE)
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the socket's descriptor, for poll."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def read(self) -> "Iterator[ttrpc.Message]":
        """Yield the complete messages; called when the socket is readable.

        A request can only come from the runtime, a response only to our call, because each has its own multiplexed
        connection.

        Raises:
            ClosedError: the runtime closed the connection.
            WireError: the data violates the protocol.
        """
        try:
            data = self._socket.recv(_AT_ONCE)
        except OSError as error:
            raise ClosedError(f"reading failed: {error.strerror or error}") from error
        if not data:
            raise ClosedError("the runtime closed the connection")
        for connection, payload in self._frames.feed(data):
            expected = ttrpc.REQUEST if connection == multiplexer.PLUGIN else ttrpc.RESPONSE
            for message in self._messages[connection].feed(payload):
                if message.kind != expected:
                    raise WireError(f"a message of type {message.kind} received on connection {connection}")
                yield message

    def call(self, method: str, payload: bytes) -> int:
        """Call the runtime; the stream on which the answer will come.

        Raises:
            ClosedError: the runtime closed the connection, or does not read.
        """
        self._stream += 2
        self._send(multiplexer.RUNTIME, ttrpc.request(self._stream, SERVICE, method, payload, _CALL_TIMEOUT))
        return self._stream

    def answer(self, stream: int, payload: bytes = b"", code: int = ttrpc.OK, message: str = "") -> None:
        """Answer a call of the runtime's.

        Raises:
            ClosedError: as `call`.
        """
        self._send(multiplexer.PLUGIN, ttrpc.response(stream, payload, code, message))

    def _send(self, connection: int, message: bytes) -> None:
        try:
            self._socket.sendall(multiplexer.frames_of(connection, message))
        except OSError as error:
            raise ClosedError(f"writing failed: {error.strerror or error}") from error
