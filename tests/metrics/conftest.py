"""The metrics server with its clients."""

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from email.message import Message

from prometheus_client import CollectorRegistry

from resctrl_hooks.metrics.answers import NONE, Documents
from resctrl_hooks.metrics.server import Server


class Served:
    """A server of metrics and documents, and its clients."""

    def __init__(self, registry: CollectorRegistry, documents: Documents = NONE) -> None:
        self.server = Server(("127.0.0.1", 0), registry, documents)
        self.port = self.server.server_address[1]

    def __call__(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Message, bytes]:
        """Return status, headers and body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            got = connection.getresponse()
            return got.status, got.headers, got.read()
        finally:
            connection.close()

    def connections(self, number: int) -> list[socket.socket]:
        """Return connections without a request; those left close with this process."""
        return [socket.create_connection(("127.0.0.1", self.port), timeout=10) for _ in range(number)]

    def raw(self, data: bytes, source: str = "127.0.0.1") -> bytes:
        """Send bytes from an address; return the answer, empty if the connection is closed without one."""
        address = ("127.0.0.1", self.port)
        with socket.create_connection(address, timeout=10, source_address=(source, 0)) as connection:
            answer = b""
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)
                while part := connection.recv(1 << 16):
                    answer += part
            return answer


@contextlib.contextmanager
def served(registry: CollectorRegistry, documents: Documents = NONE) -> Iterator[Served]:
    """Yield a server that threads serve."""
    found = Served(registry, documents)
    thread = threading.Thread(target=found.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        found.server.server_close()
        thread.join()
