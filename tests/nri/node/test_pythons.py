"""The plugin's processes: the modules and memory of each, and whole sessions by every Python, 3.9 the oldest."""

import ast
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import GROUP, ID, LAUNCH, POD_CGROUP, PYTHON, Host
from hosts.processes import wait_until
from project.test_node_half import EVERY_PYTHON

from nri.node.conftest import CLASS, LIMITS, OK, POD, QUICK, SCHEDULING, container, log, placement
from nri.node.sessions import CONTAINERD, CRIO, PLUGIN_SERVICE, session
from nri.node.test_protocol import CPUS
from resctrl_hooks.core.node.parts import PARTS
from resctrl_hooks.nri import node as nri
from resctrl_hooks.nri.node import multiplexer, ttrpc
from resctrl_hooks.nri.node.protobuf import decode, encode

CODE = """
import sys
from resctrl_hooks.core.node.host.notify import Notify
from resctrl_hooks.nri.node import command, plugin
from resctrl_hooks.nri.node.status import Status
plugin.NodePlugin("p", "97", sys.argv[1], notify=Notify(), status=Status(sys.argv[2], ""), stderr=False)
print(*(name.removeprefix("resctrl_hooks.") for name in sys.modules))
"""
CREATIONS = {"nri.node.creation", "nri.node.adjustments"}
CPUSETS = {"placement.node.allocations", "placement.node.specified"}
CLASSES = {"core.node.features.rdt_class"}
FEW = CREATIONS | CPUSETS | CLASSES | {"core.node.watch.watcher", "core.node.reconcile.reconcile"}


@pytest.mark.houses("placement")
@pytest.mark.parametrize(
    "config, needed",
    [
        ({}, set()),
        ({"failurePolicy": "fail"}, CREATIONS),
        ({"nri": {"adjust": ["placement"]}, "placement": {"enabled": True}}, CREATIONS | CPUSETS),
        ({"rdt": {"enabled": True}}, CLASSES),
    ],
    ids=["defaults", "refusals", "adjustments", "a feature"],
)
def test_modules_are_imported_if_settings_need_them(host: Host, config: dict[str, Any], needed: set[str]) -> None:
    host.configure(**config)
    words = [sys.executable, "-c", CODE, str(host.config), str(host.state)]
    found = set(subprocess.run(words, check=True, capture_output=True, text=True).stdout.split())
    assert found & FEW == needed


@pytest.mark.houses("placement")
def test_plugin_names_no_feature_of_another_house() -> None:
    features = {name for part in PARTS for name in part.get("features", {})}
    sources = [path.read_text() for path in Path(nri.__file__).parent.glob("*.py")]
    words = {one.value for text in sources for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Constant)}
    assert features == {"placement"}
    assert not features & words


HOUSES = ("placement",)
BRINGS = {
    "env": {"TIER": "batch"},
    "mounts": [{"source": "/usr", "destination": "/x"}],
    "devices": [{"path": "/dev/null"}],
}
EVERYTHING = {
    "classes": [LIMITS["classes"][0] | BRINGS],
    "scheduling": SCHEDULING,
    "memory": LIMITS["memory"],
    "nri": {"adjust": ["memory", "rdt", "placement", "scheduling"], "allow": {"shop": ["batch"]}},
}


class FakeRuntime:
    """A socket on which a plugin connects, and the plugin as the runtime sees it; a hang ends after a minute."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._socket = self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.settimeout(60)
        self._listener.bind(path)
        self._listener.listen()
        self._frames = multiplexer.Demultiplexer()
        self._joined = {multiplexer.PLUGIN: ttrpc.Messages(), multiplexer.RUNTIME: ttrpc.Messages()}
        self._ready: list[tuple[int, ttrpc.Message]] = []
        self._stream = -1

    def accept(self) -> None:
        self._socket, _ = self._listener.accept()
        self._socket.settimeout(60)
        connection, message = self.receive()
        assert (connection, ttrpc.decode_request(message)["method"]) == (multiplexer.RUNTIME, "RegisterPlugin")
        self.send(ttrpc.response(message.stream, b""), multiplexer.RUNTIME)

    def send(self, message: bytes, connection: int = multiplexer.PLUGIN) -> None:
        self._socket.sendall(multiplexer.frames_of(connection, message))

    def receive(self) -> tuple[int, ttrpc.Message]:
        while not self._ready:
            data = self._socket.recv(65536)
            assert data, "the plugin hung up"
            for connection, payload in self._frames.feed(data):
                self._ready += [(connection, message) for message in self._joined[connection].feed(payload)]
        return self._ready.pop(0)

    def ask(self, method: str, payload: bytes = b"") -> tuple[int, str, bytes]:
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

    def event(
        self, method: str, pod: dict[str, Any], container: dict[str, Any] | None = None
    ) -> tuple[int, str, bytes]:
        """Call the plugin with a lifecycle event as NRI 0.12 has it."""
        message = {"pod": pod, **({"container": container} if container else {})}
        return self.ask(method, encode("ContainerEvent" if container else "PodEvent", message))

    def close(self) -> None:
        self._socket.close()
        self._listener.close()


@pytest.fixture
def runtime(host: Host) -> FakeRuntime:
    return FakeRuntime(str(host.root / "nri.sock"))


@pytest.fixture
def process(host: Host, runtime: FakeRuntime, python: str) -> Iterator[subprocess.Popen[bytes]]:
    """Return the command's process, which is registered with the runtime."""
    host.configure(**EVERYTHING, **placement(host))
    words = [python, *PYTHON[1:], str(LAUNCH), "--config", str(host.config), "nri", "--socket", runtime.path]
    started = subprocess.Popen(words, env={}, stderr=subprocess.DEVNULL)
    try:
        runtime.accept()
        yield started
    finally:
        started.terminate()
        started.wait(300)
        runtime.close()


@EVERY_PYTHON
def test_all_adjustable_fields_are_encoded(host: Host, runtime: FakeRuntime, process: subprocess.Popen[bytes]) -> None:
    runtime.greet(NRI_version="v0.12.0")
    wait_until(lambda: "Synchronize: " in log(host), "Synchronize: ")
    wanted = {**QUICK["annotations"], CLASS: "batch", CPUS: "exclusive:1", "memory.high.memtierd.nri.io": "64M"}
    pod = {**POD, "annotations": wanted}
    code, words, payload = runtime.event("CreateContainer", pod, container())
    assert not code, words
    adjusted = decode("CreateContainerResponse", payload)["adjust"]
    fields = {"env", "mounts", "linux", "devices", "resources", "scheduler", "io_priority"}
    assert {*adjusted, *adjusted["linux"]} == fields
    assert {"unified", "cpu"} <= set(adjusted["linux"]["resources"])
    host.process(41, f"{POD_CGROUP}/{ID}")
    folder = host.cgroup / POD_CGROUP.lstrip("/") / ID
    for name in ("cpuset.cpus", "cpuset.mems", "memory.high", "memory.swap.max", "cpu.weight"):
        (folder / name).touch()
    assert runtime.event("StartContainer", pod, container(41)) == OK
    assert (folder / "cpuset.cpus").read_text() == adjusted["linux"]["resources"]["cpu"]["cpus"]
    assert host.groups() == [GROUP]
    host.end_process(41)
    assert [runtime.event("StopContainer", pod, container(41)), runtime.event("RemovePodSandbox", pod)] == [OK, OK]
    wait_until(lambda: host.groups() == [], "the group ends")
    (resident,) = re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
    assert int(resident) < 30 * 1024


@EVERY_PYTHON
@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("name", [CONTAINERD, CRIO])
def test_real_sessions_are_answered_to_the_end(host: Host, runtime: FakeRuntime, name: str) -> None:
    asked = 0
    for sent in session(name):
        if sent.from_runtime and sent.connection == multiplexer.PLUGIN:
            runtime.send(sent.data)
            connection, message = runtime.receive()
            assert connection == multiplexer.PLUGIN
            assert ttrpc.decode_response(message)[:2] == (0, ""), sent.said
            asked += 1
    assert asked
    status = json.loads((host.state / "nri.json").read_text())
    assert not any(counted["failed"] for counted in status["events"].values())
