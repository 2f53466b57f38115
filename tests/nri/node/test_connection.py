"""One connection step by step in this process, in any order of messages; its socket; and what is between two."""

import contextlib
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import examples
from hosts.descriptors import nothing_left_open
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nri.node.sessions import MESSAGES, PLUGIN_SERVICE, Sent
from resctrl_hooks.nri.node import connection as connection_module
from resctrl_hooks.nri.node import multiplexer, ttrpc
from resctrl_hooks.nri.node import service as module
from resctrl_hooks.nri.node.connection import SERVICE, ClosedError, Connection
from resctrl_hooks.nri.node.event import ENDS, EVENTS
from resctrl_hooks.nri.node.protobuf import WireError, encode
from resctrl_hooks.nri.node.service import RegistrationError, ResubscribeError, Service
from resctrl_hooks.nri.node.worker import NOT_YET, pack

OK, FAILED, REFUSED = (0, "", b""), (2, "a reason", b""), (2, "refused", b"")
MORE = encode("SynchronizeRequest", {"more": True})


class Runtime:
    """The connection, the workers, the plugin, the watchdog and the gap of a service: they record its calls."""

    name, index = "stub", "90"

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.calls: list[tuple[str, bytes]] = []
        self.jobs: list[tuple[str, bytes, float, bool]] = []
        self.done: list[Any] = []
        self.told: list[Any] = []
        self.served_events: list[Any] = []
        self.events, self.busy, self.broken = 0x7F, False, False
        self.now, self.alive_for = 100.0, 60.0
        self.configure = self.told.append
        self.connected = lambda: self.told.append("connected")
        self.updated = lambda why: self.told.append(f"updated {why}")
        self.synchronize = lambda parts, _: self.told.append(parts)
        self.close = lambda: self.told.append("gap closed")
        self.serves = lambda _, payload: b"nothing" not in payload
        self.served = lambda event, _, seconds, code: self.served_events.append((event, seconds, code))
        self.refusal = lambda event, _: "refused" if event == "CreateContainer" else ""
        self.subscription, self.generation = lambda: self.events, lambda: 3
        self.limit = lambda timeout: timeout / 2
        self.is_busy, self.alive = lambda: self.busy, lambda: self.alive_for
        self.fileno = lambda: 0

    def call(self, method: str, payload: bytes) -> int:
        self.calls.append((method, payload))
        return 2 * len(self.calls) - 1

    def answer(self, stream: int, payload: bytes = b"", code: int = 0, message: str = "") -> None:
        self.answers.append((stream, (code, message, payload)))

    def log(self, priority: int, message: str, **fields: str) -> None:
        self.told.append(message.partition(" is ")[2].partition(";")[0])

    def open(self, *, connected: bool) -> None:
        self.told.append(f"gap open {connected}")

    def ask(self, event: str, payload: bytes, generation: int, seconds: float, done: Any, *, answered: bool) -> None:
        assert generation == 3
        if self.broken:
            raise OSError
        self.jobs.append((event, payload, seconds, answered))
        self.done.append(done)

    def start(self, serve: Any, seconds: float, done: Any) -> None:
        if not self.broken:
            serve(None)
        self.ask("Synchronize", b"", 3, seconds, done, answered=True)


def service_of(runtime: Runtime, patch: pytest.MonkeyPatch) -> Service:
    parts: Any = runtime
    patch.setattr(module, "time", SimpleNamespace(monotonic=lambda: runtime.now))
    return Service(parts, parts, parts, parts, parts)


def asked(method: str, payload: bytes = b"", timeout: float = 2.0, stream: int = 7) -> ttrpc.Message:
    return ttrpc.Message(stream, ttrpc.REQUEST, ttrpc.request(stream, PLUGIN_SERVICE, method, payload, timeout)[10:])


def answered(stream: int, code: int = 0, words: str = "") -> ttrpc.Message:
    return ttrpc.Message(stream, ttrpc.RESPONSE, ttrpc.response(stream, b"", code, words)[10:])


OFTEN = st.sampled_from([True, True, True, False])


class AnyOrder(RuleBasedStateMachine):
    """A connection whose runtime and processes do anything in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.runtime = Runtime()
        self.stream = self.served = self.number = 0
        self.expected: dict[int, Any] = {}  # by request: what is sent, None where its process has not answered
        self.waiting: list[tuple[str, int | None, float, int]] = []  # event, request that waits, since when, connection
        self.open = False
        self.connect()

    def connect(self) -> None:
        self.service = service_of(self.runtime, self.patch)
        self.runtime.calls.clear()
        self.service._call("RegisterPlugin", b"")
        self.number += 1
        self.sent = 0
        self.parts: list[bytes] = []
        self.updates: list[bytes] = []
        self.registered = self.configured = False
        self.open = True

    def ask(self, method: str, payload: bytes = b"") -> int:
        if not self.open:
            self.connect()
        self.stream += 2
        self.runtime.told.clear()
        self.service._take(asked(method, payload, 3.0, self.stream))
        return self.stream

    @rule(answer=st.booleans())
    def greeting(self, *, answer: bool) -> None:
        if answer and self.open and not self.registered:
            self.runtime.told.clear()
            self.service._take(answered(1))
            self.registered = True
        else:
            stream = self.ask("Configure", encode("ConfigureRequest", {"config": "x"}))
            self.expected[stream] = (0, "", encode("ConfigureResponse", {"events": 0x7F}))
            assert self.runtime.told.pop(0) == {"config": "x"}
            self.configured = True
        told = ["connected"] if self.registered and self.configured else []
        assert self.runtime.told == told + (["gap open True"] if told and not self.service._synchronized else [])

    @rule(
        event=st.sampled_from(["CreateContainer", "StartContainer", "StopContainer", "RemovePodSandbox"]),
        needs_work=OFTEN, older=st.booleans(), broken=OFTEN.map(lambda often: not often),
    )  # fmt: skip
    def event(self, event: str, *, needs_work: bool, older: bool, broken: bool) -> None:
        self.runtime.broken = broken
        pod = {"pod": {"name": "x" if needs_work else "nothing"}}
        number = {"event": EVENTS.index(event)} if older else {}
        payload = encode("StateChangeEvent" if older else "ContainerEvent", {**number, **pod})
        jobs = len(self.runtime.jobs)
        stream = self.ask("StateChange" if older else event, payload)
        self.runtime.broken = False
        name, is_end = f"{event}:StateChange" if older else event, event in ENDS
        if not needs_work or is_end:
            self.expected[stream] = OK
        if not needs_work:
            assert len(self.runtime.jobs) == jobs
        elif broken:
            self.served += 1
            assert self.runtime.served_events[-1] == (name, 0.0, None)
            self.expected[stream] = OK if is_end or name != "CreateContainer" else REFUSED
        else:
            assert self.runtime.jobs[-1] == (name, payload, 1.5, is_end)
            self.waiting.append((name, None if is_end else stream, self.runtime.now, self.number))
            self.expected.setdefault(stream, None)

    @precondition(lambda self: self.waiting)
    @rule(
        place=st.integers(0, 99), code=st.sampled_from([0, 0, 0, NOT_YET, 2, None]),
        seconds=st.sampled_from([0.25, 2.0]), has_update=OFTEN,
    )  # fmt: skip
    def process_answers(self, place: int, code: int | None, seconds: float, *, has_update: bool) -> None:
        place %= len(self.waiting)
        name, stream, since, number = self.waiting.pop(place)
        done = self.runtime.done.pop(place)
        self.runtime.now += seconds
        update = b"update%d" % self.runtime.now if has_update and code == 0 else b""
        words = {0: b"answer", 2: b"a reason"}.get(code or 0, b"") if code != NOT_YET else b""
        done(code, b"" if code is None else pack(words, update))
        answers = {0: (0, "", b"answer"), NOT_YET: OK, 2: FAILED, None: REFUSED if name == "CreateContainer" else OK}
        is_current = self.open and number == self.number
        if stream is not None and is_current:
            self.expected[stream] = answers[code]
        self.updates += [update] if update and number == self.number else []
        self.served += 1
        assert self.runtime.served_events[-1] == (name, self.runtime.now - since, code)

    @rule(more=st.booleans(), broken=OFTEN.map(lambda often: not often))
    def synchronize(self, *, more: bool, broken: bool) -> None:
        payload = MORE if more else b""
        self.runtime.broken = broken
        stream = self.ask("Synchronize", payload)
        self.parts.append(payload)
        self.runtime.broken = False
        self.expected[stream] = (0, "", encode("SynchronizeResponse", {"more": True})) if more else OK
        if more:
            assert self.runtime.told == []
            return
        assert self.runtime.told == ["gap closed", *([] if broken else [self.parts])]
        self.parts = []
        if broken:
            self.served += 1
        else:
            assert self.runtime.jobs[-1][2] > 60
            self.waiting.append(("Synchronize", None, self.runtime.now, self.number))

    @precondition(lambda self: self.open and self.updates)
    @rule(code=st.sampled_from([0, 2]), words=st.sampled_from(["", "no"]))
    def updates_are_sent_one_after_the_other(self, code: int, words: str) -> None:
        for _ in range(2):
            if self.service._updates:
                self.service._send_updates()
        self.runtime.told.clear()
        if len(self.runtime.calls) > self.sent + 1:
            self.sent += 1
            assert self.runtime.calls[-1] == ("UpdateContainers", self.updates.pop(0))
            self.service._take(answered(2 * len(self.runtime.calls) - 1, code, words))
            assert self.runtime.told == [f"updated {(words or 'status 2') if code else ''}"]

    @rule(number=st.sampled_from([0, 12, -1, None]), method=st.sampled_from(["StateChange", "Shutdown", "X" * 100]))
    def call_or_answer_without_a_meaning(self, number: int | None, method: str) -> None:
        payload = b"" if number is None else encode("StateChangeEvent", {"event": number})
        self.expected[self.ask(method, payload)] = (12, f"unknown method {'X' * 80}", b"") if method[0] == "X" else OK
        self.service._take(answered(999, 2, "no"))
        assert self.runtime.told == []

    @precondition(lambda self: self.open and self.waiting)
    @rule()
    def connection_ends(self) -> None:
        """Requests of it are not answered any more; their work is counted."""
        self.runtime.told.clear()
        self.service.run(lambda: True)
        assert self.runtime.calls.pop()[0] == "RegisterPlugin"
        assert self.runtime.told == (["gap open False"] if self.configured else [])
        self.open = False

    @invariant()
    def each_request_has_one_answer_in_time_and_each_work_is_counted_once(self) -> None:
        sent = dict(self.runtime.answers)
        assert len(sent) == len(self.runtime.answers)
        assert sent == {stream: said for stream, said in self.expected.items() if said is not None}
        assert self.service._updates == self.updates
        assert len(self.runtime.served_events) == self.served

    def teardown(self) -> None:
        self.patch.undo()


TestAnyOrder = pytest.mark.hypothesis(AnyOrder.TestCase)
TestAnyOrder.settings = settings(max_examples=120, stateful_step_count=25, deadline=None)


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


@pytest.fixture
def service(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Service:
    return service_of(runtime, monkeypatch)


def registered(service: Service, runtime: Runtime) -> None:
    service._call("RegisterPlugin", b"")
    service._take(answered(1))
    service._take(asked("Configure"))
    runtime.calls.clear()
    runtime.told.clear()


@pytest.mark.parametrize("words, why", [("no", "no"), ("", "status 2")])
def test_service_registers_with_its_name_and_version_and_ends_if_rejected(
    service: Service, runtime: Runtime, words: str, why: str
) -> None:
    service.run(lambda: True)
    fields = {"plugin_name": "stub", "plugin_idx": "90", "NRI_version": "v0.12.0"}
    assert runtime.calls == [("RegisterPlugin", encode("RegisterPluginRequest", fields))]
    with pytest.raises(RegistrationError, match=f"^{why}$"):
        service._take(answered(1, 2, words))


def test_list_above_the_limit_is_cut_and_later_events_are_served(
    service: Service, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered(service, runtime)
    monkeypatch.setattr(module, "_MOST_PARTS", len(MORE))
    for _ in range(2):
        runtime.told.clear()
        for part in (MORE, MORE, MORE, encode("SynchronizeRequest", {"containers": [{"id": "a"}]})):
            service._take(asked("Synchronize", part))
        assert runtime.told == ["larger than 0 MiB", "gap closed", [MORE]]
    service._take(asked("StartContainer", b"x"))
    assert runtime.jobs[-1][0] == "StartContainer"


def test_patience_ends_with_the_first_scheduled_work(service: Service, runtime: Runtime) -> None:
    assert service._patience(runtime.now) == 2, "another look at the settings"
    assert service._patience(runtime.now - 4.5) == 0.5, "the end of registration"
    service._look_around(runtime.now - 4.9)
    with pytest.raises(RegistrationError, match="did not configure this plugin in time"):
        service._look_around(runtime.now - 5.1)
    registered(service, runtime)
    service._look_around(0)
    assert service._patience(0) == 0.5, "a look before Synchronize"
    service._take(asked("Synchronize"))
    assert service._patience(0) == 2
    runtime.alive_for = 0.25
    assert service._patience(0) == 0.25
    runtime.events, runtime.busy = 0x3F, True
    service._look_around(0)
    runtime.busy = False
    with pytest.raises(ResubscribeError):
        service._look_around(0)


PICK = st.sampled_from([sent for sent in MESSAGES if sent.from_runtime and sent.connection == multiplexer.PLUGIN])


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(PICK, max_size=3), PICK, st.lists(st.tuples(st.integers(0, 99), st.integers(0, 255))), st.integers(0))
def test_damaged_session_ends_with_an_error_of_the_wire_and_loses_no_readable_event(
    whole: list[Sent], last: Sent, changes: list[tuple[int, int]], left: int
) -> None:
    """Bytes of the last message are others, or missing: of a length, a type, a stream or a payload."""
    bad = bytearray(multiplexer.frames_of(multiplexer.PLUGIN, last.data))
    for place, byte in changes:
        bad[place % len(bad)] = byte
    runtime, demultiplexer, joined = Runtime(), multiplexer.Demultiplexer(), ttrpc.Messages()
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(WireError):
        service = service_of(runtime, patch)
        frames = [multiplexer.frames_of(multiplexer.PLUGIN, one.data) for one in whole]
        for number, data in enumerate([*frames, bytes(bad[: left or len(bad)])]):
            assert len(runtime.answers) + sum(not answered for *_, answered in runtime.jobs) == number
            for _, payload in demultiplexer.feed(data):
                for message in joined.feed(payload):
                    service._take(message)


# The socket


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a connection and the runtime's end of it."""
    monkeypatch.setattr(connection_module, "_PATIENCE", 0.05)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        ours, (theirs, _) = Connection(str(tmp_path / "s")), listener.accept()
        with theirs:
            yield ours, theirs
        ours.close()


def test_calls_have_odd_streams_and_reach_the_runtime(pair: Any) -> None:
    ours, theirs = pair
    assert [ours.call("A", b"x"), ours.call("B", b"")] == [1, 3]
    ours.answer(9, b"y")
    numbers, payloads = zip(*multiplexer.Demultiplexer().feed(theirs.recv(4096)), strict=True)
    assert numbers == (2, 2, 1)
    first, _, last = (next(iter(ttrpc.Messages().feed(one))) for one in payloads)
    said = ttrpc.decode_request(first)
    assert (first.stream, said["service"], said["method"], said["payload"]) == (1, SERVICE, "A", b"x")
    assert said["timeout_nano"] == 10_000_000_000
    assert (last.stream, ttrpc.decode_response(last)) == (9, (0, "", b"y"))


def test_requests_and_answers_have_connections_of_their_own(pair: Any) -> None:
    ours, theirs = pair
    for number, kind, is_valid in (
        *((1, ttrpc.REQUEST, True), (2, ttrpc.RESPONSE, True)),
        *((1, ttrpc.RESPONSE, False), (2, 1, False)),
    ):
        theirs.sendall(multiplexer.frames_of(number, ttrpc.Message(5, kind, b"x").encoded()))
        if is_valid:
            ((message),) = ours.read()
            assert (message.stream, message.kind, message.payload) == (5, kind, b"x")
        else:
            with pytest.raises(WireError, match=f"a message of type {kind} received on connection {number}"):
                list(ours.read())


@pytest.mark.parametrize("silent", [True, False])
def test_end_and_silence_of_the_runtime_close_the_connection(pair: Any, tmp_path: Path, silent: bool) -> None:
    ours, theirs = pair
    if not silent:
        theirs.close()
        with pytest.raises(ClosedError, match="the runtime closed the connection"):
            list(ours.read())
        return
    with pytest.raises(ClosedError, match="reading failed: timed out"):
        list(ours.read())
    with pytest.raises(ClosedError, match="writing failed: timed out"):
        ours.call("A", b"x" * 10_000_000)
    theirs.close()
    with pytest.raises(ClosedError, match="writing failed: Broken pipe"):
        ours.call("A", b"")
    with nothing_left_open(), pytest.raises(FileNotFoundError):
        Connection(str(tmp_path / "none"))
