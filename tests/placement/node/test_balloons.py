"""Pools that grow and shrink with the requests of their containers."""

import random
from typing import Any

import pytest
from conftest import Host
from hosts.machines import MACHINES
from hosts.placed import PlacedHost
from hosts.work import counted

from resctrl_hooks.core.node.host.cpulist import count, format_list
from resctrl_hooks.core.node.host.topology import Topology
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.balloons import instances_of, parts_of
from resctrl_hooks.placement.node.policy import SHARED, PlacementError, Request
from resctrl_hooks.placement.node.pools import choose
from resctrl_hooks.placement.node.usage import Grant, Usage, check, effective

# The machine of `PlacedHost`: 16 cores; the second threads are CPUs 16 to 31.
POOLS: list[dict[str, Any]] = [
    {"name": "db", "cpus": "0-3,16-19", "minCpus": 2, "namespaces": ["shop"]},
    {"name": "fixed", "cpus": "4-5,20-21"},
]
POOL = "pool.placement.resctrl-hooks.io"


@pytest.fixture
def node(host: Host) -> PlacedHost:
    node = PlacedHost(host)
    node.place(policy="pools", pools=POOLS)
    return node


@pytest.mark.parametrize(
    "bad", [{"cpus": "1"}, {"name": "a", "maxCpus": "x"}, {"name": "a", "cpus": "x"}, POOLS[1] | {"minCpus": "x"}, 5]
)
def test_invalid_pool_in_settings_is_placement_error(node: PlacedHost, bad: Any) -> None:
    node.start("a", 500)
    real = node.host.context()
    real.settings.sections["placement"]["pools"] = [POOLS[0], bad]  # as in a handwritten file
    with pytest.raises(PlacementError, match=r"invalid placement\.pools"):
        Book(real)


@pytest.mark.parametrize("key", ["minInstances", "maxInstances", "minCpus", "maxCpus"])
@pytest.mark.parametrize("number", [100_000_000, 2**63])
def test_huge_number_of_a_compiled_pool_costs_a_hook_no_more_work(node: PlacedHost, key: str, number: int) -> None:
    node.place(policy="pools", pools=[{"name": "db", "cpus": "0-3", "minInstances": 1, key: number}])
    with counted(200_000):
        node.start("late", 500, **{POOL: "db"})
    assert node.cpus("late")


# Pools with several instances, limits and idle CPUs

# The machine of `PlacedHost`: l3-0: 0-3,16-19  l3-1: 4-7,20-23  l3-2: 8-11,24-27  l3-3: 12-15,28-31
ALLOW = {"shop": ["web", "one", "rt"]}  # whole CPUs of the Guaranteed pod are shared


def placed(host: Host, *pools: dict[str, Any], **section: Any) -> PlacedHost:
    node = PlacedHost(host)
    node.place(policy="pools", pools=[{"namespaces": ["shop"], **pool} for pool in pools], allow=ALLOW, **section)
    return node


def starts(node: PlacedHost, *milli: int) -> list[str]:
    """Start containers with these requests; return their CPUs at the end."""
    for place, one in enumerate(milli):
        node.start(f"c{place}", one)
    node.assert_sound()
    return [node.cpus(f"c{place}") for place in range(len(milli))]


@pytest.mark.parametrize(
    "pool, milli, cpus",
    [
        ({}, (500, 3000), ["0-1,16-17", "0-1,16-17"]),  # anywhere on the node
        ({"maxCpus": 4, "maxInstances": 0}, (3000, 2000), ["0-1,16-17", "2,18"]),  # a new one if the first is full
        ({"maxCpus": 4, "maxInstances": 0}, (3000, 1000), ["0-1,16-17", "0-1,16-17"]),
        ({"instancePer": "container"}, (500, 500), ["0,16", "1,17"]),
        ({"instancePer": "container", "spread": True}, (500, 500), ["0,16", "4,20"]),
        ({"instancePer": "container", "maxInstances": 1}, (500, 500), ["0,16", "0,16"]),
        ({"instancePer": "pod"}, (500, 500), ["0,16", "0,16"]),
        ({"instancePer": "namespace"}, (500, 500), ["0,16", "0,16"]),
        ({"instancePer": "${name}"}, (500, 500), ["0,16", "1,17"]),
        ({"spreadCores": True}, (2000,), ["0-1"]),
        ({"spreadCores": True, "maxCpus": 1}, (500,), ["0"]),
        ({"hideHyperthreads": True}, (2000,), ["0"]),
        ({"cpus": "0-3,16-19", "hideHyperthreads": True}, (2000,), ["0-3"]),
        ({"shareIdleCpus": "l3"}, (500,), ["0-3,16-19"]),
        ({"shareIdleCpus": "core", "spreadCores": True}, (1000,), ["0,16"]),
        ({"shareIdleCpus": "system", "instancePer": "container"}, (500, 500), ["0,2-16,18-31", "1-15,17-31"]),
        ({"minCpus": 4, "minInstances": 2, "maxInstances": 0, "maxCpus": 4}, (4000, 500), ["0-1,16-17", "2-3,18-19"]),
    ],
)
def test_keys_of_pool_decide_instance_and_cpus(
    host: Host, pool: dict[str, Any], milli: tuple[int, ...], cpus: list[str]
) -> None:
    assert starts(placed(host, {"name": "web"} | pool), *milli) == cpus


def usage_of(topology: Topology, grants: list[Grant], pools: list[dict[str, Any]]) -> Usage:
    usage = Usage(topology, grants)
    usage.parts, usage.homes = parts_of(pools, usage)
    return usage


@pytest.mark.parametrize("name", MACHINES)
def test_instances_are_disjoint_and_independent_of_the_order_of_ends(name: str) -> None:
    topology, chance = MACHINES[name], random.Random(name)
    choices: dict[str, list[Any]] = {
        "minCpus": [None, 1, 2],
        "maxCpus": [None, 2, 4, 8],
        "minInstances": [None, 1],
        "maxInstances": [None, 0, 2],
        "instancePer": ["", "container", "pod", "namespace"],
        "spread": [False, True],
        "spreadCores": [False, True],
    }
    for _ in range(40):
        pools = [{"name": one, **{key: chance.choice(values) for key, values in choices.items()}} for one in ("a", "b")]
        grants: dict[str, Grant] = {}
        for number in range(14):
            request = Request(
                f"c{number}", f"pod{chance.randrange(3)}", namespace=chance.choice(["x", "y"]),
                pool=chance.choice(["a", "b", "default"]), milli=chance.choice([0, 100, 900, 2500]),
                kind=SHARED, options={"pools": pools},
            )  # fmt: skip
            usage = usage_of(topology, list(grants.values()), pools)
            try:
                decision = choose(topology, usage, request)
                check(decision, usage)
            except PlacementError:
                continue
            grants[request.id] = Grant(decision, request.key)
            if chance.random() < 0.3:
                del grants[chance.choice(list(grants))]
            usage = usage_of(topology, list(grants.values()), pools)
            taken = 0
            for one in instances_of(pools, usage):
                assert not one.home & (taken | ~usage.common), "a CPU has one instance"
                taken |= one.home
                assert count(one.home) <= max(one.size(), 1) + 1, "whole cores, no more"
            for grant in grants.values():
                runs = effective(grant.decision, usage)
                assert runs
                if usage.homes.get(grant.decision.pool):
                    assert not runs & ~usage.homes[grant.decision.pool]
        listed = list(grants.values())
        parts = usage_of(topology, listed, pools).parts
        assert parts == usage_of(topology, chance.sample(listed, len(listed)), pools).parts
        before = {place: format_list(cpus) for place, cpus in parts.items()}
        usage = usage_of(topology, listed, pools)
        try:
            decision = choose(topology, usage, Request("x", pool="a", milli=2500, options={"pools": pools}))
        except PlacementError:
            continue
        usage_of(topology, [*listed, Grant(decision)], pools)
        after = usage_of(topology, listed, pools).parts
        assert {place: format_list(cpus) for place, cpus in after.items()} == before, "an end restores the state before"
