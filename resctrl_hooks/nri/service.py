"""One connection's conversation: register, Configure, Synchronize, then events, until the runtime hangs up.

Both dialects of lifecycle events are served: up to NRI 0.11 they are StateChange with a number, since 0.12 a call for
each. What nothing is done for is answered at once; the others are served by a child each (`workers`). Synchronize is
answered at once too, since its two seconds are for the whole node, and the work is done afterwards.
"""

import select
import time

from . import ttrpc
from .protobuf import WireError, decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from ..node.host.notify import Notify
    from .connection import Connection
    from .workers import Workers

    Served = tuple[int, bytes, bytes]
    """A status code; the answer's payload, or why it is refused; an UpdateContainers for afterwards."""

    class Plugin(Protocol):
        """What a service serves: what is done, and what is told."""

        name: str
        index: str

        def configure(self, request: "dict[str, Any]") -> None:
            """Takes what the runtime says of itself, and a configuration that came with it."""

        def serves(self, event: str, payload: bytes) -> bool:
            """Whether there is anything to do on an event; ``event`` is its name as `serve` takes it."""

        def serve(self, event: str, payload: bytes) -> "Served":
            """Serves one event, in a child."""

        def synchronize(self, parts: "list[bytes]") -> "Served":
            """Makes the node agree with what the runtime has, in a child."""

        def limit(self, timeout: float) -> float:
            """How long an event that the runtime gives so many seconds may take before its child is killed."""

        def served(self, event: str, payload: bytes, seconds: float, code: "int | None") -> None:
            """Counts an event: 0 is served, None that its child came to nothing."""

        def refusal(self, event: str, payload: bytes) -> str:
            """Why a container is refused of whose event no child has made anything; empty where it goes on."""

        def updated(self, why: str) -> None:
            """The runtime has answered an UpdateContainers: why it could not be done, or nothing."""

        def connected(self) -> None:
            """The runtime has registered and configured this plugin."""


NRI_VERSION = "v0.12.0"
ALL_EVENTS = 0x7FF
"""Event 1 to 11 (a bit each): all that every version of NRI takes."""

# The events by the number that StateChange gives them; direct calls have these names.
EVENTS = (
    "",
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "StopContainer",
    "RemoveContainer",
)
SYNCHRONIZE = "Synchronize"
_REGISTRATION = 5.0  # seconds that a runtime may take to configure us
_SYNCHRONIZE_LIMIT = 600.0
_UPDATE = "UpdateContainers"
_HEAD = 4  # bytes of a child's answer that say how long the event's is in it
_MOST_PARTS = 64 << 20  # bytes of a node's containers that Synchronize may tell


class RegistrationError(Exception):
    """The runtime does not take this plugin; its words."""


class Service:
    """Serves a plugin on a connection."""

    def __init__(self, connection: "Connection", plugin: "Plugin", workers: "Workers", notify: "Notify") -> None:
        self._connection = connection
        self._plugin = plugin
        self._workers = workers
        self._notify = notify
        self._parts: "list[bytes]" = []
        self._registered = self._configured = False
        self._open = True
        self._updates: "list[bytes]" = []
        self._calls: "dict[int, str]" = {}
        self._methods: "dict[str, Callable[[int, bytes, float], None]]" = {
            "Configure": self._configure,
            SYNCHRONIZE: self._synchronize,
            "Shutdown": self._shutdown,
            "StateChange": self._state_change,
        }

    def run(self, until: "Callable[[], bool]") -> None:
        """Registers and serves, for as long as ``until`` is false.

        Raises:
            ClosedError: the runtime hung up.
            WireError: it does not speak the protocol.
            RegistrationError: it does not take this plugin.
        """
        fields = {"plugin_name": self._plugin.name, "plugin_idx": self._plugin.index, "NRI_version": NRI_VERSION}
        self._call("RegisterPlugin", encode("RegisterPluginRequest", fields))
        begun = time.monotonic()
        try:
            while not until():
                waiting = select.poll()
                descriptors = self._workers.descriptors()
                for fd in (self._connection.fileno(), *descriptors):
                    waiting.register(fd, select.POLLIN)
                ready = [fd for fd, _ in waiting.poll(self._patience(begun))]
                self._workers.collect([fd for fd in ready if fd in descriptors])
                if self._connection.fileno() in ready:
                    for message in self._connection.read():
                        self._take(message)
                if not (self._registered and self._configured) and time.monotonic() - begun > _REGISTRATION:
                    raise RegistrationError("the runtime did not configure this plugin in time")
                self._send_updates()
        finally:
            self._open = False

    def _patience(self, begun: float) -> int:
        """Milliseconds until there is something to do without anybody's saying so."""
        now = time.monotonic()
        seconds = min(self._notify.alive(), self._workers.next_limit() - now)
        if not (self._registered and self._configured):
            seconds = min(seconds, begun + _REGISTRATION - now)
        return max(0, int(min(seconds, 60.0) * 1000) + 1)

    def _take(self, message: ttrpc.Message) -> None:
        if message.kind == ttrpc.RESPONSE:
            self._take_response(message)
            return
        asked = ttrpc.decode_request(message)
        method: str = asked["method"]
        handler = self._methods.get(method)
        timeout = asked["timeout_nano"] / 1e9
        if handler is not None:
            handler(message.stream, asked["payload"], timeout)
        elif method in EVENTS:
            self._event(method, message.stream, asked["payload"], timeout)
        else:
            self._connection.answer(message.stream, code=ttrpc.UNIMPLEMENTED, message=f"no {method[:80]} here")

    def _take_response(self, message: ttrpc.Message) -> None:
        code, words, _ = ttrpc.decode_response(message)
        method = self._calls.pop(message.stream, "")
        if method == _UPDATE:
            self._plugin.updated(words or f"status {code}" if code else "")
        if method == "RegisterPlugin":
            if code:
                raise RegistrationError(words or f"status {code}")
            self._registered = True
            self._greet()

    def _configure(self, stream: int, payload: bytes, timeout: float) -> None:
        self._plugin.configure(decode("ConfigureRequest", payload))
        self._connection.answer(stream, encode("ConfigureResponse", {"events": ALL_EVENTS}))
        self._configured = True
        self._greet()

    def _greet(self) -> None:
        if self._registered and self._configured:  # in any order: Configure may overtake the answer
            self._plugin.connected()

    def _synchronize(self, stream: int, payload: bytes, timeout: float) -> None:
        more = decode("SynchronizeRequestHead", payload).get("more", False)
        self._parts.append(payload)
        if sum(map(len, self._parts)) > _MOST_PARTS:
            raise WireError(f"Synchronize tells more than {_MOST_PARTS} bytes")
        self._connection.answer(stream, encode("SynchronizeResponse", {"more": True} if more else {}))
        if not more:
            parts, self._parts = self._parts, []
            self._fork(SYNCHRONIZE, b"", lambda: self._plugin.synchronize(parts), _SYNCHRONIZE_LIMIT, None)

    def _shutdown(self, stream: int, payload: bytes, timeout: float) -> None:
        self._connection.answer(stream)

    def _state_change(self, stream: int, payload: bytes, timeout: float) -> None:
        number = decode("StateChangeHead", payload).get("event", 0)
        event = EVENTS[number] if 0 < number < len(EVENTS) else ""
        if not event:
            self._connection.answer(stream)  # of a newer NRI: it didn't ask whether we know it
            return
        self._event(event, stream, payload, timeout, state_change=True)

    def _event(self, event: str, stream: int, payload: bytes, timeout: float, *, state_change: bool = False) -> None:
        name = f"{event}:StateChange" if state_change else event
        if not self._plugin.serves(name, payload):
            self._connection.answer(stream)
            return
        self._fork(event, payload, lambda: self._plugin.serve(name, payload), self._plugin.limit(timeout), stream)

    def _fork(
        self, event: str, asked: bytes, serve: "Callable[[], Served]", limit: float, stream: "int | None"
    ) -> None:
        begun = time.monotonic()

        def in_child() -> "tuple[int, bytes]":
            code, payload, others = serve()
            return code, len(payload).to_bytes(_HEAD, "big") + payload + others

        def done(code: "int | None", answer: bytes) -> None:
            self._plugin.served(event, asked, time.monotonic() - begun, code)
            if not self._open:
                return  # the runtime has forgotten what it asked on an earlier connection
            end = _HEAD + int.from_bytes(answer[:_HEAD], "big")
            payload, others = answer[_HEAD:end], answer[end:]
            if others:
                self._updates.append(others)
            if stream is None:
                return
            if code is None:
                payload = self._plugin.refusal(event, asked).encode()
                code = ttrpc.UNKNOWN if payload else ttrpc.OK
            if code:
                self._connection.answer(stream, code=code, message=payload.decode("utf-8", "replace"))
            else:
                self._connection.answer(stream, payload)

        try:
            self._workers.start(in_child, limit, done)
        except OSError:
            done(None, b"")

    def _send_updates(self) -> None:
        """Sends what must be updated outside of any event: from inside of one the runtime would wait for itself.

        One after the other, so that a container ends with what was said last.
        """
        if self._updates and _UPDATE not in self._calls.values():
            self._call(_UPDATE, self._updates.pop(0))

    def _call(self, method: str, payload: bytes) -> None:
        self._calls[self._connection.call(method, payload)] = method
