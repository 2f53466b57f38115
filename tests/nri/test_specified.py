"""Cpusets in specifications, served in this process: what is noted, learned, forgotten and sent to the runtime."""

from collections.abc import Callable
from typing import Any

import pytest
from conftest import Host
from hosts.machines import machine, write_sysfs

from nri.test_cpusets import FIRST, OWNER, SECOND, process, runs_on
from nri.test_events import POD, container, host
from nri.test_in_time import alarm, plugin_of
from nri.test_plugin import Answer, log, served
from resctrl_hooks.node.features.placement.specified import specified
from resctrl_hooks.nri.cpusets import cpus_of, without_cpuset
from resctrl_hooks.nri.plugin import NodePlugin
from resctrl_hooks.nri.protobuf import decode, encode

__all__ = ["alarm", "host"]
pytestmark = pytest.mark.usefixtures("alarm")
Place = Callable[..., NodePlugin]
NOTHING: Answer = (0, b"", b"")


@pytest.fixture
def place(host: Host) -> Place:
    """Return plugins on a machine of four CPUs, with placement."""
    sys = write_sysfs(machine(cores=4, threads=1), host.root / "sys")
    section = {"enabled": True, "allow": {"*": ["*"]}, "kubeletPath": str(host.root / "kubelet")}

    def make(**config: Any) -> NodePlugin:
        values = {"nri": {"adjust": ["placement"]}, "placement": section, "monitoring": {"enabled": False}, **config}
        plugin = plugin_of(host, sysPath=sys, **values)
        plugin.configure({"request_timeout": 60_000})
        host.context().ledger.prepare()
        return plugin

    return make


def message(pid: int, pod: dict[str, Any], id_: str, cpus: str = "") -> bytes:
    linux: dict[str, Any] = {"linux": {"resources": {"cpu": {"cpus": cpus}}}} if cpus else {}
    return encode("ContainerEvent", {"pod": pod, "container": container(pid, id_, **linux)})


def created(plugin: NodePlugin, pod: dict[str, Any], id_: str) -> str:
    """Return the CPUs of a new container's specification."""
    code, answer, others = served(plugin, "CreateContainer", message(0, pod, id_))
    assert (code, others) == (0, b"")
    adjusted = decode("CreateContainerResponse", answer).get("adjust", {})
    return str(adjusted.get("linux", {}).get("resources", {}).get("cpu", {}).get("cpus", ""))


def updates(found: Answer) -> dict[str, str]:
    """Return the CPUs of the containers in an event's updates."""
    assert found[0] == 0
    sent = decode("UpdateContainersRequest", found[2]).get("update", [])
    assert all(one["ignore_failure"] for one in sent)
    return {one["container_id"]: one["linux"]["resources"]["cpu"]["cpus"] for one in sent}


def start(plugin: NodePlugin, host: Host, pod: dict[str, Any], id_: str, pid: int) -> tuple[str, dict[str, str]]:
    """Create and start a container; return its CPUs and the updates of others."""
    cpus = created(plugin, pod, id_)
    process(host, pid, id_)
    return cpus, updates(served(plugin, "StartContainer", message(pid, pod, id_, cpus)))


def noted(host: Host) -> dict[str, str]:
    return specified(host.context())


def test_other_containers_are_updated_at_arrivals_and_departures(host: Host, place: Place) -> None:
    plugin = place()
    assert start(plugin, host, POD, FIRST, 41) == ("0-3", {})
    cpus, sent = start(plugin, host, OWNER, SECOND, 42)
    assert cpus == runs_on(host, SECOND)
    left = runs_on(host, FIRST)
    assert (sent, noted(host)) == ({FIRST: left}, {FIRST: left, SECOND: cpus})
    assert "sent the cpusets of 1 containers to the runtime" in log(host)
    host.end_process(42)
    assert updates(served(plugin, "StopContainer", message(0, OWNER, SECOND))) == {FIRST: "0-3"}
    assert noted(host) == {FIRST: "0-3", SECOND: cpus}, "it may be started again with its specification"
    assert served(plugin, "RemoveContainer", message(0, OWNER, SECOND)) == NOTHING
    assert noted(host) == {FIRST: "0-3"}
    assert served(plugin, "RemoveContainer", message(0, OWNER, SECOND)) == NOTHING


def test_container_that_the_runtime_does_not_know_is_not_updated(host: Host, place: Place) -> None:
    """It was started without this plugin, for example by Podman."""
    plugin = place(nri={})
    start(plugin, host, POD, FIRST, 41)
    assert noted(host) == {}
    plugin = place()
    cpus, sent = start(plugin, host, OWNER, SECOND, 42)
    assert (sent, noted(host)) == ({}, {SECOND: cpus})
    assert runs_on(host, FIRST) != "0-3"


def test_started_container_without_a_noted_cpuset_is_updated(host: Host, place: Place) -> None:
    plugin = place()
    process(host, 41, FIRST)
    assert updates(served(plugin, "StartContainer", message(41, POD, FIRST))) == {FIRST: "0-3"}


@pytest.mark.parametrize("listed, sent, after", [("0-3", {}, "0-3"), ("0", {FIRST: "0-3"}, "0-3"), (None, {}, None)])
def test_list_of_the_runtime_corrects_what_is_noted(
    host: Host, place: Place, listed: str | None, sent: dict[str, str], after: str | None
) -> None:
    plugin = place()
    start(plugin, host, POD, FIRST, 41)
    one = [] if listed is None else [container(41, FIRST, linux={"resources": {"cpu": {"cpus": listed}}})]
    other = container(99, SECOND, linux={"resources": {"cpu": {"cpus": "1"}}})
    if listed is None:
        host.end_process(41)
        served(plugin, "StopContainer", message(0, POD, FIRST))
    replies: list[tuple[int, bytes]] = []
    request = encode("SynchronizeRequest", {"pods": [POD], "containers": [*one, other]})
    plugin.synchronize([request], lambda code, answer: replies.append((code, answer)))
    ((code, answer),) = replies
    assert updates((code, b"", answer[4:])) == sent
    assert noted(host) == ({} if after is None else {FIRST: after}), "a foreign cpuset is not ours"


def test_other_events_send_nothing(host: Host, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = place()
    monkeypatch.setattr("resctrl_hooks.nri.cpusets.changes", lambda *_: pytest.fail("it was asked"))
    assert created(plugin, POD, FIRST) == "0-3"


@pytest.mark.parametrize(
    "container, cpus",
    [
        ({}, ""),
        ({"linux": {}}, ""),
        ({"linux": {"resources": {"cpu": {"mems": "0"}}}}, ""),
        ({"linux": {"resources": {"cpu": {"cpus": "1-2"}}}}, "1-2"),
    ],
)
def test_cpus_of_a_message_are_optional(container: dict[str, Any], cpus: str) -> None:
    assert cpus_of(container) == cpus


@pytest.mark.parametrize(
    "adjusted, kept",
    [
        ({"linux": {"resources": {"cpu": {"cpus": "1"}}}}, {}),
        ({"linux": {"resources": {"cpu": {"cpus": "1"}}}, "env": [1]}, {"env": [1]}),
        (
            {"linux": {"resources": {"cpu": {"cpus": "1"}, "unified": {"a": "b"}}, "devices": []}},
            {"linux": {"resources": {"unified": {"a": "b"}}}},
        ),
    ],
)
def test_adjustment_without_its_cpuset_has_the_rest(adjusted: dict[str, Any], kept: dict[str, Any]) -> None:
    assert without_cpuset(adjusted) == kept
