"""ttrpc: calls as requests and responses, unary ones only, which is all that NRI has.

A message is a length and a stream, both u32 in network order, a type, flags, and a payload in protobuf. A caller's
streams are odd numbers that grow. Source: containerd/ttrpc, PROTOCOL.md.
"""

from .protobuf import WireError, decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

REQUEST, RESPONSE = 1, 2
MOST_IN_MESSAGE = 4 << 20

OK = 0
UNKNOWN = 2
"""The status of a call that failed; NRI knows no finer ones."""
UNIMPLEMENTED = 12
"""The status by which a runtime with a newer NRI knows that it must send the older form."""

_HEAD = 10


class Message:
    """One message: its stream, its type, and its payload."""

    __slots__ = ("kind", "payload", "stream")

    def __init__(self, stream: int, kind: int, payload: bytes) -> None:
        self.stream = stream
        self.kind = kind
        self.payload = payload

    def encoded(self) -> bytes:
        """Return the bytes of it."""
        head = len(self.payload).to_bytes(4, "big") + self.stream.to_bytes(4, "big")
        return head + bytes((self.kind, 0)) + self.payload


class Messages:
    """Takes the payloads of one connection's frames, and gives each message that is complete."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> "Iterator[Message]":
        """Yield the messages that are complete now. What comes before an error is given before it.

        Raises:
            WireError: one is larger than ttrpc allows.
        """
        self._pending += data
        while len(self._pending) >= _HEAD:
            size = int.from_bytes(self._pending[:4], "big")
            if size > MOST_IN_MESSAGE:
                raise WireError(f"a message of {size} bytes is larger than ttrpc's 4 MiB")
            if len(self._pending) < _HEAD + size:
                return
            stream = int.from_bytes(self._pending[4:8], "big")
            message = Message(stream, self._pending[8], bytes(self._pending[_HEAD : _HEAD + size]))
            del self._pending[: _HEAD + size]
            yield message


def request(stream: int, service: str, method: str, payload: bytes, timeout: float) -> bytes:
    """Return a call; ``timeout`` in seconds."""
    fields: "dict[str, Any]" = {"service": service, "method": method, "payload": payload}
    fields["timeout_nano"] = int(timeout * 1e9)
    return Message(stream, REQUEST, encode("Request", fields)).encoded()


def response(stream: int, payload: bytes, code: int = OK, message: str = "") -> bytes:
    """Return the answer to a call: what it returns, or why it failed."""
    fields: "dict[str, Any]" = {"status": {"code": code, "message": message} if code else {}}
    if payload and not code:
        fields["payload"] = payload
    return Message(stream, RESPONSE, encode("Response", fields)).encoded()


def decode_request(message: Message) -> "dict[str, Any]":
    """Return a call's service, method, payload and timeout_nano.

    Raises:
        WireError: the message is not a request.
    """
    return {"service": "", "method": "", "payload": b"", "timeout_nano": 0, **decode("Request", message.payload)}


def decode_response(message: Message) -> "tuple[int, str, bytes]":
    """Return an answer's status code, its message, and the call's result.

    Raises:
        WireError: the message is not a response.
    """
    found = decode("Response", message.payload)
    status = found.get("status", {})
    return status.get("code", OK), status.get("message", ""), found.get("payload", b"")
