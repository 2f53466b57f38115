"""A container whose plan takes all processor time, among others that a pass of reconcile serves."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hosts.placed import CPUS, PlacedHost, id_of

from resctrl_hooks.core.node import set_aside
from resctrl_hooks.core.node.container.recorded import recorded_workload
from resctrl_hooks.core.node.container.workload import Workload, workload_of
from resctrl_hooks.core.node.features.scheduling import Scheduling
from resctrl_hooks.core.node.reconcile import discovery
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.core.node.reconcile.report import Report
from resctrl_hooks.core.node.set_aside import FILE, FIRST_PAUSE, LONGEST_PAUSE
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.placement.node import placing, request
from resctrl_hooks.placement.node.policy import Request

HOUSES = ("placement",)


class Node(PlacedHost):
    """A node on which the plan of the container ``bad`` never ends. ``now`` are the seconds since the boot."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(host)
        self.now = 1000.0
        self.plans = 0
        clock = time.clock_gettime
        boot = time.CLOCK_BOOTTIME
        monkeypatch.setattr(set_aside, "MOST_SECONDS", 0.05)
        monkeypatch.setattr(set_aside, "_AGAIN", 0.05)
        monkeypatch.setattr(time, "clock_gettime", lambda one: self.now if one == boot else clock(one))
        self.ends = False

        def request_of(workload: Workload, settings: Settings) -> Request:
            if workload.container == "bad":
                self.plans += 1
                while not self.ends:
                    pass
            return request.request_of(workload, settings)

        monkeypatch.setattr(placing, "request_of", request_of)

    def one_pass(self) -> Report:
        return reconcile(self.host.context())

    def pause(self) -> int:
        found: int = json.loads((self.host.state / FILE).read_text())[id_of("bad")][1]
        return found


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(Host(tmp_path), monkeypatch)
    made.start("victim", 4000, **{CPUS: "exclusive"})
    made.run_unseen("bad", 500)
    made.run_unseen("other", 500)
    return made


def test_container_with_an_endless_plan_is_set_aside_and_the_others_are_placed(node: Node) -> None:
    """For a pause that grows, until its plan ends or the node boots."""
    node.one_pass()
    assert node.cpus("other") == "2-3,18-19"
    said = f"container {id_of('bad')[:12]} is set aside for {FIRST_PAUSE} s"
    assert node.host.log.read_text().count(said) == 1
    pauses = []
    for _ in range(8):
        tries = node.plans
        pauses.append(node.pause())
        node.now += pauses[-1] - 1
        report = node.one_pass()
        assert node.plans == tries
        assert any("set aside" in str(one) for one in (*report.events["problem"], *report.events["failed"].values()))
        node.now += 1
        node.one_pass()
        assert node.plans > tries
    assert pauses == [min(FIRST_PAUSE << number, LONGEST_PAUSE) for number in range(8)]
    tries, node.now = node.plans, 1.0  # a pause of an earlier boot does not count
    node.one_pass()
    assert node.plans > tries
    node.now += node.pause()
    node.ends = True
    node.one_pass()
    assert node.cpus("bad") == node.cpus("other")
    assert not (node.host.state / FILE).exists()


def test_feature_with_an_endless_plan_leaves_a_container_its_other_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(Host(tmp_path), monkeypatch)
    scheduling = {"enabled": True, "classes": {"low": {"nice": 3}}, "defaults": {"namespaces": {"*": "low"}}}
    config = json.loads(node.host.config.read_text())
    node.host.config.write_text(json.dumps(config | {"scheduling": scheduling}))
    node.start("victim", 500)
    node.run_unseen("good", 500)
    tries = []

    def endless(*_: object) -> Any:
        tries.append(1)
        while True:
            pass

    monkeypatch.setattr(Scheduling, "plan", endless)
    node.one_pass()
    assert node.cpus("good")
    before = len(tries)
    node.one_pass()
    assert len(tries) == before


def excluded(host: Host) -> PlacedHost:
    """Return a node on which no feature serves the namespace of its containers."""
    node = PlacedHost(host)
    node.place(monitoring=False, namespaces=["other"])
    return node


def work_by_pass(host: Host, monkeypatch: pytest.MonkeyPatch, done: list[str]) -> list[int]:
    """Run passes within a pause, the last one after it; return how much ``done`` each added."""
    now = [1000.0]
    clock = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda one: now[0] if one == time.CLOCK_BOOTTIME else clock(one))
    found = []
    for later in (0, 30, FIRST_PAUSE - 31, 2):
        now[0] += later
        done.clear()
        assert reconcile(host.context()).ok
        found.append(len(done))
    return found


@pytest.mark.parametrize("size, reads", [(set_aside.LARGE, [3, 3, 3, 3]), (2 * set_aside.LARGE, [3, 0, 0, 3])])
def test_large_container_that_needs_nothing_is_read_once_in_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, reads: list[int]
) -> None:
    node = excluded(Host(tmp_path))
    for name in "abc":
        node.run_unseen(name, 500, note="x" * (size - 10_000))
    read: list[str] = []

    def reading(id_: str, *more: Any) -> Workload:
        read.append(id_)
        return workload_of(id_, *more)

    monkeypatch.setattr(discovery, "workload_of", reading)
    assert work_by_pass(node.host, monkeypatch, read) == reads


@pytest.mark.parametrize("size, plans", [(set_aside.LARGE, [1, 1, 1, 1]), (2 * set_aside.LARGE, [1, 0, 0, 1])])
def test_large_container_with_an_impossible_wish_is_planned_once_in_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, plans: list[int]
) -> None:
    node = PlacedHost(Host(tmp_path))
    node.place(monitoring=True)
    config = json.loads(node.host.config.read_text())
    node.host.config.write_text(json.dumps({**config, "rdt": {"enabled": True}}))
    wish = {"class.rdt.resctrl-hooks.io": "forbidden", "note": "x" * (size - 10_000)}
    node.host.call(node.run_unseen("a", 500, **wish))
    planned: list[str] = []

    def planning(id_: str, *more: Any) -> Workload:
        planned.append(id_)
        return recorded_workload(id_, *more)

    monkeypatch.setattr("resctrl_hooks.core.node.container.running.recorded_workload", planning)
    assert work_by_pass(node.host, monkeypatch, planned) == plans
