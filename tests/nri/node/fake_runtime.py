"""A runtime's side of NRI for tests, with correct and faulty behaviour."""

import os
import socket
from typing import Any

from resctrl_hooks.nri.node import multiplexer, ttrpc
from resctrl_hooks.nri.node.protobuf import decode, encode

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
Answer = tuple[int, str, bytes]
"""Status code, words, payload."""
PATIENCE = 60
"""Seconds: only so that a hang ends with a message."""


class Peer:
    """A plugin that has connected, as the runtime sees it."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(PATIENCE)
        self.socket = connected
        self._frames = multiplexer.Demultiplexer()
        self._joined = {multiplexer.PLUGIN: ttrpc.Messages(), multiplexer.RUNTIME: ttrpc.Messages()}
        self._ready: list[tuple[int, ttrpc.Message]] = []
        self._stream = -1

    def send(self, message: bytes, connection: int = multiplexer.PLUGIN) -> None:
        """Send a message."""
        self.socket.sendall(multiplexer.frames_of(connection, message))

    def receive(self) -> tuple[int, ttrpc.Message]:
        """Return the next message: connection and message.

        Raises:
            EOFError: the plugin hung up.
        """
        while not self._ready:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError
            for connection, payload in self._frames.feed(data):
                self._ready += [(connection, message) for message in self._joined[connection].feed(payload)]
        return self._ready.pop(0)

    def take_registration(self, code: int = 0, words: str = "") -> dict[str, Any]:
        """Read RegisterPlugin and answer it; return its content."""
        connection, message = self.receive()
        asked = ttrpc.decode_request(message)
        assert (connection, asked["method"]) == (multiplexer.RUNTIME, "RegisterPlugin")
        self.send(ttrpc.response(message.stream, b"", code, words), multiplexer.RUNTIME)
        return decode("RegisterPluginRequest", asked["payload"])

    def ask(self, method: str, payload: bytes = b"", timeout: float = 2.0) -> Answer:
        """Call the plugin: status code, words, payload of its answer."""
        self._stream += 2
        self.send(ttrpc.request(self._stream, PLUGIN_SERVICE, method, payload, timeout))
        connection, message = self.receive()
        assert (connection, message.stream) == (multiplexer.PLUGIN, self._stream)
        return ttrpc.decode_response(message)

    def configure(self, **fields: Any) -> dict[str, Any]:
        """Configure the plugin as containerd does; return its subscription."""
        told = {"runtime_name": "containerd", "runtime_version": "2.1.9", "request_timeout": 2000, **fields}
        code, words, payload = self.ask("Configure", encode("ConfigureRequest", told))
        assert not code, words
        return decode("ConfigureResponse", payload)

    def greet(self, **fields: Any) -> None:
        """All that comes before events, on a node where nothing runs."""
        self.take_registration()
        self.configure(**fields)
        assert self.ask("Synchronize", encode("SynchronizeRequest", {})) == (0, "", b"")

    def event(
        self, method: str, pod: dict[str, Any], container: dict[str, Any] | None = None
    ) -> tuple[int, str, bytes]:
        """Return a lifecycle event as NRI 0.12 has it."""
        message = {"pod": pod, **({"container": container} if container else {})}
        return self.ask(method, encode("ContainerEvent" if container else "PodEvent", message))

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


class FakeRuntime:
    """A socket on which plugins connect."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.settimeout(PATIENCE)
        self._listener.bind(path)
        self._listener.listen(8)
        self.peers: list[Peer] = []

    def accept(self) -> Peer:
        """Return the next plugin that connects."""
        self.peers.append(Peer(self._listener.accept()[0]))
        return self.peers[-1]

    def close(self) -> None:
        """End as a runtime does: its connections end with it, and its socket goes."""
        for peer in self.peers:
            peer.close()
        self._listener.close()
        if os.path.exists(self.path):
            os.unlink(self.path)
