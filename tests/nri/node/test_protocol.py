"""The plugin in this process under any order of a runtime's events: what is recorded is what the runtime has."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import POD_CGROUP, UID, Host
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nri.node.conftest import NOTHING, POD, Answer, answer_of, container, log, plugin_of, served
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Options
from resctrl_hooks.nri.node.event import EVENTS
from resctrl_hooks.nri.node.plugin import NodePlugin
from resctrl_hooks.nri.node.protobuf import encode
from resctrl_hooks.nri.node.worker import NOT_YET

pytestmark = pytest.mark.hypothesis
CPUS = "cpus.placement.resctrl-hooks.io"
PODS: list[dict[str, Any]] = [
    {
        **POD,
        "id": f"{n}" * 64,
        "uid": f"{UID[:-1]}{n}",
        "linux": {"cgroup_parent": f"{POD_CGROUP[:-1]}{n}"},
        "annotations": {CPUS: f"exclusive:{n}"} if n else {},
    }
    for n in (0, 1, 3)
]
WHICH = st.integers(0, 99)


@dataclass
class Container:
    """A container of the runtime."""

    id: str
    pod: dict[str, Any]
    pid: int = 0
    start: int = 0
    alive: bool = False
    told: bool = False
    """Whether the plugin had an event with its process."""
    cpus: str | None = None
    """The CPUs in its specification, while the runtime knows it."""


class Protocol(RuleBasedStateMachine):
    """A node whose runtime starts, ends, forgets and lists containers."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="rh")
        self.host = Host(Path(self.folder.name))
        self.plugin = self.configured()
        self.host.context().ledger.prepare()
        self.containers: list[Container] = []
        self.grouped: set[str] = set()  # keys of pods with a group
        self.number = 0
        self.loses = self.is_lost = False  # whether the runtime does not get the next update; whether it lacks one

    def configured(self) -> NodePlugin:
        return plugin_of(self.host)

    def boot(self, one: Container) -> None:
        self.host.process(one.pid, f"{one.pod['linux']['cgroup_parent']}/{one.id}", start=one.start)

    def check_answer(self, answer: Answer) -> None:
        assert answer == NOTHING

    def event(self, name: str, pod: dict[str, Any], one: dict[str, Any], *, older: bool) -> Answer:
        """Have an event served as the service does: only if it needs work."""
        kind = "StateChangeEvent" if older else "PodEvent" if name == "RemovePodSandbox" else "ContainerEvent"
        number = {"event": EVENTS.index(name)} if older else {}
        payload = encode(kind, {**number, "pod": pod, **({"container": one} if one else {})})
        name = f"{name}:StateChange" if older else name
        if not self.plugin.serves(name, payload):
            return NOTHING
        answer = served(self.plugin, name, payload)
        self.plugin.served(name, payload, 0.1, answer[0])
        return answer

    def message(self, one: Container, *, has_pid: bool = True) -> dict[str, Any]:
        return {**container(one.pid if has_pid else 0, one.id), "pod_sandbox_id": one.pod["id"]}

    def took_effect(self, one: Container) -> None:
        one.told = True
        self.grouped.add(one.pod["uid"])

    @rule(pod=st.sampled_from(PODS), missed=st.booleans(), late=st.booleans(), older=st.booleans(), again=WHICH)
    def container_starts(self, pod: dict[str, Any], again: int, *, missed: bool, late: bool, older: bool) -> None:
        """Also one that has run before, with the same id and perhaps the same pid."""
        self.number += 1
        ended = [one for one in self.containers if not one.alive]
        if ended and again % 2:
            one = ended[again % len(ended)]
            one.pid = one.pid if one.pid and again % 4 == 1 else 100 + self.number
        else:
            one = Container(f"{self.number:064x}", pod, 100 + self.number)
            self.containers.append(one)
        one.alive, one.told, one.start = True, False, 1000 + self.number
        self.boot(one)
        if missed:
            return
        if late:
            answer = self.event("StartContainer", one.pod, self.message(one, has_pid=False), older=older)
            assert answer == (NOT_YET, b"", b"")
            self.check_answer(self.event("PostStartContainer", one.pod, self.message(one), older=older))
        for _ in range(2):  # a repetition does nothing
            tasks = self.host.tasks(f"mon_groups/{one.pod['uid']}") if one.told else []
            self.check_answer(self.event("StartContainer", one.pod, self.message(one), older=older))
            assert not one.told or tasks == self.host.tasks(f"mon_groups/{one.pod['uid']}")
            self.took_effect(one)

    def of(self, which: int, chosen: Callable[[Container], bool]) -> Container | None:
        found = [one for one in self.containers if chosen(one)]
        return found[which % len(found)] if found else None

    @rule(which=WHICH, names=st.sampled_from([[], ["StopContainer"], ["RemoveContainer"], ["StopContainer"] * 2]),
          older=st.booleans())  # fmt: skip
    def container_ends(self, which: int, names: list[str], *, older: bool) -> None:
        """With its events, or unnoticed."""
        one = self.of(which, lambda one: one.alive)
        if one is not None:
            self.host.end_process(one.pid)
            one.alive = False
            for name in names:
                self.check_answer(self.event(name, one.pod, self.message(one, has_pid=False), older=older))
                one.cpus = None if name == "RemoveContainer" else one.cpus
            if names:
                assert not self.records(one.pod) & {one.id}

    @rule(pod=st.sampled_from(PODS), older=st.booleans())
    def pod_is_removed(self, pod: dict[str, Any], *, older: bool) -> None:
        """Its groups end, unless a container of it runs."""
        self.check_answer(self.event("RemovePodSandbox", pod, {}, older=older))
        if not any(one.alive and one.told and one.pod is pod for one in self.containers):
            self.grouped.discard(pod["uid"])
            assert self.records(pod) == set()

    @rule(parts=st.integers(1, 3))
    def runtime_lists_its_containers(self, parts: int) -> None:
        """Those that run or are to be started; it forgets those that have ended."""
        listed = [one for one in self.containers if one.alive or not one.pid]
        lists = [
            {"pods": PODS if not part else [], "containers": [self.message(one) for one in listed[part::parts]]}
            for part in range(parts)
        ]
        payloads = [encode("SynchronizeRequest", one) for one in lists]
        self.loses = self.is_lost = False
        self.check_answer(answer_of(lambda reply: self.plugin.synchronize(payloads, reply)))
        for one in self.containers:
            if one.alive:
                self.took_effect(one)
            elif one not in listed:
                one.cpus = None
        self.check_records_are_the_running_containers()

    @rule()
    def reconcile_runs(self) -> None:
        self.is_lost = True
        reconcile(self.host.context(), Options())
        self.check_records_are_the_running_containers()

    @rule(name=st.sampled_from(["StartContainer", "CreateContainer", "StopContainer", "RemovePodSandbox"]))
    def unreadable_event_is_answered(self, name: str) -> None:
        assert served(self.plugin, name, b"\xff") == NOTHING

    def records(self, pod: dict[str, Any]) -> set[str]:
        return {path.name.removeprefix("c-") for path in (self.host.state / "pods" / pod["uid"]).glob("c-*")}

    def check_records_are_the_running_containers(self) -> None:
        for pod in PODS:
            told = {one.id for one in self.containers if one.alive and one.told and one.pod is pod}
            assert self.records(pod) == told

    @invariant()
    def running_containers_are_recorded_and_in_their_pods_group(self) -> None:
        ledger = Ledger(str(self.host.state))
        for one in self.containers:
            if one.alive and one.told:
                record = ledger.read_member(one.pod["uid"], one.id)
                assert record is not None
                assert (record["pid"], record["start"]) == (one.pid, one.start)
                assert one.pid in self.host.tasks(f"mon_groups/{one.pod['uid']}")
        assert self.host.groups() == sorted(f"mon_groups/{uid}" for uid in self.grouped)
        assert "internal error" not in log(self.host)

    def teardown(self) -> None:
        self.folder.cleanup()


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
