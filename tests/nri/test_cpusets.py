"""Placement in containers' own specifications: at creation, at arrivals and departures, and after missed events."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import POD_CGROUP, Host
from hosts.machines import machine, write_sysfs
from hosts.processes import wait_until

from nri.fake_runtime import Peer
from nri.test_events import OK, POD, Plugin, container, host, start
from resctrl_hooks.node.host.cpulist import parse_list
from resctrl_hooks.nri import multiplexer, ttrpc
from resctrl_hooks.nri.protobuf import decode

__all__ = ["host", "start"]
CPUS = "cpus.placement.resctrl-hooks.io"
FIRST, SECOND = "a" * 64, "b" * 64
ASTRAY = {**POD, "annotations": {"pool.placement.resctrl-hooks.io": "nowhere"}}
OWNER = {**POD, "id": "t" * 64, "annotations": {CPUS: "exclusive:3"}}


@pytest.fixture
def place(host: Host, start: Callable[..., Plugin]) -> Callable[..., Plugin]:
    """Start a plugin on a machine of four CPUs, with placement."""
    sys = write_sysfs(machine(cores=4, threads=1), host.root / "sys")
    section = {"enabled": True, "allow": {"*": ["*"]}, "kubeletPath": str(host.root / "kubelet")}

    def make(policy: str = "topology-aware", **config: Any) -> Plugin:
        values = {"nri": {"adjust": ["placement"]}, "placement": {**section, "policy": policy}, **config}
        return start(sysPath=sys, monitoring={"enabled": False}, **values)

    return make


def folder(host: Host, id_: str) -> Path:
    return host.cgroup / POD_CGROUP.lstrip("/") / id_


def process(host: Host, pid: int, id_: str) -> None:
    host.process(pid, f"{POD_CGROUP}/{id_}", start=pid)
    for name in ("cpuset.cpus", "cpuset.mems"):
        (folder(host, id_) / name).touch()


def created(peer: Peer, pod: dict[str, Any], id_: str) -> str:
    """Create a container: the CPUs that its specification has then."""
    code, words, payload = peer.event("CreateContainer", pod, container(id_=id_))
    assert not code, words
    adjusted = decode("CreateContainerResponse", payload).get("adjust", {})
    return str(adjusted.get("linux", {}).get("resources", {}).get("cpu", {}).get("cpus", ""))


def started(peer: Peer, host: Host, pod: dict[str, Any], id_: str, pid: int, cpus: str) -> None:
    """Start it with its present specification."""
    process(host, pid, id_)
    linux = {"resources": {"cpu": {"cpus": cpus}}} if cpus else {}
    assert peer.event("StartContainer", pod, container(pid, id_, linux=linux)) == OK


def updated(peer: Peer, code: int = 0, words: str = "") -> dict[str, str]:
    """Take an UpdateContainers and answer it: CPUs by container."""
    connection, message = peer.receive()
    asked = ttrpc.decode_request(message)
    assert (connection, asked["method"]) == (multiplexer.RUNTIME, "UpdateContainers")
    peer.send(ttrpc.response(message.stream, b"", code, words), multiplexer.RUNTIME)
    found = decode("UpdateContainersRequest", asked["payload"])["update"]
    assert all(one["ignore_failure"] for one in found), "a container that has ended by now causes no failure"
    return {one["container_id"]: one["linux"]["resources"]["cpu"]["cpus"] for one in found}


def reconnected(plugin: Plugin) -> Peer:
    """Close the connection, and return the next one, before the list of containers."""
    plugin.peer.close()
    plugin.peer = plugin.runtime.accept()
    plugin.peer.introduce()
    return plugin.peer


def runs_on(host: Host, id_: str) -> str:
    return (folder(host, id_) / "cpuset.cpus").read_text()


def test_specification_has_cpuset_from_creation(host: Host, place: Callable[..., Plugin]) -> None:
    peer = place().greet()
    promised = created(peer, OWNER, FIRST)
    assert parse_list(promised).bit_count() == 3
    started(peer, host, OWNER, FIRST, 41, promised)
    assert runs_on(host, FIRST) == promised, "our own cpuset does not count as a foreign choice"
    assert peer.event("StartContainer", POD, container(99, SECOND)) == OK, "and nothing is left to tell the runtime"


def test_foreign_cpuset_stays(host: Host, place: Callable[..., Plugin]) -> None:
    peer = place().greet()
    started(peer, host, OWNER, FIRST, 41, "1")
    assert runs_on(host, FIRST) == ""


def test_other_containers_follow_arrivals_and_departures(host: Host, place: Callable[..., Plugin]) -> None:
    peer = place().greet()
    started(peer, host, POD, FIRST, 41, created(peer, POD, FIRST))
    assert runs_on(host, FIRST) == "0-3"
    taken = created(peer, OWNER, SECOND)
    assert runs_on(host, FIRST) == "0-3", "a promise takes nothing"
    started(peer, host, OWNER, SECOND, 42, taken)
    left = runs_on(host, FIRST)
    assert parse_list(left) == 0b1111 & ~parse_list(taken)
    assert updated(peer) == {FIRST: left}
    host.end_process(42)
    assert peer.event("StopContainer", OWNER, container(42, SECOND)) == OK
    assert updated(peer) == {FIRST: "0-3"}
    assert runs_on(host, FIRST) == "0-3"


def test_containers_of_default_pool_follow_growth_of_another_pool(host: Host, place: Callable[..., Plugin]) -> None:
    pools = [{"name": "db", "cpus": "0-1", "minCpus": 1}]
    section = {"enabled": True, "allow": {"*": ["*"]}, "kubeletPath": str(host.root / "kubelet"), "pools": pools}
    peer = place(placement={**section, "policy": "pools"}).greet()
    started(peer, host, POD, FIRST, 41, created(peer, POD, FIRST))
    assert runs_on(host, FIRST) == "0-3"
    grows = {**OWNER, "annotations": {"pool.placement.resctrl-hooks.io": "db"}}
    started(peer, host, grows, SECOND, 42, created(peer, grows, SECOND))
    assert (runs_on(host, FIRST), runs_on(host, SECOND)) == ("1-3", "0")
    assert updated(peer) == {FIRST: "1-3"}


def test_containers_with_same_promised_cpus_are_separated_at_start(host: Host, place: Callable[..., Plugin]) -> None:
    peer = place().greet()
    two = {**OWNER, "annotations": {CPUS: "exclusive:1"}}
    promises = [created(peer, two, id_) for id_ in (FIRST, SECOND)]
    assert promises[0] == promises[1]
    started(peer, host, two, FIRST, 41, promises[0])
    started(peer, host, two, SECOND, 42, promises[1])
    assert runs_on(host, FIRST) == promises[0]
    assert runs_on(host, SECOND) != promises[1]
    assert updated(peer) == {SECOND: runs_on(host, SECOND)}


def test_failed_update_is_reported_and_next_is_sent(host: Host, place: Callable[..., Plugin]) -> None:
    plugin = place()
    peer = plugin.greet()
    started(peer, host, POD, FIRST, 41, "")
    assert updated(peer, 2, "no such thing") == {FIRST: "0-3"}, "created before: its specification has none yet"
    plugin.wait_for_log("cannot send cpusets to the runtime: no such thing")
    started(peer, host, OWNER, SECOND, 42, created(peer, OWNER, SECOND))
    assert updated(peer) == {FIRST: runs_on(host, FIRST)}


def test_missed_updates_are_sent_later(host: Host, place: Callable[..., Plugin]) -> None:
    """The promise of a container that ended unnoticed is dropped; a living one gets its CPUs."""
    plugin = place()
    peer = plugin.greet()
    created(peer, OWNER, FIRST)
    again = reconnected(plugin)
    process(host, 42, SECOND)
    again.synchronize(container(42, SECOND, state=3), pod=POD)
    assert updated(again) == {SECOND: "0-3"}
    assert FIRST not in (host.state / "placement.specified").read_text()


def test_lost_update_is_sent_again(host: Host, place: Callable[..., Plugin]) -> None:
    plugin = place()
    peer = plugin.greet()
    before = created(peer, POD, FIRST)
    started(peer, host, POD, FIRST, 41, before)
    taken = created(peer, OWNER, SECOND)
    started(peer, host, OWNER, SECOND, 42, taken)
    left = runs_on(host, FIRST)
    assert updated(peer, 2, "not now") == {FIRST: left}
    again = reconnected(plugin)
    specified = ((41, FIRST, before), (42, SECOND, taken))
    listed = [container(pid, id_, linux={"resources": {"cpu": {"cpus": cpus}}}) for pid, id_, cpus in specified]
    again.synchronize(*listed, pod=POD)
    assert updated(again) == {FIRST: left}


def test_container_unknown_to_runtime_is_left_alone(
    host: Host, place: Callable[..., Plugin], pod: dict[str, Any]
) -> None:
    """Podman's, or one that only the hook has placed."""
    peer = place().greet()
    process(host, pod["pid"], pod["id"])
    assert host.call(pod).code == 0
    assert runs_on(host, pod["id"]) == "0-3"
    started(peer, host, POD, FIRST, 41, created(peer, POD, FIRST))
    assert peer.event("StartContainer", POD, container(99, SECOND)) == OK, "and nothing is left to tell the runtime"
    assert pod["id"] not in (host.state / "placement.specified").read_text()


def test_foreign_cpuset_is_not_taken_for_ours(host: Host, place: Callable[..., Plugin]) -> None:
    plugin = place()
    plugin.peer.introduce()
    process(host, 42, SECOND)
    plugin.peer.synchronize(container(42, SECOND, state=3, linux={"resources": {"cpu": {"cpus": "1"}}}), pod=POD)
    plugin.wait_for_log("Synchronize: 1 containers")
    assert runs_on(host, SECOND) == ""
    assert not (host.state / "placement.specified").exists()


def test_restart_with_same_id_is_placed_again(host: Host, place: Callable[..., Plugin]) -> None:
    """Its specification still has our cpuset, of which another container has taken CPUs meanwhile."""
    peer = place().greet()
    own = created(peer, OWNER, FIRST)
    started(peer, host, OWNER, FIRST, 41, own)
    host.end_process(41)
    assert peer.event("StopContainer", OWNER, container(41, FIRST)) == OK
    other = {**OWNER, "annotations": {CPUS: "exclusive:1"}}
    started(peer, host, other, SECOND, 42, created(peer, other, SECOND))
    (folder(host, FIRST) / "cpuset.cpus").write_text("")
    started(peer, host, OWNER, FIRST, 43, own)
    assert parse_list(runs_on(host, FIRST)).bit_count() == 3
    assert not parse_list(runs_on(host, FIRST)) & parse_list(runs_on(host, SECOND))


def test_removed_container_is_forgotten(host: Host, place: Callable[..., Plugin]) -> None:
    peer = place().greet()
    created(peer, OWNER, FIRST)
    assert FIRST in (host.state / "placement.specified").read_text()
    assert peer.event("RemoveContainer", OWNER, container(id_=FIRST)) == OK
    wait_until(lambda: FIRST not in (host.state / "placement.specified").read_text(), "it is forgotten")


@pytest.mark.parametrize("adjust", [[], ["placement"]])
def test_container_that_cannot_be_placed_is_refused_under_fail(place: Callable[..., Plugin], adjust: list[str]) -> None:
    peer = place(policy="pools", failurePolicy="fail", nri={"adjust": adjust}).greet()
    code, words, _ = peer.event("CreateContainer", ASTRAY, container())
    assert code == 2
    assert words.startswith("placement: unknown pool 'nowhere'")


def test_container_that_cannot_be_placed_shares_cpus_under_ignore(place: Callable[..., Plugin]) -> None:
    peer = place(policy="pools").greet()
    assert created(peer, ASTRAY, FIRST) == "0-3"


def test_nothing_is_specified_by_default(host: Host, place: Callable[..., Plugin]) -> None:
    peer = place(nri={}).greet()
    assert created(peer, OWNER, FIRST) == ""
    started(peer, host, OWNER, FIRST, 41, "")
    assert parse_list(runs_on(host, FIRST)).bit_count() == 3
    assert peer.event("StartContainer", POD, container(99, SECOND)) == OK
