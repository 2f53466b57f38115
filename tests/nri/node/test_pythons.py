"""The plugin by every Python that it may meet, 3.9 the oldest: whole sessions, and all that it can change."""

import json
from collections.abc import Iterator

import pytest
from conftest import GROUP, ID, POD_CGROUP, Host
from hosts.processes import wait_until
from project.test_node_half import EVERY_PYTHON

from nri.node.conftest import CLASS, LIMITS, OK, POD, QUICK, SCHEDULING, Plugin, configure, container, placement
from nri.node.sessions import CONTAINERD, CRIO, session
from nri.node.test_cpusets import CPUS
from resctrl_hooks.nri.node import multiplexer, ttrpc
from resctrl_hooks.nri.node.protobuf import decode

HOUSES = ("placement",)
BRINGS = {
    **LIMITS["classes"][0],
    "env": {"TIER": "batch"},
    "mounts": [{"source": "/usr", "destination": "/host-usr"}],
    "devices": [{"path": "/dev/null"}],
}
EVERYTHING = {
    "classes": [BRINGS],
    "scheduling": SCHEDULING,
    "memory": LIMITS["memory"],
    "nri": {"adjust": ["memory", "rdt", "placement", "scheduling"], "allow": {"shop": ["batch"]}},
}


@pytest.fixture
def plugin(host: Host, python: str) -> Iterator[Plugin]:
    configure(host, **EVERYTHING, **placement(host))
    started = Plugin(host, python=python)
    yield started
    started.end()


@EVERY_PYTHON
def test_all_adjustable_fields_are_encoded(host: Host, plugin: Plugin) -> None:
    peer = plugin.greet(NRI_version="v0.12.0")
    wanted = {**QUICK["annotations"], CLASS: "batch", CPUS: "exclusive:1", "memory.high.memtierd.nri.io": "64M"}
    pod = {**POD, "annotations": wanted}
    code, words, payload = peer.event("CreateContainer", pod, container())
    assert not code, words
    adjusted = decode("CreateContainerResponse", payload)["adjust"]
    assert {*adjusted, *adjusted["linux"]} == {
        *("env", "mounts", "linux"),
        *("devices", "resources", "scheduler", "io_priority"),
    }
    assert {"unified", "cpu"} <= set(adjusted["linux"]["resources"])
    host.process(41, f"{POD_CGROUP}/{ID}")
    for name in ("cpuset.cpus", "cpuset.mems", "memory.high", "memory.swap.max", "cpu.weight"):
        (host.cgroup / POD_CGROUP.lstrip("/") / ID / name).touch()
    assert peer.event("StartContainer", pod, container(41)) == OK
    cpuset = host.cgroup / POD_CGROUP.lstrip("/") / ID / "cpuset.cpus"
    assert cpuset.read_text() == adjusted["linux"]["resources"]["cpu"]["cpus"]
    assert host.groups() == [GROUP]
    host.end_process(41)
    assert peer.event("StopContainer", pod, container(41)) == OK
    assert peer.event("RemovePodSandbox", pod) == OK
    wait_until(lambda: host.groups() == [], "the group ends")


@EVERY_PYTHON
@pytest.mark.parametrize("name", [CONTAINERD, CRIO])
def test_real_sessions_are_answered_to_the_end(host: Host, plugin: Plugin, name: str) -> None:
    peer = plugin.peer
    peer.take_registration()
    asked = 0
    for sent in session(name):
        if sent.from_runtime and sent.connection == multiplexer.PLUGIN:
            peer.send(sent.data)
            connection, message = peer.receive()
            assert connection == multiplexer.PLUGIN
            assert ttrpc.decode_response(message)[:2] == (0, ""), sent.said
            asked += 1
    assert asked
    status = json.loads((host.state / "nri.json").read_text())
    assert not any(counted["failed"] for counted in status["events"].values())
