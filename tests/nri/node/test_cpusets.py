"""Cpusets in specifications: what is promised, noted, learned, forgotten and sent to the runtime."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import POD_CGROUP, Host

from nri.node.conftest import (
    NOTHING,
    OK,
    POD,
    Answer,
    Plugin,
    container,
    log,
    message,
    placement,
    plugin_of,
    served,
    synchronized,
)
from nri.node.fake_runtime import Peer
from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.nri.node import multiplexer, ttrpc
from resctrl_hooks.nri.node.plugin import NodePlugin
from resctrl_hooks.nri.node.protobuf import decode, encode
from resctrl_hooks.placement.node import specified as specified_module
from resctrl_hooks.placement.node.specified import specified

HOUSES = ("placement",)
pytestmark = pytest.mark.usefixtures("alarm")
Place = Callable[..., NodePlugin]
CPUS = "cpus.placement.resctrl-hooks.io"
FIRST, SECOND = "a" * 64, "b" * 64
OWNER = {**POD, "id": "t" * 64, "annotations": {CPUS: "exclusive:3"}}
ONE = {**OWNER, "annotations": {CPUS: "exclusive:1"}}
SETTINGS = {"nri": {"adjust": ["placement"]}, "monitoring": {"enabled": False}}


@pytest.fixture
def place(host: Host) -> Place:
    """Return plugins on a machine of four CPUs, with placement."""

    def make(section: dict[str, Any] | None = None, **config: Any) -> NodePlugin:
        plugin = plugin_of(host, **{**SETTINGS, **placement(host, **(section or {})), **config})
        plugin.configure({"request_timeout": 60_000})
        host.context().ledger.prepare()
        return plugin

    return make


def folder(host: Host, id_: str) -> Path:
    return host.cgroup / POD_CGROUP.lstrip("/") / id_


def process(host: Host, pid: int, id_: str) -> None:
    host.process(pid, f"{POD_CGROUP}/{id_}", start=pid)
    for name in ("cpuset.cpus", "cpuset.mems"):
        (folder(host, id_) / name).touch()


def runs_on(host: Host, id_: str) -> str:
    return (folder(host, id_) / "cpuset.cpus").read_text()


def with_cpus(pid: int, id_: str, cpus: str) -> dict[str, Any]:
    """Return a container with these CPUs in its specification."""
    return container(pid, id_, linux={"resources": {"cpu": {"cpus": cpus} if cpus else {}}})


def cpus_of(adjusted: dict[str, Any]) -> str:
    return str(adjusted.get("linux", {}).get("resources", {}).get("cpu", {}).get("cpus", ""))


def promised(payload: bytes) -> str:
    """Return the CPUs in an answer to CreateContainer."""
    return cpus_of(decode("CreateContainerResponse", payload).get("adjust", {}))


def changes(payload: bytes) -> dict[str, str]:
    """Return the CPUs by container in an UpdateContainers."""
    found = decode("UpdateContainersRequest", payload).get("update", [])
    assert all(one["ignore_failure"] for one in found), "a container that has ended by now causes no failure"
    return {one["container_id"]: cpus_of(one) for one in found}


def created(plugin: NodePlugin, pod: dict[str, Any], id_: str) -> str:
    """Return the CPUs of a new container's specification."""
    code, answer, others = served(plugin, "CreateContainer", message(0, pod, id_=id_))
    assert (code, others) == (0, b"")
    return promised(answer)


def updates(found: Answer) -> dict[str, str]:
    """Return the updates of others in an answer."""
    assert found[:2] == (0, b"")
    return changes(found[2])


def started(plugin: NodePlugin, host: Host, pod: dict[str, Any], id_: str, pid: int, cpus: str) -> dict[str, str]:
    """Start a container with these CPUs in its specification; return the updates of others."""
    process(host, pid, id_)
    event = encode("ContainerEvent", {"pod": pod, "container": with_cpus(pid, id_, cpus)})
    return updates(served(plugin, "StartContainer", event))


def start(plugin: NodePlugin, host: Host, pod: dict[str, Any], id_: str, pid: int) -> tuple[str, dict[str, str]]:
    """Create and start a container; return its CPUs and the updates of others."""
    cpus = created(plugin, pod, id_)
    return cpus, started(plugin, host, pod, id_, pid, cpus)


def listed(plugin: NodePlugin, *containers: dict[str, Any]) -> dict[str, str]:
    """Return the updates after the runtime's list."""
    return updates(synchronized(plugin, *containers))


def noted(host: Host) -> dict[str, str]:
    return specified(host.context())


def test_specification_has_cpuset_from_creation(host: Host, place: Place) -> None:
    cpus, sent = start(place(), host, OWNER, FIRST, 41)
    assert parse_list(cpus).bit_count() == 3
    assert runs_on(host, FIRST) == cpus, "our own cpuset does not count as a foreign choice"
    assert sent == {}, "and nothing is left to tell the runtime"


def test_foreign_cpuset_stays(host: Host, place: Place) -> None:
    assert started(place(), host, OWNER, FIRST, 41, "1") == {}
    assert runs_on(host, FIRST) == ""


def test_other_containers_are_updated_at_arrivals_and_departures(host: Host, place: Place) -> None:
    plugin = place()
    assert start(plugin, host, POD, FIRST, 41) == ("0-3", {})
    cpus = created(plugin, OWNER, SECOND)
    assert runs_on(host, FIRST) == "0-3", "a promise takes nothing"
    sent = started(plugin, host, OWNER, SECOND, 42, cpus)
    assert cpus == runs_on(host, SECOND)
    left = runs_on(host, FIRST)
    assert parse_list(left) == 0b1111 & ~parse_list(cpus)
    assert (sent, noted(host)) == ({FIRST: left}, {FIRST: left, SECOND: cpus})
    assert "sent the cpusets of 1 containers to the runtime" in log(host)
    host.end_process(42)
    assert updates(served(plugin, "StopContainer", message(0, OWNER, id_=SECOND))) == {FIRST: "0-3"}
    assert (runs_on(host, FIRST), noted(host)) == ("0-3", {FIRST: "0-3", SECOND: cpus}), "it may be started again"
    for _ in range(2):
        assert served(plugin, "RemoveContainer", message(0, OWNER, id_=SECOND)) == NOTHING
        assert noted(host) == {FIRST: "0-3"}


def test_containers_of_default_pool_follow_growth_of_another_pool(host: Host, place: Place) -> None:
    plugin = place({"policy": "pools", "pools": [{"name": "db", "cpus": "0-1", "minCpus": 1}]})
    assert start(plugin, host, POD, FIRST, 41) == ("0-3", {})
    grows = {**OWNER, "annotations": {"pool.placement.resctrl-hooks.io": "db"}}
    assert start(plugin, host, grows, SECOND, 42) == ("0", {FIRST: "1-3"})
    assert (runs_on(host, FIRST), runs_on(host, SECOND)) == ("1-3", "0")


def test_containers_with_same_promised_cpus_are_separated_at_start(host: Host, place: Place) -> None:
    plugin = place()
    promises = [created(plugin, ONE, id_) for id_ in (FIRST, SECOND)]
    assert promises[0] == promises[1]
    assert started(plugin, host, ONE, FIRST, 41, promises[0]) == {}
    sent = started(plugin, host, ONE, SECOND, 42, promises[1])
    assert runs_on(host, FIRST) == promises[0]
    assert runs_on(host, SECOND) != promises[1]
    assert sent == {SECOND: runs_on(host, SECOND)}


def test_container_that_the_runtime_does_not_know_is_not_updated(host: Host, place: Place) -> None:
    """It was started without this plugin, for example by Podman, or before cpusets were put into specifications."""
    assert start(place(nri={}), host, POD, FIRST, 41) == ("", {})
    assert noted(host) == {}
    plugin = place()
    cpus, sent = start(plugin, host, OWNER, SECOND, 42)
    assert (sent, noted(host)) == ({}, {SECOND: cpus})
    assert runs_on(host, FIRST) != "0-3"


def test_started_container_without_a_noted_cpuset_is_updated(host: Host, place: Place) -> None:
    assert started(place(), host, POD, FIRST, 41, "") == {FIRST: "0-3"}


@pytest.mark.parametrize("cpus, sent, after", [("0-3", {}, "0-3"), ("0", {FIRST: "0-3"}, "0-3"), (None, {}, None)])
def test_list_of_the_runtime_corrects_what_is_noted(
    host: Host, place: Place, cpus: str | None, sent: dict[str, str], after: str | None
) -> None:
    plugin = place()
    start(plugin, host, POD, FIRST, 41)
    process(host, 42, SECOND)
    if cpus is None:
        host.end_process(41)
        served(plugin, "StopContainer", message(0, POD, id_=FIRST))
    one = [] if cpus is None else [with_cpus(41, FIRST, cpus)]
    assert listed(plugin, *one, with_cpus(42, SECOND, "1")) == sent
    assert noted(host) == ({} if after is None else {FIRST: after}), "a foreign cpuset is not ours"
    assert runs_on(host, SECOND) == ""


def test_container_of_a_missed_start_is_updated(host: Host, place: Place) -> None:
    plugin = place()
    created(plugin, OWNER, FIRST)
    process(host, 42, SECOND)
    assert listed(plugin, container(42, SECOND)) == {SECOND: "0-3"}
    assert noted(host) == {SECOND: "0-3"}, "the promise of a container that ended unnoticed is dropped"


def test_restart_with_same_id_is_placed_again(host: Host, place: Place) -> None:
    """Its specification still has our cpuset, of which another container has taken CPUs meanwhile."""
    plugin = place()
    own, _ = start(plugin, host, OWNER, FIRST, 41)
    host.end_process(41)
    served(plugin, "StopContainer", message(0, OWNER, id_=FIRST))
    start(plugin, host, ONE, SECOND, 42)
    (folder(host, FIRST) / "cpuset.cpus").write_text("")
    started(plugin, host, OWNER, FIRST, 43, own)
    assert parse_list(runs_on(host, FIRST)).bit_count() == 3
    assert not parse_list(runs_on(host, FIRST)) & parse_list(runs_on(host, SECOND))


def test_container_that_cannot_be_placed_shares_cpus_under_ignore(place: Place) -> None:
    astray = {**POD, "annotations": {"pool.placement.resctrl-hooks.io": "nowhere"}}
    assert created(place({"policy": "pools"}), astray, FIRST) == "0-3"


def test_lost_update_is_reported_and_sent_again_after_the_next_list(host: Host, start: Callable[..., Plugin]) -> None:
    plugin = start(**SETTINGS, **placement(host))

    def begin(peer: Peer, pod: dict[str, Any], id_: str, pid: int) -> str:
        code, words, payload = peer.event("CreateContainer", pod, container(id_=id_))
        assert not code, words
        process(host, pid, id_)
        assert peer.event("StartContainer", pod, with_cpus(pid, id_, promised(payload))) == OK
        return promised(payload)

    def updated(peer: Peer, code: int, words: str) -> dict[str, str]:
        connection, asked = peer.receive()
        request = ttrpc.decode_request(asked)
        assert (connection, request["method"]) == (multiplexer.RUNTIME, "UpdateContainers")
        peer.send(ttrpc.response(asked.stream, b"", code, words), multiplexer.RUNTIME)
        return changes(request["payload"])

    peer = plugin.greet()
    before = begin(peer, POD, FIRST, 41)
    taken = begin(peer, OWNER, SECOND, 42)
    left = runs_on(host, FIRST)
    assert updated(peer, 2, "not now") == {FIRST: left}
    plugin.wait_for_log("cannot send cpusets to the runtime: not now")
    peer.close()
    again = plugin.runtime.accept()
    again.introduce()
    again.synchronize(with_cpus(41, FIRST, before), with_cpus(42, SECOND, taken), pod=POD)
    assert updated(again, 0, "") == {FIRST: left}


def test_other_events_send_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = place()
    monkeypatch.setattr(specified_module, "changes", lambda *_: pytest.fail("it was asked"))
    assert created(plugin, POD, FIRST) == "0-3"
