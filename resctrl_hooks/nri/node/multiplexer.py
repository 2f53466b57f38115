"""The multiplexer: two logical connections on one socket, each message in one frame or more.

A frame is the connection's number and a length, both u32 in network order, then the payload; ttrpc splits the payloads
into messages. Source: containerd/nri, pkg/net/multiplex.
"""

from .protobuf import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PLUGIN = 1
"""The connection on which the runtime calls the plugin."""
RUNTIME = 2
"""The connection on which the plugin calls the runtime."""
MOST_IN_FRAME = 4 << 20  # as ttrpc's largest message, with its head
FIRST_FRAME = 4096
"""No frame may hold more than the other side's reader takes at once: a message's first 4096 bytes go in one frame and
the rest in another. One frame of 20 kB made containerd cut the plugin off."""

_HEAD = 8
_NUMBER = 4


class Demultiplexer:
    """Takes bytes as they come and gives the payload of each frame that is complete."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> "Iterator[tuple[int, bytes]]":
        """Yield the complete frames: connection and payload.

        Frames before an error are yielded first.

        Raises:
            WireError: a frame belongs to no known connection, or is larger than any message.
        """
        self._pending += data
        while len(self._pending) >= _HEAD:
            connection = int.from_bytes(self._pending[:_NUMBER], "big")
            size = int.from_bytes(self._pending[_NUMBER:_HEAD], "big")
            if connection not in (PLUGIN, RUNTIME):
                raise WireError(f"a frame belongs to connection {connection}, which is not open")
            if size > MOST_IN_FRAME + _HEAD:
                raise WireError(f"a frame of {size} bytes is larger than any message")
            if len(self._pending) < _HEAD + size:
                return
            payload = bytes(self._pending[_HEAD : _HEAD + size])
            del self._pending[: _HEAD + size]
            yield connection, payload


def frames_of(connection: int, message: bytes) -> bytes:
    """Return the frames in which a message travels."""
    parts = [message[:FIRST_FRAME], message[FIRST_FRAME:]]
    head = connection.to_bytes(_NUMBER, "big")
    return b"".join([head + len(part).to_bytes(_NUMBER, "big") + part for part in parts if part])
