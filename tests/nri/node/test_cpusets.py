"""Cpusets in specifications: what is promised, noted, learned, forgotten and sent to the runtime."""

from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from nri.node.conftest import POD, Answer, container, message, placement, plugin_of, served
from nri.node.test_protocol import CPUS, PODS, Container, Protocol
from resctrl_hooks.nri.node.plugin import NodePlugin
from resctrl_hooks.nri.node.protobuf import decode, encode
from resctrl_hooks.placement.node import specified as specified_module
from resctrl_hooks.placement.node.specified import specified

HOUSES = ("placement",)
FIRST, SECOND = "a" * 64, "b" * 64
OWNER = {**POD, "id": "t" * 64, "annotations": {CPUS: "exclusive:3"}}


def plugin_with(host: Host, **config: Any) -> NodePlugin:
    """Return a plugin on a machine of four CPUs, with placement."""
    settings = {"nri": {"adjust": ["placement"]}, "monitoring": {"enabled": False}}
    plugin = plugin_of(host, **{**settings, **placement(host), **config})
    plugin.configure({"request_timeout": 60_000})
    host.context().ledger.prepare()
    return plugin


def cpuset(host: Host, pod: dict[str, Any], id_: str) -> Path:
    return Path(host.cgroup, pod["linux"]["cgroup_parent"].lstrip("/"), id_, "cpuset.cpus")


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
    host.process(pid, f"{pod['linux']['cgroup_parent']}/{id_}", start=pid)
    for path in (cpuset(host, pod, id_), cpuset(host, pod, id_).with_name("cpuset.mems")):
        path.touch()
    event = encode("ContainerEvent", {"pod": pod, "container": with_cpus(pid, id_, cpus)})
    return updates(served(plugin, "StartContainer", event))


class Cpusets(Protocol):
    """Containers whose CPUs the runtime, their cgroups and the plugin's notes have: always the same ones."""

    def configured(self) -> NodePlugin:
        return plugin_with(self.host, monitoring={"enabled": True})

    def cpus(self) -> dict[str, str]:
        return {one.id: cpuset(self.host, one.pod, one.id).read_text() for one in self.containers if one.alive}

    @rule(pod=st.sampled_from(PODS))
    def container_is_created(self, pod: dict[str, Any]) -> None:
        self.number += 1
        self.containers.append(Container(f"{self.number:064x}", pod))
        self.promise(self.containers[-1])

    def promise(self, one: Container) -> None:
        before = self.cpus()
        one.cpus = created(self.plugin, one.pod, one.id)
        assert one.cpus
        assert self.cpus() == before, "a promise takes nothing"

    def boot(self, one: Container) -> None:
        one.alive = False
        if one.cpus is None:
            self.promise(one)
        one.alive = True
        super().boot(one)
        cpuset(self.host, one.pod, one.id).write_text(str(one.cpus))
        cpuset(self.host, one.pod, one.id).with_name("cpuset.mems").touch()

    def message(self, one: Container, *, has_pid: bool = True) -> dict[str, Any]:
        linux = with_cpus(0, one.id, one.cpus or "")["linux"]
        return {**super().message(one, has_pid=has_pid), "linux": linux}

    @rule()
    def next_update_is_lost(self) -> None:
        self.loses = True

    def check_answer(self, answer: Answer) -> None:
        sent = updates(answer)
        self.is_lost |= self.loses and bool(sent)
        for one in self.containers:
            if one.cpus is not None and not self.loses:
                one.cpus = sent.get(one.id, one.cpus)
        self.loses = self.loses and not sent

    @invariant()
    def runtime_cgroups_and_notes_agree(self) -> None:
        alive = [one for one in self.containers if one.alive]
        if self.is_lost or not all(one.told for one in alive):
            return
        notes = specified(self.host.context())
        assert {one.id: one.cpus for one in alive} == self.cpus() == {one.id: notes[one.id] for one in alive}
        assert notes.keys() <= {one.id for one in self.containers if one.cpus is not None}
        assert len({one.cpus for one in alive if not one.pod["annotations"]}) <= 1, "they share CPUs"


TestCpusets = pytest.mark.hypothesis(Cpusets.TestCase)
TestCpusets.settings = settings(max_examples=25, stateful_step_count=16, deadline=None)


def test_container_that_the_runtime_does_not_know_is_not_updated(host: Host) -> None:
    """It was started without this plugin, for example by Podman, or before cpusets were put into specifications."""
    plugin = plugin_with(host, nri={})
    assert created(plugin, POD, FIRST) == ""
    assert (started(plugin, host, POD, FIRST, 41, ""), specified(host.context())) == ({}, {})
    plugin = plugin_with(host)
    cpus = created(plugin, OWNER, SECOND)
    assert (started(plugin, host, OWNER, SECOND, 42, cpus), specified(host.context())) == ({}, {SECOND: cpus})
    assert cpuset(host, POD, FIRST).read_text() != "0-3"


def test_started_container_without_a_noted_cpuset_is_updated_and_a_creation_updates_none(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = plugin_with(host)
    assert started(plugin, host, POD, FIRST, 41, "") == {FIRST: "0-3"}
    monkeypatch.setattr(specified_module, "changes", lambda *_: pytest.fail("it was asked"))
    assert created(plugin, POD, SECOND) == "0-3"
