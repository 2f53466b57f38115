"""A runtime's side of NRI for tests."""

import socket
from typing import Any

from resctrl_hooks.nri.node import multiplexer, ttrpc
from resctrl_hooks.nri.node.protobuf import decode, encode

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
Answer = tuple[int, str, bytes]
"""Status code, words, payload."""
PATIENCE = 60
"""Seconds: only so that a hang ends with a message."""


class FakeRuntime:
    """A socket on which a plugin connects, and the plugin as the runtime sees it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._socket = self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.settimeout(PATIENCE)
        self._listener.bind(path)
        self._listener.listen()
        self._frames = multiplexer.Demultiplexer()
        self._joined = {multiplexer.PLUGIN: ttrpc.Messages(), multiplexer.RUNTIME: ttrpc.Messages()}
        self._ready: list[tuple[int, ttrpc.Message]] = []
        self._stream = -1

    def accept(self) -> None:
        """Wait for the plugin; read its RegisterPlugin and answer it."""
        self._socket, _ = self._listener.accept()
        self._socket.settimeout(PATIENCE)
        connection, message = self.receive()
        assert (connection, ttrpc.decode_request(message)["method"]) == (multiplexer.RUNTIME, "RegisterPlugin")
        self.send(ttrpc.response(message.stream, b""), multiplexer.RUNTIME)

    def send(self, message: bytes, connection: int = multiplexer.PLUGIN) -> None:
        """Send a message."""
        self._socket.sendall(multiplexer.frames_of(connection, message))

    def receive(self) -> tuple[int, ttrpc.Message]:
        """Return the next message: connection and message."""
        while not self._ready:
            data = self._socket.recv(65536)
            assert data, "the plugin hung up"
            for connection, payload in self._frames.feed(data):
                self._ready += [(connection, message) for message in self._joined[connection].feed(payload)]
        return self._ready.pop(0)

    def ask(self, method: str, payload: bytes = b"") -> Answer:
        """Call the plugin: status code, words, payload of its answer."""
        self._stream += 2
        self.send(ttrpc.request(self._stream, PLUGIN_SERVICE, method, payload, 2.0))
        connection, message = self.receive()
        assert (connection, message.stream) == (multiplexer.PLUGIN, self._stream)
        return ttrpc.decode_response(message)

    def greet(self, **fields: Any) -> None:
        """Configure the plugin as containerd does, on a node where nothing runs."""
        told = {"runtime_name": "containerd", "runtime_version": "2.1.9", "request_timeout": 2000, **fields}
        code, words, payload = self.ask("Configure", encode("ConfigureRequest", told))
        assert not code, words
        assert decode("ConfigureResponse", payload)["events"]
        assert self.ask("Synchronize", encode("SynchronizeRequest", {})) == (0, "", b"")

    def event(self, method: str, pod: dict[str, Any], container: dict[str, Any] | None = None) -> Answer:
        """Call the plugin with a lifecycle event as NRI 0.12 has it."""
        message = {"pod": pod, **({"container": container} if container else {})}
        return self.ask(method, encode("ContainerEvent" if container else "PodEvent", message))

    def close(self) -> None:
        """End as a runtime does: its connections end with it."""
        self._socket.close()
        self._listener.close()
