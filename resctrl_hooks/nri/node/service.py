"""One connection: register, Configure, Synchronize, then events, until the runtime closes it.

Both dialects of lifecycle events are served: up to NRI 0.11 StateChange with a number, since 0.12 a call for each.
Events without work are answered at once. So are ends, which nothing can refuse, and Synchronize, whose two seconds are
for the whole node. Other processes (`workers`) do the work.
"""

import time

from ...core.node.log import WARNING
from . import ttrpc
from .event import ENDS, EVENTS, SYNCHRONIZE
from .protobuf import decode, encode
from .worker import NOT_YET, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.node.host.notify import Notify
    from .connection import Connection
    from .gap import Gap
    from .plugin import NodePlugin
    from .worker import Done
    from .workers import Workers

NRI_VERSION = "v0.12.0"

_REGISTRATION = 5.0  # seconds that a runtime may take to configure us
_SYNCHRONIZE_LIMIT = 600.0
_UPDATE = "UpdateContainers"
_LOOK_AGAIN = 2.0  # seconds after which settings that need other events are noticed without an event
_SOON = 0.5  # seconds between two looks before Synchronize
_MOST_PARTS = 64 << 20  # bytes of a node's containers that Synchronize may list


class RegistrationError(Exception):
    """The runtime does not take this plugin; its words."""


class ResubscribeError(Exception):
    """The settings need other events than those that this connection has subscribed to."""


class Service:
    """Serves a plugin on a connection."""

    def __init__(
        self, connection: "Connection", plugin: "NodePlugin", workers: "Workers", notify: "Notify", gap: "Gap"
    ) -> None:
        self._connection = connection
        self._gap = gap
        self._plugin = plugin
        self._workers = workers
        self._notify = notify
        self._parts: "list[bytes]" = []
        self._is_cut = False
        self._registered = self._configured = self._synchronized = False
        self._subscribed = 0
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
        """Register and serve, for as long as ``until`` is false.

        Raises:
            ClosedError: the runtime closed the connection.
            WireError: it does not speak the protocol.
            RegistrationError: it does not take this plugin.
            ResubscribeError: the plugin needs other events, and nothing is being served.
        """
        fields = {"plugin_name": self._plugin.name, "plugin_idx": self._plugin.index, "NRI_version": NRI_VERSION}
        self._call("RegisterPlugin", encode("RegisterPluginRequest", fields))
        begun = time.monotonic()
        try:
            own = self._connection.fileno()
            while not until():
                ready = self._workers.wait(self._patience(begun), own)
                if own in ready:
                    for message in self._connection.read():
                        self._take(message)
                if not (ready and self._registered and self._configured):
                    self._look_around(begun)
                if self._updates:
                    self._send_updates()
                if self._configured:
                    self._workers.prepare(self._plugin.generation())
                self._gap.serve(self._workers)
        finally:
            self._open = False
            if self._configured:
                self._gap.open(connected=False)

    def _patience(self, begun: float) -> float:
        """Return the seconds until the next scheduled work."""
        seconds = min(self._notify.alive(), _LOOK_AGAIN)
        if not (self._registered and self._configured):
            seconds = min(seconds, begun + _REGISTRATION - time.monotonic())
        elif not self._synchronized:
            seconds = min(seconds, _SOON)
        return seconds

    def _look_around(self, begun: float) -> None:
        """Look, while nothing happens, whether the runtime has configured us, and whether we need other events."""
        if not (self._registered and self._configured):
            if time.monotonic() - begun > _REGISTRATION:
                raise RegistrationError("the runtime did not configure this plugin in time")
        elif self._plugin.subscription() != self._subscribed and not self._workers.is_busy():
            raise ResubscribeError("the settings require other events")

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
            self._connection.answer(message.stream, code=ttrpc.UNIMPLEMENTED, message=f"unknown method {method[:80]}")

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
        self._subscribed = self._plugin.subscription()
        self._connection.answer(stream, encode("ConfigureResponse", {"events": self._subscribed}))
        self._configured = True
        self._greet()

    def _greet(self) -> None:
        if self._registered and self._configured:  # in any order: Configure may overtake the answer
            self._plugin.connected()
            if not self._synchronized:
                self._gap.open(connected=True)

    def _synchronize(self, stream: int, payload: bytes, timeout: float) -> None:
        more = decode("SynchronizeRequest", payload, head=True).get("more", False)
        if sum(map(len, self._parts)) + len(payload) <= _MOST_PARTS:
            self._parts.append(payload)
        elif not self._is_cut:  # without an answer the runtime would send no events; pods can have megabytes each
            self._is_cut = True
            what = f"the runtime's list of containers is larger than {_MOST_PARTS >> 20} MiB"
            self._plugin.log(WARNING, f"{what}; the others are adopted without it", reason="oversized")
        self._connection.answer(stream, encode("SynchronizeResponse", {"more": True} if more else {}))
        if not more:
            parts, self._parts, self._is_cut = self._parts, [], False
            self._synchronized = True
            self._gap.close()
            done = self._done(SYNCHRONIZE, b"", None)
            try:
                self._workers.start(lambda reply: self._plugin.synchronize(parts, reply), _SYNCHRONIZE_LIMIT, done)
            except OSError:
                done(None, b"")

    def _shutdown(self, stream: int, payload: bytes, timeout: float) -> None:
        self._connection.answer(stream)

    def _state_change(self, stream: int, payload: bytes, timeout: float) -> None:
        number = decode("StateChangeNumber", payload).get("event", 0)
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
        first = event in ENDS
        if first:
            self._connection.answer(stream)
        done = self._done(name, payload, None if first else stream)
        try:
            limit = self._plugin.limit(timeout)
            self._workers.ask(name, payload, self._plugin.generation(), limit, done, answered=first)
        except OSError:
            done(None, b"")

    def _done(self, event: str, asked: bytes, stream: "int | None") -> "Done":
        """Handle a process's answer to an event: the runtime gets it first."""
        begun = time.monotonic()

        def done(code: "int | None", answer: bytes) -> None:
            payload, others = unpack(answer)
            status = ttrpc.OK if code == NOT_YET else code
            if code is None:
                payload = self._plugin.refusal(event, asked).encode()
                status = ttrpc.UNKNOWN if payload else ttrpc.OK
            try:
                if stream is None or not self._open:
                    pass  # the runtime has dropped requests of an earlier connection
                elif status:
                    self._connection.answer(stream, code=status, message=payload.decode("utf-8", "replace"))
                else:
                    self._connection.answer(stream, payload)
            finally:
                self._plugin.served(event, asked, time.monotonic() - begun, code)
                if others:
                    self._updates.append(others)

        return done

    def _send_updates(self) -> None:
        """Send updates outside of events: inside of one the runtime would wait for itself.

        One after the other, so that the last one sent is the last one applied.
        """
        if _UPDATE not in self._calls.values():
            self._call(_UPDATE, self._updates.pop(0))

    def _call(self, method: str, payload: bytes) -> None:
        self._calls[self._connection.call(method, payload)] = method
