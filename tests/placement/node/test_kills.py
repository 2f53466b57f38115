"""Containers that start and end at random while hooks are killed: all leftovers are repaired."""

import contextlib
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from conftest import Host
from hosts import hook
from hosts.killed_hook import Killed
from hosts.placed import CPUS, PlacedHost, id_of

from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.placement.node import cpuset_writer as placement_effect
from resctrl_hooks.placement.node import feature as placement
from resctrl_hooks.placement.node import placing
from resctrl_hooks.placement.node.allocations import Book

POOL = "pool.placement.resctrl-hooks.io"
BALLOONS = {
    "policy": "pools",
    "pools": [{"name": "db", "cpus": "0-7,16-23", "minCpus": 2}, {"name": "web", "cpus": "8-11,24-27", "minCpus": 0}],
}
POOLS = ("db", "web", "default")


@pytest.fixture
def node(host: Host) -> PlacedHost:
    return PlacedHost(host)


class Killer:
    """Kills the hook before or after one of its next writes, if it is armed with how many of these to let pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.armed = 0
        for place, name in (
            (placement_effect, "write_value"),
            (placing, "record_decision"),
            (Book, "save"),
            (Book, "written"),
        ):
            monkeypatch.setattr(place, name, self._around(getattr(place, name)))

    def _around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any) -> None:
            self._pass()
            real(*given)
            self._pass()

        return called

    def _pass(self) -> None:
        self.armed -= 1
        if not self.armed:
            raise Killed


class Chance(random.Random):
    """The random events of a node whose hooks may be killed."""

    def __init__(self, seed: int, node: PlacedHost, killer: Killer) -> None:
        super().__init__(seed)
        self._node, self._killer = node, killer

    def arm(self) -> None:
        """Have the next hook killed, or not."""
        self._killer.armed = self.randrange(1, 20) if self.random() < 0.4 else 0

    def start(self, name: str, pools: Sequence[str] = ()) -> None:
        """Start a container of any kind, in one of the pools if there are any."""
        self._node.begin(name)
        wanted = {CPUS: self.choice(["shared", "shared", "exclusive", "mixed"])}
        if pools:
            wanted[POOL] = self.choice(pools)
        hook.call(self._node.told(name, self.randrange(0, 4000), **wanted), self._node.host.context())

    def end(self) -> None:
        """End any container, with or without its poststop."""
        name = self.choice(sorted(self._node.pids))
        self._node.die(name)
        if self.random() < 0.7:
            hook.call(self._node.told(name, status="stopped"), self._node.host.context())


@pytest.mark.parametrize("seed, section", [(0, {}), (1, {}), (2, {}), (3, BALLOONS), (4, BALLOONS)])
def test_random_containers_with_kills_in_between_stay_consistent(
    node: PlacedHost, seed: int, section: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    node.place(**section)
    killer = Killer(monkeypatch)
    chance = Chance(seed, node, killer)
    started = 0
    while started < 50 or node.pids:
        chance.arm()
        with contextlib.suppress(Killed):
            if started < 50 and chance.random() < 0.6:
                started += 1
                chance.start(f"c{started}", POOLS if section else ())
            elif node.pids:
                chance.end()
        if chance.random() < 0.15:
            killer.armed = 0
            assert [*reconcile(node.host.context()).events["problem"]] == []
            node.assert_sound()
            real = node.host.context()
            assert placement.FEATURE.repair(real, set(real.ledger.containers())) == 0
    killer.armed = 0
    reconcile(node.host.context())
    assert Book(node.host.context()).entries == {}


@pytest.mark.parametrize("seed", range(3))
def test_allocation_after_kills_equals_one_computed_from_scratch(
    node: PlacedHost, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty have come, most have gone, hooks were killed: what is left is as the living ones' records say alone."""
    killer = Killer(monkeypatch)
    chance = Chance(seed, node, killer)
    for number in range(50):
        chance.arm()
        with contextlib.suppress(Killed):
            chance.start(f"c{number}")
            if chance.random() < 0.8:
                chance.end()
    killer.armed = 0
    reconcile(node.host.context())
    node.assert_sound()
    assert len(node.pids) > 5
    kept = {name: (node.cpus(name), _decision(node, name)) for name in node.pids}
    assert len({cpus for cpus, _ in kept.values()}) > 1
    book = node.host.state / "placement"
    book.unlink()
    for name in node.pids:
        (node.folder(name) / "cpuset.cpus").write_text("0")
    reconcile(node.host.context())
    node.assert_sound()
    assert {name: (node.cpus(name), _decision(node, name)) for name in node.pids} == kept


def _decision(node: PlacedHost, name: str) -> dict[str, Any]:
    return dict(Book(node.host.context()).entries[id_of(name)].decision.as_record())
