"""A container whose plan takes all processor time, among others that a pass of reconcile serves."""

import json
import time
from typing import Any

import pytest
from conftest import Host
from hosts.placed import CPUS, PlacedHost, id_of

from resctrl_hooks.core.node import set_aside
from resctrl_hooks.core.node.container import running
from resctrl_hooks.core.node.container.workload import Workload
from resctrl_hooks.core.node.features.scheduling import Scheduling
from resctrl_hooks.core.node.reconcile import discovery
from resctrl_hooks.core.node.settings import Settings
from resctrl_hooks.placement.node import placing, request
from resctrl_hooks.placement.node.policy import Request

HOUSES = ("placement",)


class Boot:
    """The seconds since the boot."""

    now = 1000.0

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock, boot = time.clock_gettime, time.CLOCK_BOOTTIME
        monkeypatch.setattr(time, "clock_gettime", lambda one: self.now if one == boot else clock(one))


class Node(PlacedHost):
    """A node on which the plan of the container ``bad`` never ends."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(host)
        self.boot = Boot(monkeypatch)
        self.plans = 0
        self.ends = False
        monkeypatch.setattr(set_aside, "MOST_SECONDS", 0.05)
        monkeypatch.setattr(set_aside, "_AGAIN", 0.05)

        def request_of(workload: Workload, settings: Settings) -> Request:
            if workload.container == "bad":
                self.plans += 1
                while not self.ends:
                    pass
            return request.request_of(workload, settings)

        monkeypatch.setattr(placing, "request_of", request_of)

    def pause(self) -> int:
        found: int = json.loads((self.host.state / set_aside.FILE).read_text())[id_of("bad")][1]
        return found


@pytest.fixture
def node(host: Host, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(host, monkeypatch)


def test_container_with_an_endless_plan_is_set_aside_and_the_others_are_placed(node: Node) -> None:
    """For a pause that grows, until its plan ends or the node boots."""
    node.start("victim", 4000, **{CPUS: "exclusive"})
    node.run_unseen("bad", 500)
    node.run_unseen("other", 500)
    node.reconcile()
    assert node.cpus("other") == "2-3,18-19"
    said = f"container {id_of('bad')[:12]} is set aside for {set_aside.FIRST_PAUSE} s"
    assert node.host.log.read_text().count(said) == 1
    pauses = []
    for _ in range(8):
        tries = node.plans
        pauses.append(node.pause())
        node.boot.now += pauses[-1] - 1
        report = node.reconcile()
        assert node.plans == tries
        assert any("set aside" in str(one) for one in (*report.events["problem"], *report.events["failed"].values()))
        node.boot.now += 1
        node.reconcile()
        assert node.plans > tries
    assert pauses == [min(set_aside.FIRST_PAUSE << number, set_aside.LONGEST_PAUSE) for number in range(8)]
    tries, node.boot.now = node.plans, 1.0  # a pause of an earlier boot does not count
    node.reconcile()
    assert node.plans > tries
    node.boot.now += node.pause()
    node.ends = True
    node.reconcile()
    assert node.cpus("bad") == node.cpus("other")
    assert not (node.host.state / set_aside.FILE).exists()


def configure(node: PlacedHost, **config: Any) -> None:
    """Add sections to the node's configuration."""
    node.config.write_text(json.dumps(json.loads(node.config.read_text()) | config))


def test_feature_with_an_endless_plan_leaves_a_container_its_other_features(node: Node, monkeypatch: Any) -> None:
    defaults = {"namespaces": {"*": "low"}}
    configure(node, scheduling={"enabled": True, "classes": {"low": {"nice": 3}}, "defaults": defaults})
    node.start("victim", 500)
    node.run_unseen("good", 500)
    tries = []

    def endless(*_: object) -> Any:
        tries.append(1)
        while True:
            pass

    monkeypatch.setattr(Scheduling, "plan", endless)
    node.reconcile()
    assert node.cpus("good")
    before = len(tries)
    node.reconcile()
    assert len(tries) == before


@pytest.mark.parametrize("size, works", [(set_aside.LARGE, True), (2 * set_aside.LARGE, False)])
@pytest.mark.parametrize("wish", [False, True])
def test_large_container_without_need_or_with_an_impossible_wish_is_examined_once_in_a_pause(
    host: Host, monkeypatch: pytest.MonkeyPatch, size: int, *, works: bool, wish: bool
) -> None:
    node, boot, note = PlacedHost(host), Boot(monkeypatch), "x" * (size - 10_000)
    if wish:
        node.place(monitoring=True)
        configure(node, rdt={"enabled": True})
        node.call(node.run_unseen("a", 500, note=note, **{"class.rdt.resctrl-hooks.io": "forbidden"}))
    else:  # no feature serves the namespace of its containers
        node.place(namespaces=["other"])
        for name in "abc":
            node.run_unseen(name, 500, note=note)
    owner, name = (running, "recorded_workload") if wish else (discovery, "workload_of")
    real, done = getattr(owner, name), []

    def examine(id_: str, *more: Any) -> Workload:
        done.append(id_)
        found: Workload = real(id_, *more)
        return found

    monkeypatch.setattr(owner, name, examine)
    each = 1 if wish else 3
    for later, expected in ((0, each), (30, each * works), (set_aside.FIRST_PAUSE - 31, each * works), (2, each)):
        boot.now += later
        done.clear()
        assert node.reconcile().ok
        assert len(done) == expected
