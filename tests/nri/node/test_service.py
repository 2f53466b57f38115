"""A plugin's process and a runtime that behaves, or doesn't."""

import collections
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.processes import children, is_alive, wait_until

from nri.node.fake_runtime import FakeRuntime
from resctrl_hooks.nri.node.protobuf import decode, encode

STUB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stub.py")
STEPS = int(os.environ.get("NRI_STEPS", "60"))
OK = (0, "", b"")
REFUSED = (2, "nobody could say", b"")


class Plugin:
    """The stub's process and its records."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "out"
        self.out.touch()
        words = [sys.executable, STUB, str(folder / "nri.sock"), str(self.out)]
        self.process = subprocess.Popen(words)

    def told(self) -> list[str]:
        return self.out.read_text().splitlines()

    def wait_for(self, line: str) -> None:
        wait_until(lambda: line in self.told(), line)

    def standing_by(self, other_than: int = 0) -> int:
        """Return the process that waits for the next event, once there is one and no other."""
        living: list[int] = []

        def is_one() -> bool:
            living[:] = filter(is_alive, children(self.process.pid))
            return len(living) == 1 and living[0] != other_than

        wait_until(is_one, living)
        return living[0]


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[FakeRuntime]:
    fake = FakeRuntime(str(tmp_path / "nri.sock"))
    yield fake
    fake.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Plugin]]:
    started: list[Plugin] = []

    def make() -> Plugin:
        started.append(Plugin(tmp_path))
        return started[-1]

    yield make
    for plugin in started:
        plugin.process.kill()
        plugin.process.wait(60)


POD = {"id": "p", "name": "web", "uid": "u"}
CONTAINER = {"id": "c", "name": "c0"}


def pod(name: str) -> dict[str, Any]:
    return {**POD, "name": name}


def event_of(name: str) -> bytes:
    return encode("ContainerEvent", {"pod": pod(name), "container": CONTAINER})


def test_node_is_adopted_before_its_list_and_events_have_priority(
    runtime: FakeRuntime, start: Callable[..., Plugin]
) -> None:
    plugin, peer = start(), runtime.accept()
    peer.introduce(config="a: 1")
    plugin.wait_for("adopt")  # the runtime holds Synchronize back while it creates pods
    assert plugin.told()[:2] == ["configure containerd a: 1", "connected"]
    assert "synchronize 0" not in plugin.told()
    assert peer.ask("Synchronize") == OK
    plugin.wait_for("synchronize 0")
    if os.geteuid() == 0:  # realtime priorities need root
        for container in (CONTAINER, {**CONTAINER, "name": "c" * (1 << 16)}):  # too large for the one that stands by
            assert peer.event("StartContainer", pod("policy"), container) == OK
        assert plugin.told().count(f"policy {os.SCHED_RR}") == 2
        assert peer.event("StopContainer", pod("policy"), CONTAINER) == OK
        plugin.wait_for(f"policy {os.SCHED_OTHER}")
    plugin.process.terminate()
    assert plugin.process.wait(60) == 0
    with pytest.raises(EOFError):
        peer.receive()


@pytest.mark.parametrize("seed", [1, 2])
def test_each_event_has_its_answer_in_time_whatever_becomes_of_its_process(
    runtime: FakeRuntime, start: Callable[..., Plugin], tmp_path: Path, seed: int
) -> None:
    """Processes crash, hang, end, leave children, or are killed and stopped; the runtime ends, and comes again."""
    draw, plugin, peer = random.Random(seed), start(), runtime.accept()
    peer.greet()
    steps = [*("web",) * 3, "large", "crash", "unfit", "hang", "leave", "refuse", "labels", "kill", "stop", "again"]
    asked, failed, stopped, history = collections.Counter[str](), 0, 0, list[str]()

    def counted() -> dict[str, int]:
        lines = [line.split() for line in plugin.told()]
        return collections.Counter(line[1] for line in lines if line[0] == "served" and line[1] != "Synchronize")

    for _ in range(STEPS):
        step = draw.choice(steps)
        name = draw.choice(["CreateContainer", "StartContainer", "StopContainer"])
        history.append(f"{name} {step}")
        if step == "again":
            peer.close()
            plugin.wait_for("dropped the runtime closed the connection")
            peer = runtime.accept()
            peer.greet()
            continue
        if step in ("kill", "stop"):
            wait_until(lambda: counted() == asked, (history, asked, plugin.told(), counted()))
            first = plugin.standing_by()
            os.kill(first, signal.SIGKILL if step == "kill" else signal.SIGSTOP)
            if step == "kill":
                plugin.standing_by(other_than=first)
        of = {**pod(step), "labels": {f"label{n}": "x" * 1000 for n in range(500)}} if step == "labels" else pod(step)
        asked[name] += 1
        payload = encode("ContainerEvent", {"pod": of, "container": CONTAINER})
        code, words, answer = peer.ask(name, payload, timeout=0.5 if step in ("hang", "stop") else 2.0)
        dies = step in ("crash", "hang")
        failed += dies or step == "refuse"
        stopped += step == "stop"
        if name == "StopContainer":
            assert (code, words, answer) == OK, history
        elif step == "stop" and (code, words, answer) == REFUSED:  # else another process has served it
            assert name == "CreateContainer", history
        elif dies:
            assert (code, words, answer) == (REFUSED if name == "CreateContainer" else OK), history
        elif step == "refuse":
            assert (code, words) == (2, "not this one"), history
        elif name == "CreateContainer" and answer:
            value = decode("CreateContainerResponse", answer)["adjust"]["env"][0]["value"]
            assert value == ("x" * 20_000 if step == "large" else "b"), history
        else:
            assert (code, words, answer) == OK, history

    wait_until(lambda: counted() == asked, (history, asked, plugin.told(), counted()))
    failures = [line for line in plugin.told() if line.startswith("served ") and line.split()[2] != "0"]
    assert failed <= len(failures) <= failed + stopped, (failures, history)
    first = plugin.standing_by()  # others are reaped
    for _ in range(3):
        assert peer.event("StartContainer", POD, CONTAINER) == OK
    assert plugin.standing_by() == first, "one process serves consecutive events"


def test_event_waits_for_an_end_before_it_and_not_for_another_pods_event(
    runtime: FakeRuntime, start: Callable[..., Plugin]
) -> None:
    plugin, peer = start(), runtime.accept()
    peer.greet()
    stream, other = (peer.request("StartContainer", event_of(name), 0.5) for name in ("hang", "web"))
    assert [peer.receive()[1].stream for _ in range(2)] == [other, stream]
    plugin.wait_for("served StartContainer None")
    first = plugin.standing_by()
    assert peer.ask("StopContainer", event_of("wait"), timeout=60) == OK
    stream = peer.request("StartContainer", event_of("after"), timeout=60)
    plugin.out.with_name(f"{plugin.out.name}.go").touch()
    assert peer.receive()[1].stream == stream
    plugin.wait_for("served StopContainer 0")
    wait_until(lambda: plugin.told().count("served StartContainer 0") == 2, "it is served")
    told = [line for line in plugin.told() if line.startswith("serve")]
    assert told.index("served StopContainer 0") < told.index("serve StartContainer after")
    assert plugin.standing_by() == first
