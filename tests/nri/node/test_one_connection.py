"""A service step by step in this process: its messages, its limits, and its answers to a runtime."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nri.node.fake_runtime import PLUGIN_SERVICE
from resctrl_hooks.nri.node import connection as connection_module
from resctrl_hooks.nri.node import multiplexer, ttrpc
from resctrl_hooks.nri.node import resident as resident_module
from resctrl_hooks.nri.node import service as module
from resctrl_hooks.nri.node.connection import SERVICE, ClosedError, Connection
from resctrl_hooks.nri.node.event import EVENTS
from resctrl_hooks.nri.node.protobuf import WireError, encode
from resctrl_hooks.nri.node.resident import Resident
from resctrl_hooks.nri.node.service import RegistrationError, ResubscribeError, Service
from resctrl_hooks.nri.node.worker import NOT_YET, pack

Sent = tuple[str, Any]


class Runtime:
    """The connection, the workers, the plugin and the gap of a service: they record its calls."""

    name, index = "stub", "90"

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.jobs: list[tuple[str, bytes, float, bool]] = []
        self.done: list[Callable[[int | None, bytes], None]] = []
        self.told: list[Any] = []
        self.served_events: list[Any] = []
        self.events = 0x7F
        self.busy = self.broken = False
        self.stream = -1
        self.now = 100.0
        self.alive_for = 60.0

    # the connection

    def fileno(self) -> int:
        return 0

    def call(self, method: str, payload: bytes) -> int:
        self.stream += 2
        self.sent.append((method, payload))
        return self.stream

    def answer(self, stream: int, payload: bytes = b"", code: int = 0, message: str = "") -> None:
        self.sent.append((str(stream), (code, message, payload)))

    # the plugin

    def configure(self, request: dict[str, Any]) -> None:
        self.told.append(request)

    def subscription(self) -> int:
        return self.events

    def generation(self) -> int:
        return 3

    def serves(self, event: str, payload: bytes) -> bool:
        return payload != b"nothing"

    def limit(self, timeout: float) -> float:
        return timeout / 2

    def served(self, event: str, payload: bytes, seconds: float, code: int | None) -> None:
        self.served_events.append((event, payload, seconds, code))

    def refusal(self, event: str, payload: bytes) -> str:
        return "refused" if event == "CreateContainer" else ""

    def updated(self, why: str) -> None:
        self.told.append(f"updated {why}")

    def connected(self) -> None:
        self.told.append("connected")

    def log(self, priority: int, message: str, **fields: str) -> None:
        self.told.append(message.partition(" is ")[2].partition(";")[0])

    def synchronize(self, parts: list[bytes], reply: Any) -> None:
        self.told.append(parts)

    # the workers

    def ask(self, event: str, payload: bytes, generation: int, seconds: float, done: Any, *, answered: bool) -> None:
        assert generation == 3
        if self.broken:
            raise OSError
        self.jobs.append((event, payload, seconds, answered))
        self.done.append(done)

    def start(self, serve: Any, seconds: float, done: Any) -> None:
        if self.broken:
            raise OSError
        serve(None)
        self.jobs.append(("start", b"", seconds, False))
        self.done.append(done)

    def is_busy(self) -> bool:
        return self.busy

    # the watchdog and the gap

    def alive(self) -> float:
        return self.alive_for

    def open(self, *, connected: bool) -> None:
        self.told.append(f"gap open {connected}")

    def close(self) -> None:
        self.told.append("gap closed")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    found = Runtime()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


@pytest.fixture
def service(runtime: Runtime) -> Service:
    parts: Any = runtime
    return Service(parts, parts, parts, parts, parts)


def asked(method: str, payload: bytes = b"", timeout: float = 2.0, stream: int = 7) -> ttrpc.Message:
    return ttrpc.Message(stream, ttrpc.REQUEST, ttrpc.request(stream, PLUGIN_SERVICE, method, payload, timeout)[10:])


def answered(stream: int, code: int = 0, words: str = "") -> ttrpc.Message:
    return ttrpc.Message(stream, ttrpc.RESPONSE, ttrpc.response(stream, b"", code, words)[10:])


def registered(service: Service, runtime: Runtime) -> None:
    """Register and configure."""
    service._call("RegisterPlugin", b"")
    service._take(answered(1))
    service._take(asked("Configure"))
    runtime.sent.clear()
    runtime.told.clear()


OK = (0, "", b"")


@pytest.mark.parametrize("configured_first", [True, False])
def test_plugin_is_connected_when_registered_and_configured(
    service: Service, runtime: Runtime, configured_first: bool
) -> None:
    service._call("RegisterPlugin", b"")
    steps = [answered(1), asked("Configure", encode("ConfigureRequest", {"config": "x"}))]
    for number, step in enumerate(reversed(steps) if configured_first else steps):
        service._take(step)
        assert ("connected" in runtime.told) is bool(number)
    assert {"config": "x"} in runtime.told
    assert runtime.told[-2:] == ["connected", "gap open True"]
    assert runtime.sent[-1] == ("7", (0, "", encode("ConfigureResponse", {"events": 0x7F})))


def test_configuration_after_the_list_opens_no_gap(service: Service, runtime: Runtime) -> None:
    registered(service, runtime)
    service._take(asked("Synchronize"))
    runtime.told.clear()
    service._take(asked("Configure"))
    assert runtime.told == [{}, "connected"]


@pytest.mark.parametrize("words, why", [("no", "no"), ("", "status 2")])
def test_rejected_registration_ends_the_service(service: Service, words: str, why: str) -> None:
    service._call("RegisterPlugin", b"")
    with pytest.raises(RegistrationError, match=f"^{why}$"):
        service._take(answered(1, 2, words))


def test_answer_without_a_call_is_ignored(service: Service, runtime: Runtime) -> None:
    service._take(answered(9, 2, "no"))
    assert runtime.told == []


@pytest.mark.parametrize("code, words, said", [(0, "", ""), (2, "no", "no"), (2, "", "status 2")])
def test_updates_are_sent_one_after_the_other(
    service: Service, runtime: Runtime, code: int, words: str, said: str
) -> None:
    service._updates += [b"first", b"second"]
    service._send_updates()
    service._send_updates()
    assert runtime.sent == [("UpdateContainers", b"first")]
    service._take(answered(1, code, words))
    assert runtime.told == [f"updated {said}"]
    service._send_updates()
    assert runtime.sent[1:] == [("UpdateContainers", b"second")]
    assert service._updates == []


def test_event_is_answered_by_its_process(service: Service, runtime: Runtime) -> None:
    service._take(asked("StartContainer", b"x", timeout=3))
    assert (runtime.jobs, runtime.sent) == ([("StartContainer", b"x", 1.5, False)], [])
    runtime.now += 0.25
    runtime.done[0](0, pack(b"answer", b"update"))
    assert runtime.sent == [("7", (0, "", b"answer"))]
    assert runtime.served_events == [("StartContainer", b"x", 0.25, 0)]
    assert service._updates == [b"update"]


@pytest.mark.parametrize(
    "event, code, answer, sent",
    [
        ("StartContainer", 2, pack(b"a reason", b""), (2, "a reason", b"")),
        ("StartContainer", NOT_YET, pack(b"", b""), OK),
        ("StartContainer", None, b"", OK),
        ("CreateContainer", None, b"", (2, "refused", b"")),
    ],
)
def test_failure_is_answered_as_the_plugin_decides(
    service: Service, runtime: Runtime, event: str, code: int | None, answer: bytes, sent: Any
) -> None:
    service._take(asked(event, b"x"))
    runtime.done[0](code, answer)
    assert runtime.sent == [("7", sent)]
    assert runtime.served_events[0][3] == code
    assert service._updates == []


@pytest.mark.parametrize(
    "event, first", [("StopContainer", True), ("RemovePodSandbox", True), ("StartContainer", False)]
)
def test_end_is_answered_before_its_work(service: Service, runtime: Runtime, event: str, first: bool) -> None:
    service._take(asked(event, b"x"))
    assert runtime.sent == ([("7", OK)] if first else [])
    assert runtime.jobs[0][3] is first
    runtime.done[0](0, pack(b"", b""))
    assert runtime.sent == [("7", OK)]


def test_event_without_work_is_answered_at_once(service: Service, runtime: Runtime) -> None:
    service._take(asked("StartContainer", b"nothing"))
    assert (runtime.sent, runtime.jobs, runtime.served_events) == ([("7", OK)], [], [])


def test_event_without_a_process_is_answered_as_failed(service: Service, runtime: Runtime) -> None:
    runtime.broken = True
    service._take(asked("CreateContainer", b"x"))
    assert runtime.sent == [("7", (2, "refused", b""))]
    service._take(asked("Synchronize", encode("SynchronizeRequest", {})))
    assert runtime.served_events[-1][0] == "Synchronize"
    assert runtime.served_events[-1][3] is None


def test_event_of_a_closed_connection_is_counted_and_not_answered(service: Service, runtime: Runtime) -> None:
    service._take(asked("StartContainer", b"x"))
    service.run(lambda: True)
    runtime.sent.clear()
    runtime.done[0](0, pack(b"answer", b""))
    assert runtime.sent == []
    assert len(runtime.served_events) == 1


@pytest.mark.parametrize("is_configured", [True, False])
def test_service_registers_and_its_end_opens_a_gap(service: Service, runtime: Runtime, is_configured: bool) -> None:
    if is_configured:
        registered(service, runtime)
    service.run(lambda: True)
    fields = {"plugin_name": "stub", "plugin_idx": "90", "NRI_version": "v0.12.0"}
    assert runtime.sent == [("RegisterPlugin", encode("RegisterPluginRequest", fields))]
    assert runtime.told == (["gap open False"] if is_configured else [])


@pytest.mark.parametrize("number", [0, 12, -1])
def test_unknown_state_change_is_answered(service: Service, runtime: Runtime, number: int) -> None:
    service._take(asked("StateChange", encode("StateChangeEvent", {"event": number})))
    assert (runtime.sent, runtime.jobs) == ([("7", OK)], [])


def test_state_change_without_a_number_is_answered(service: Service, runtime: Runtime) -> None:
    service._take(asked("StateChange"))
    assert (runtime.sent, runtime.jobs) == ([("7", OK)], [])


@pytest.mark.parametrize("number", [1, 6, 11])
def test_state_change_is_the_event_of_its_number(service: Service, runtime: Runtime, number: int) -> None:
    payload = encode("StateChangeEvent", {"event": number})
    service._take(asked("StateChange", payload))
    assert runtime.jobs[0][:2] == (f"{EVENTS[number]}:StateChange", payload)


def test_other_methods_are_answered(service: Service, runtime: Runtime) -> None:
    service._take(asked("Shutdown"))
    service._take(asked("X" * 100))
    assert runtime.sent == [("7", OK), ("7", (12, f"unknown method {'X' * 80}", b""))]


def test_list_in_parts_is_served_after_the_last_one(service: Service, runtime: Runtime) -> None:
    more = encode("SynchronizeRequest", {"more": True})
    service._take(asked("Synchronize", more))
    assert runtime.sent == [("7", (0, "", encode("SynchronizeResponse", {"more": True})))]
    assert runtime.jobs == []
    service._take(asked("Synchronize"))
    assert runtime.sent[1:] == [("7", OK)]
    assert runtime.told == ["gap closed", [more, b""]]
    assert runtime.jobs[0][2] > 60
    runtime.done[0](0, pack(b"", b"update"))
    assert (service._updates, runtime.sent[2:]) == ([b"update"], [])
    service._take(asked("Synchronize"))
    assert runtime.told[-1] == [b""], "a later list is another one"


def test_list_above_the_limit_is_cut_and_later_events_are_served(
    service: Service, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = encode("SynchronizeRequest", {"more": True})
    registered(service, runtime)
    monkeypatch.setattr(module, "_MOST_PARTS", len(more))
    for _ in range(2):
        runtime.told.clear()
        for part in (more, more, more, encode("SynchronizeRequest", {"containers": [{"id": "a"}]})):
            service._take(asked("Synchronize", part))
        assert runtime.told == ["larger than 0 MiB", "gap closed", [more]]
    service._take(asked("StartContainer", b"x"))
    assert runtime.jobs[-1][0] == "StartContainer"


def test_patience_ends_with_the_first_scheduled_work(service: Service, runtime: Runtime) -> None:
    assert service._patience(runtime.now) == 2, "another look at the settings"
    assert service._patience(runtime.now - 4.5) == 0.5, "the end of registration"
    registered(service, runtime)
    assert service._patience(0) == 0.5, "a look before Synchronize"
    service._take(asked("Synchronize"))
    assert service._patience(0) == 2
    runtime.alive_for = 0.25
    assert service._patience(0) == 0.25


def test_runtime_that_does_not_configure_is_left(service: Service, runtime: Runtime) -> None:
    service._look_around(runtime.now - 4.9)
    with pytest.raises(RegistrationError, match="did not configure this plugin in time"):
        service._look_around(runtime.now - 5.1)
    registered(service, runtime)
    service._look_around(0)


@pytest.mark.parametrize("busy", [True, False])
def test_other_events_are_subscribed_when_nothing_is_served(service: Service, runtime: Runtime, busy: bool) -> None:
    registered(service, runtime)
    runtime.events, runtime.busy = 0x3F, busy
    if busy:
        service._look_around(0)
        return
    with pytest.raises(ResubscribeError):
        service._look_around(0)


# The socket


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a connection and the runtime's end of it."""
    monkeypatch.setattr(connection_module, "_PATIENCE", 0.05)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        ours = Connection(str(tmp_path / "s"))
        theirs, _ = listener.accept()
        with theirs:
            yield ours, theirs
        ours.close()


def test_calls_have_odd_streams_and_reach_the_runtime(pair: Any) -> None:
    ours, theirs = pair
    assert [ours.call("A", b"x"), ours.call("B", b"")] == [1, 3]
    ours.answer(9, b"y")
    data = theirs.recv(4096)
    frames = list(multiplexer.Demultiplexer().feed(data))
    assert [number for number, _ in frames] == [2, 2, 1]
    (first,) = ttrpc.Messages().feed(frames[0][1])
    said = ttrpc.decode_request(first)
    assert (first.stream, said["service"], said["method"], said["payload"]) == (1, SERVICE, "A", b"x")
    assert said["timeout_nano"] == 10_000_000_000
    (last,) = ttrpc.Messages().feed(frames[2][1])
    assert (last.stream, ttrpc.decode_response(last)) == (9, (0, "", b"y"))
    assert ours.fileno() > 2


@pytest.mark.parametrize(
    "number, kind, is_valid",
    [(1, ttrpc.REQUEST, True), (2, ttrpc.RESPONSE, True), (1, ttrpc.RESPONSE, False), (2, 1, False)],
)
def test_requests_and_answers_have_connections_of_their_own(pair: Any, number: int, kind: int, is_valid: bool) -> None:
    ours, theirs = pair
    theirs.sendall(multiplexer.frames_of(number, ttrpc.Message(5, kind, b"x").encoded()))
    if is_valid:
        ((message),) = ours.read()
        assert (message.stream, message.kind, message.payload) == (5, kind, b"x")
        return
    with pytest.raises(WireError, match=f"a message of type {kind} received on connection {number}"):
        list(ours.read())


def test_end_and_silence_of_the_runtime_close_the_connection(pair: Any) -> None:
    ours, theirs = pair
    with pytest.raises(ClosedError, match="reading failed: timed out"):
        list(ours.read())
    with pytest.raises(ClosedError, match="writing failed: timed out"):
        ours.call("A", b"x" * 10_000_000)
    theirs.close()
    with pytest.raises(ClosedError, match="writing failed: Broken pipe"):
        ours.call("A", b"")


def test_connection_that_was_closed_is_named(pair: Any) -> None:
    ours, theirs = pair
    theirs.close()
    with pytest.raises(ClosedError, match="the runtime closed the connection"):
        list(ours.read())


def test_missing_socket_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        Connection(str(tmp_path / "none"))
    assert len(os.listdir("/proc/self/fd")) == before


# Between connections


def test_pauses_double_up_to_a_second_and_reset_after_a_long_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    now = [0.0]
    plugin: Any = SimpleNamespace(dropped=said.append, adopt=None)
    notify: Any = lambda **fields: said.append(fields)  # noqa: E731  # it has a method too
    resident = Resident("/x", plugin, notify)
    lasting = [0, 0, 0, 0, 0, 10, 11, 0]
    pauses: list[float] = []

    def serve(_: Any) -> str:
        now[0] += lasting.pop(0)
        return "ended"

    def wait(pause: float, _: Any) -> None:
        pauses.append(pause)
        if not lasting:
            resident._end()

    monkeypatch.setattr(resident_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(resident_module, "signal", lambda *_: None)
    monkeypatch.setattr(resident, "_serve", serve)
    monkeypatch.setattr(resident, "_wait", wait)
    resident.run(plugin)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 0.1, 0.2]
    assert said[:3] == ["ended", {"READY": "1"}, "ended"]
    assert said.count({"READY": "1"}) == 1
    assert said[-1] == {"STOPPING": "1"}


def test_connection_that_is_to_follow_at_once_is_no_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    plugin: Any = SimpleNamespace(dropped=said.append, adopt=None)
    resident = Resident("/x", plugin, lambda **_: None)  # type: ignore[arg-type]
    reasons = ["", ""]

    def serve(_: Any) -> str:
        if not reasons:
            resident._end()
            return "shutting down"
        return reasons.pop()

    monkeypatch.setattr(resident_module, "signal", lambda *_: None)
    monkeypatch.setattr(resident, "_serve", serve)
    resident.run(plugin)
    assert said == ["shutting down"]


@pytest.mark.parametrize(
    "error, why",
    [
        (ClosedError("closed"), "closed"),
        (WireError("no protocol"), "no protocol"),
        (RegistrationError("no"), "the runtime rejected this plugin: no"),
        (ResubscribeError("other events"), ""),
        (None, "shutting down"),
    ],
)
def test_end_of_a_connection_has_its_reason(monkeypatch: pytest.MonkeyPatch, error: Exception | None, why: str) -> None:
    closed: list[bool] = []
    plugin: Any = SimpleNamespace(adopt=None)
    resident = Resident("/x", plugin, plugin)

    def run(until: Callable[[], bool]) -> None:
        assert until() is False
        if error is not None:
            raise error

    opened = SimpleNamespace(close=lambda: closed.append(True))
    monkeypatch.setattr(resident_module, "Connection", lambda _: opened)
    monkeypatch.setattr(resident_module, "Service", lambda *_: SimpleNamespace(run=run))
    assert resident._serve(plugin) == why
    assert closed == [True]
    resident.close()
    assert closed == [True], "there is no connection to close"


def test_missing_runtime_is_named(tmp_path: Path) -> None:
    plugin: Any = SimpleNamespace(adopt=None)
    assert Resident(f"{tmp_path}/s", plugin, plugin)._serve(plugin) == f"{tmp_path}/s: No such file or directory"


def test_children_are_looked_after_between_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child's answer ends the wait for it, and the watchdog is served."""
    now = [0]
    waits: list[float] = []
    passes: list[bool] = []
    plugin: Any = SimpleNamespace(adopt=None)
    notify: Any = SimpleNamespace(alive=lambda: 10)
    resident = Resident("/x", plugin, notify)

    def wait(seconds: int) -> None:
        now[0] += seconds if waits else 4
        waits.append(seconds)

    workers: Any = SimpleNamespace(wait=wait)
    monkeypatch.setattr(resident_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(resident, "_gap", SimpleNamespace(serve=lambda _: passes.append(True)))
    resident._wait(25, workers)
    assert waits == [10, 10, 10, 1]
    assert len(passes) == len(waits)
    resident._end()
    resident._wait(60, workers)
    assert len(waits) == 4
