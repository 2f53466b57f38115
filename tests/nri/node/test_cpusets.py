"""Cpusets in specifications: what is promised, noted, learned, forgotten and sent to the runtime."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from conftest import POD_CGROUP, Host
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nri.node.conftest import NOTHING, POD, Answer, answer_of, container, message, placement, plugin_of, served
from resctrl_hooks.core.node.host.cpulist import parse_list
from resctrl_hooks.nri.node.plugin import NodePlugin
from resctrl_hooks.nri.node.protobuf import decode, encode
from resctrl_hooks.placement.node import specified as specified_module
from resctrl_hooks.placement.node.specified import specified

HOUSES = ("placement",)
CPUS = "cpus.placement.resctrl-hooks.io"
FIRST, SECOND = "a" * 64, "b" * 64
OWNER = {**POD, "id": "t" * 64, "annotations": {CPUS: "exclusive:3"}}
ONE = {**OWNER, "id": "u" * 64, "annotations": {CPUS: "exclusive:1"}}


def plugin_with(host: Host, **config: Any) -> NodePlugin:
    """Return a plugin on a machine of four CPUs, with placement."""
    settings = {"nri": {"adjust": ["placement"]}, "monitoring": {"enabled": False}}
    plugin = plugin_of(host, **{**settings, **placement(host), **config})
    plugin.configure({"request_timeout": 60_000})
    host.context().ledger.prepare()
    return plugin


def folder(host: Host, id_: str) -> Path:
    return host.cgroup / POD_CGROUP.lstrip("/") / id_


def process(host: Host, pid: int, id_: str) -> None:
    host.process(pid, f"{POD_CGROUP}/{id_}", start=pid)
    for name in ("cpuset.cpus", "cpuset.mems"):
        (folder(host, id_) / name).touch()


def runs_on(host: Host, id_: str) -> str:
    return (folder(host, id_) / "cpuset.cpus").read_text()


def with_cpus(pid: int, id_: str, cpus: str) -> dict[str, Any]:
    return container(pid, id_, linux={"resources": {"cpu": {"cpus": cpus} if cpus else {}}})


def cpus_of(adjusted: dict[str, Any]) -> str:
    return str(adjusted.get("linux", {}).get("resources", {}).get("cpu", {}).get("cpus", ""))


def created(plugin: NodePlugin, pod: dict[str, Any], id_: str) -> str:
    code, answer, others = served(plugin, "CreateContainer", message(0, pod, id_=id_))
    assert (code, others) == (0, b"")
    return cpus_of(decode("CreateContainerResponse", answer).get("adjust", {}))


def updates(found: Answer) -> dict[str, str]:
    """Return the CPUs by container in the updates of others in an answer."""
    assert found[:2] == (0, b"")
    updates = decode("UpdateContainersRequest", found[2]).get("update", [])
    assert all(one["ignore_failure"] for one in updates), "a container that has ended by now causes no failure"
    return {one["container_id"]: cpus_of(one) for one in updates}


def started(plugin: NodePlugin, host: Host, pod: dict[str, Any], id_: str, pid: int, cpus: str) -> dict[str, str]:
    """Start a container with these CPUs in its specification; return the updates of others."""
    process(host, pid, id_)
    event = encode("ContainerEvent", {"pod": pod, "container": with_cpus(pid, id_, cpus)})
    return updates(served(plugin, "StartContainer", event))


def noted(host: Host) -> dict[str, str]:
    return specified(host.context())


class Cpusets(RuleBasedStateMachine):
    """Containers whose CPUs the runtime, their cgroups and the plugin's notes have: always the same ones."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="rh")
        self.host = Host(Path(self.folder.name))
        self.plugin = plugin_with(self.host)
        self.pods: dict[str, dict[str, Any]] = {}
        self.view: dict[str, str] = {}  # the specifications, with the updates that the runtime has applied
        self.running: dict[str, int] = {}
        self.missed: set[str] = set()  # started without an event
        self.stopped: set[str] = set()
        self.is_lost = False  # an update was

    def chosen(self, which: int, ids: list[str]) -> str:
        return ids[which % len(ids)] if ids else ""

    def apply(self, sent: dict[str, str], *, lost: bool) -> None:
        self.is_lost = self.is_lost or (lost and bool(sent))
        self.view.update({} if lost else {id_: cpus for id_, cpus in sent.items() if id_ in self.view})

    @rule(pod=st.sampled_from([POD, ONE, OWNER]))
    def create(self, pod: dict[str, Any]) -> None:
        before = {id_: runs_on(self.host, id_) for id_ in self.running}
        id_ = f"{len(self.pods):064x}"
        self.pods[id_], self.view[id_] = pod, created(self.plugin, pod, id_)
        assert self.view[id_]
        assert before == {one: runs_on(self.host, one) for one in self.running}, "a promise takes nothing"

    @rule(which=st.integers(0, 9), missed=st.booleans(), lost=st.booleans())
    def start(self, which: int, *, missed: bool, lost: bool) -> None:
        """Also again, with the same id: others may have taken its CPUs meanwhile."""
        id_ = self.chosen(which, [one for one in self.view if one not in self.running])
        if id_:
            pid = 100 + len(self.running) + 100 * len(self.pods) + 1000 * which
            self.running[id_] = pid
            self.stopped.discard(id_)
            process(self.host, pid, id_)
            (folder(self.host, id_) / "cpuset.cpus").write_text(self.view[id_])
            if missed:
                self.missed.add(id_)
            else:
                event = {"pod": self.pods[id_], "container": with_cpus(pid, id_, self.view[id_])}
                found = served(self.plugin, "StartContainer", encode("ContainerEvent", event))
                self.apply(updates(found), lost=lost)

    @rule(which=st.integers(0, 9), lost=st.booleans(), is_removed=st.booleans())
    def stop(self, which: int, *, lost: bool, is_removed: bool) -> None:
        id_ = self.chosen(which, sorted(self.running.keys() - self.missed))
        if id_:
            self.host.end_process(self.running.pop(id_))
            self.stopped.add(id_)
            found = served(self.plugin, "StopContainer", message(0, self.pods[id_], id_=id_))
            self.apply(updates(found), lost=lost)
            if is_removed:
                assert served(self.plugin, "RemoveContainer", message(0, self.pods[id_], id_=id_)) == NOTHING
                assert id_ not in noted(self.host)
                del self.view[id_]

    @rule()
    def runtime_lists_its_containers(self) -> None:
        """Those that run or are to be started; a stopped one is not listed, and so not started again."""
        for id_ in self.stopped:
            self.view.pop(id_, None)
        containers = [
            with_cpus(self.running.get(id_, 0), id_, cpus) | {"pod_sandbox_id": self.pods[id_]["id"]}
            for id_, cpus in self.view.items()
        ]
        pods = {pod["id"]: pod for pod in self.pods.values()}
        parts = [encode("SynchronizeRequest", {"pods": [*pods.values()], "containers": containers})]
        sent = updates(answer_of(lambda reply: self.plugin.synchronize(parts, reply)))
        self.is_lost = False
        self.missed.clear()
        self.apply(sent, lost=False)

    @invariant()
    def runtime_cgroups_and_notes_agree(self) -> None:
        if self.is_lost or self.missed:
            return
        notes, own = noted(self.host), {}
        for id_ in self.running:
            assert self.view[id_] == runs_on(self.host, id_) == notes[id_]
            if self.pods[id_] is not POD:
                own[id_] = parse_list(self.view[id_])
        assert notes.keys() <= self.view.keys()
        shared = [parse_list(self.view[id_]) for id_ in self.running if id_ not in own]
        assert len(set(shared)) <= 1

    def teardown(self) -> None:
        self.folder.cleanup()


TestCpusets = pytest.mark.hypothesis(Cpusets.TestCase)
TestCpusets.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)


def test_container_that_the_runtime_does_not_know_is_not_updated(host: Host) -> None:
    """It was started without this plugin, for example by Podman, or before cpusets were put into specifications."""
    plugin = plugin_with(host, nri={})
    assert created(plugin, POD, FIRST) == ""
    assert (started(plugin, host, POD, FIRST, 41, ""), noted(host)) == ({}, {})
    plugin = plugin_with(host)
    cpus = created(plugin, OWNER, SECOND)
    assert (started(plugin, host, OWNER, SECOND, 42, cpus), noted(host)) == ({}, {SECOND: cpus})
    assert runs_on(host, FIRST) != "0-3"


def test_started_container_without_a_noted_cpuset_is_updated_and_a_creation_updates_none(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = plugin_with(host)
    assert started(plugin, host, POD, FIRST, 41, "") == {FIRST: "0-3"}
    monkeypatch.setattr(specified_module, "changes", lambda *_: pytest.fail("it was asked"))
    assert created(plugin, POD, SECOND) == "0-3"
