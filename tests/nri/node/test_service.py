"""A plugin's process and a runtime that behaves, or doesn't."""

import collections
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.processes import children, is_alive, wait_until

from nri.node.fake_runtime import Answer, FakeRuntime, Peer
from nri.node.sessions import MESSAGES, Sent
from resctrl_hooks.nri.node import multiplexer
from resctrl_hooks.nri.node.protobuf import decode, encode

STUB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stub.py")
CORRUPTED = int(os.environ.get("NRI_CORRUPTED_SESSIONS", "300"))
"""How many corrupted sessions; a full run has 10 000."""


class Plugin:
    """The stub's process and its records."""

    def __init__(self, folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self.out = folder / "out"
        self.out.touch()
        words = [sys.executable, STUB, str(folder / "nri.sock"), str(self.out), *arguments]
        self.process = subprocess.Popen(words, env={**os.environ, **(environment or {})})

    def told(self) -> list[str]:
        return self.out.read_text().splitlines()

    def wait_for(self, line: str) -> None:
        wait_until(lambda: line in self.told(), line)

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[FakeRuntime]:
    fake = FakeRuntime(str(tmp_path / "nri.sock"))
    yield fake
    fake.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Plugin]]:
    started: list[Plugin] = []

    def make(*arguments: str, **options: Any) -> Plugin:
        started.append(Plugin(tmp_path, *arguments, **options))
        return started[-1]

    yield make
    for plugin in started:
        plugin.process.kill()
        plugin.process.wait(60)


@pytest.fixture
def plugin(runtime: FakeRuntime, start: Callable[..., Plugin]) -> Plugin:
    return start()


@pytest.fixture
def peer(runtime: FakeRuntime, plugin: Plugin) -> Peer:
    connected = runtime.accept()
    connected.greet()
    return connected


POD = {"id": "p", "name": "web", "uid": "u"}
CONTAINER = {"id": "c", "name": "c0"}


def pod(name: str) -> dict[str, Any]:
    return {**POD, "name": name}


def test_plugin_registers_subscribes_and_answers_everything(runtime: FakeRuntime, plugin: Plugin) -> None:
    peer = runtime.accept()
    assert peer.take_registration() == {"plugin_name": "stub", "plugin_idx": "90", "NRI_version": "v0.12.0"}
    assert peer.configure(config="a: 1") == {"events": 0x7FF}
    plugin.wait_for("connected")
    assert "configure containerd a: 1" in plugin.told()
    assert peer.ask("Synchronize") == (0, "", b"")
    plugin.wait_for("synchronize 0")
    for method in ("RunPodSandbox", "StopPodSandbox", "PostStartContainer", "RemoveContainer", "Shutdown"):
        assert peer.ask(method) == (0, "", b"")
    assert peer.event("StartContainer", POD, CONTAINER) == (0, "", b"")
    assert peer.state_change(6, POD, CONTAINER) == (0, "", b"")
    assert [line for line in plugin.told() if line.startswith("serve ")] == [
        "serve StartContainer web",
        "serve StartContainer:StateChange web",
    ]


def test_unsynchronized_plugin_adopts_containers_by_itself(runtime: FakeRuntime, plugin: Plugin) -> None:
    peer = runtime.accept()
    peer.introduce()
    plugin.wait_for("adopt")  # the runtime holds Synchronize back while it creates pods
    assert "synchronize 0" not in plugin.told()


@pytest.mark.skipif(os.geteuid() != 0, reason="realtime priorities need root")
@pytest.mark.parametrize(
    "container", [CONTAINER, {**CONTAINER, "name": "c" * (1 << 16)}], ids=["standing by", "of its own"]
)
def test_event_is_served_with_realtime_priority(container: dict[str, Any], peer: Peer, plugin: Plugin) -> None:
    assert peer.event("StartContainer", pod("policy"), container) == (0, "", b"")
    assert f"policy {os.SCHED_RR}" in plugin.told()


@pytest.mark.skipif(os.geteuid() != 0, reason="realtime priorities need root")
def test_event_that_is_answered_before_is_served_with_ordinary_priority(peer: Peer, plugin: Plugin) -> None:
    assert peer.event("StopContainer", pod("policy"), CONTAINER) == (0, "", b"")
    wait_until(lambda: f"policy {os.SCHED_OTHER}" in plugin.told(), "the event was served")


@pytest.mark.parametrize(
    "event, answer", [("StartContainer", (0, "", b"")), ("CreateContainer", (2, "nobody could say", b""))]
)
def test_crashing_child_is_isolated(peer: Peer, plugin: Plugin, event: str, answer: Answer) -> None:
    assert peer.event(event, pod("crash"), CONTAINER) == answer
    plugin.wait_for(f"served {event} None")
    assert peer.event("StartContainer", POD, CONTAINER) == (0, "", b"")


def test_hanging_child_is_killed_and_answered_in_time(peer: Peer, plugin: Plugin) -> None:
    stream = peer.request("StartContainer", encode("ContainerEvent", {"pod": pod("hang"), "container": CONTAINER}))
    other = peer.request("StartContainer", encode("ContainerEvent", {"pod": POD, "container": CONTAINER}))
    assert peer.receive()[1].stream == other, "an event does not wait for another pod's event"
    assert peer.receive()[1].stream == stream
    plugin.wait_for("served StartContainer None")


def test_end_is_answered_before_its_work_and_next_event_follows_it(peer: Peer, plugin: Plugin) -> None:
    first = standing_by(plugin)
    waits = encode("ContainerEvent", {"pod": pod("wait"), "container": CONTAINER})
    assert peer.ask("StopContainer", waits, timeout=60) == (0, "", b"")
    stream = peer.request("StartContainer", encode("ContainerEvent", {"pod": POD, "container": CONTAINER}), timeout=60)
    plugin.out.with_name(f"{plugin.out.name}.go").touch()
    assert peer.receive()[1].stream == stream
    plugin.wait_for("served StartContainer 0")
    told = [line for line in plugin.told() if line.startswith("serve")]
    assert told.index("served StopContainer 0") < told.index("serve StartContainer web")
    assert standing_by(plugin) == first


def test_end_that_hangs_is_killed_and_next_event_is_served(peer: Peer, plugin: Plugin) -> None:
    assert peer.event("StopContainer", pod("hang"), CONTAINER) == (0, "", b"")
    assert peer.event("StartContainer", POD, CONTAINER) == (0, "", b"")
    plugin.wait_for("served StopContainer None")
    plugin.wait_for("served StartContainer 0")


def test_grandchild_does_not_delay_answer(peer: Peer) -> None:
    assert peer.event("StartContainer", pod("leave"), CONTAINER) == (0, "", b"")


def test_large_answer_is_sent_in_readable_frames(peer: Peer) -> None:
    code, _, payload = peer.event("CreateContainer", pod("large"), CONTAINER)
    assert not code
    assert len(decode("CreateContainerResponse", payload)["adjust"]["env"][0]["value"]) == 20_000


def test_plugin_reconnects_when_runtime_returns(
    tmp_path: Path, runtime: FakeRuntime, plugin: Plugin, peer: Peer
) -> None:
    runtime.close()
    plugin.wait_for("dropped the runtime closed the connection")
    again = FakeRuntime(str(tmp_path / "nri.sock"))
    peer = again.accept()
    peer.greet()
    assert peer.event("StartContainer", POD, CONTAINER) == (0, "", b"")
    again.close()


def test_sigterm_ends_plugin_at_once_also_while_waiting(runtime: FakeRuntime, plugin: Plugin, peer: Peer) -> None:
    assert plugin.end() == 0
    with pytest.raises(EOFError):
        peer.receive()


def test_systemd_receives_ready_and_watchdog_messages(tmp_path: Path, start: Callable[..., Plugin]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        plugin = start(environment=environment)
        told = {systemd.recv(4096) for _ in range(3)}
        assert told == {b"READY=1", b"WATCHDOG=1"}
        plugin.process.send_signal(signal.SIGTERM)
        while (last := systemd.recv(4096)) == b"WATCHDOG=1":
            pass
        assert last == b"STOPPING=1"


def test_dead_children_are_reaped(peer: Peer, plugin: Plugin) -> None:
    for name in ("web", "crash", "refuse", "web"):
        peer.event("StopContainer", pod(name), CONTAINER)
    wait_until(lambda: all(map(is_alive, children(plugin.process.pid))), "they are waited for")


SERVED = {"CreateContainer", "StartContainer", "StopContainer", "RemovePodSandbox", "Synchronize"}
"""Events for which the stub has a child."""
NUMBERS = {"REMOVE_POD_SANDBOX", "START_CONTAINER"}


def is_served(sent: Sent) -> bool:
    method = sent.said["method"]
    return method in SERVED or (method == "StateChange" and sent.said["message"].get("event") in NUMBERS)


def corrupted(draw: random.Random) -> tuple[bytes, list[Sent]]:
    """Return a session of the runtime's with one thing wrong, and its requests that are whole before that."""
    requests = [sent for sent in MESSAGES if sent.from_runtime and sent.connection == multiplexer.PLUGIN]
    whole = draw.sample(requests, draw.randint(0, 3))
    bad = bytearray(multiplexer.frames_of(multiplexer.PLUGIN, draw.choice(requests).data))
    kind = draw.randrange(6)
    if kind == 0:  # cut
        del bad[draw.randrange(len(bad)) :]
    elif kind == 1:  # a huge frame
        bad[4:8] = draw.getrandbits(32).to_bytes(4, "big")
    elif kind == 2:  # a huge message
        bad[8:12] = draw.getrandbits(32).to_bytes(4, "big")
    elif kind == 3:  # a foreign connection, type or stream
        bad[draw.randrange(18)] = draw.randrange(256)
    elif kind == 4:  # bytes of the payload
        for _ in range(draw.randint(1, 8)):
            bad[draw.randrange(18, len(bad))] = draw.randrange(256)
    else:  # noise
        bad = bytearray(draw.randbytes(draw.randint(1, 300)))
    return b"".join([*(multiplexer.frames_of(multiplexer.PLUGIN, sent.data) for sent in whole), bytes(bad)]), whole


def test_corrupted_sessions_end_with_one_line_and_lose_no_readable_event(
    runtime: FakeRuntime, start: Callable[..., Plugin]
) -> None:
    plugin = start(str(CORRUPTED))
    expected = 0
    for number in range(CORRUPTED):
        peer = runtime.accept()
        peer.take_registration()
        data, whole = corrupted(random.Random(number))  # so that a failure can be had again
        expected += sum(map(is_served, whole))
        peer.socket.sendall(data)
        peer.socket.shutdown(socket.SHUT_WR)
        with contextlib.suppress(EOFError):
            while True:
                peer.receive()
        peer.close()
        runtime.peers.clear()
    assert plugin.process.wait(60) == 0
    ends = [line for line in plugin.told() if line.startswith("ended ")]
    assert len(ends) == CORRUPTED
    assert {line.split()[1] for line in ends} <= {"ClosedError", "WireError", "RegistrationError"}
    counts = collections.Counter(line.split()[1] for line in ends)
    print(f"{CORRUPTED} sessions with {expected} events that could be read; they ended with {dict(counts)}")
    served = ("serve ", "synchronize ")
    wait_until(lambda: sum(line.startswith(served) for line in plugin.told()) >= expected, "no event is lost")


def standing_by(plugin: Plugin, other_than: int = 0) -> int:
    """Return the process that waits for the next event, once there is one and no other."""
    living: list[int] = []

    def is_one() -> bool:
        living[:] = filter(is_alive, children(plugin.process.pid))
        return len(living) == 1 and living[0] != other_than

    wait_until(is_one, living)
    return living[0]


def test_one_process_serves_consecutive_events(peer: Peer, plugin: Plugin) -> None:
    first = standing_by(plugin)
    for _ in range(3):
        assert peer.event("StartContainer", POD, CONTAINER) == (0, "", b"")
    assert standing_by(plugin) == first


@pytest.mark.parametrize("name", ["crash", "unfit", "hang"])
def test_process_that_crashes_hangs_or_is_outdated_is_replaced(name: str, peer: Peer, plugin: Plugin) -> None:
    first = standing_by(plugin)
    assert peer.event("StartContainer", pod(name), CONTAINER) == (0, "", b"")
    standing_by(plugin, other_than=first)
    assert peer.event("StartContainer", POD, CONTAINER) == (0, "", b"")


def test_process_that_ends_after_its_answer_costs_no_event(peer: Peer, plugin: Plugin) -> None:
    assert peer.event("StartContainer", pod("unfit"), CONTAINER) == (0, "", b"")
    assert peer.event("StartContainer", POD, CONTAINER) == (0, "", b"")
    plugin.wait_for("serve StartContainer web")
    assert "served StartContainer None" not in plugin.told()


def test_process_killed_while_idle_costs_no_event(peer: Peer, plugin: Plugin) -> None:
    first = standing_by(plugin)
    os.kill(first, signal.SIGKILL)
    standing_by(plugin, other_than=first)
    assert peer.event("StartContainer", POD, CONTAINER) == (0, "", b"")
    plugin.wait_for("served StartContainer 0")


def test_process_stopped_while_idle_delays_runtime_up_to_limit(peer: Peer, plugin: Plugin) -> None:
    first = standing_by(plugin)
    os.kill(first, signal.SIGSTOP)
    assert peer.event("StartContainer", POD, CONTAINER) == (0, "", b"")
    plugin.wait_for("served StartContainer None")
    standing_by(plugin, other_than=first)
    assert peer.event("StartContainer", POD, CONTAINER) == (0, "", b"")
    plugin.wait_for("served StartContainer 0")


def test_event_too_large_for_socket_is_served(peer: Peer, plugin: Plugin) -> None:
    labels = {f"label{number}": "x" * 1000 for number in range(500)}
    assert peer.event("StartContainer", {**POD, "labels": labels}, CONTAINER) == (0, "", b"")
    plugin.wait_for("served StartContainer 0")
