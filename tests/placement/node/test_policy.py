"""Rules for all policies, for any sequence of containers, on every machine."""

import random
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, examples
from hosts.machines import MACHINES, machine
from hosts.placed import PlacedHost
from hosts.work import counted
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.node.policies import POLICIES
from resctrl_hooks.core.node.host.cpulist import count, format_list
from resctrl_hooks.core.node.host.topology import Topology
from resctrl_hooks.placement.node.balloons import instances_of, parts_of
from resctrl_hooks.placement.node.policy import EXCLUSIVE, MIXED, RESERVED, SHARED, Decision, PlacementError, Request
from resctrl_hooks.placement.node.policy_file import load_policy
from resctrl_hooks.placement.node.pools import choose
from resctrl_hooks.placement.node.usage import Grant, Usage, check, effective


def options(topology: Topology) -> dict[str, object]:
    """Return a pool of the first core and one of the last."""
    usable = [core for core in topology.cores if not core & topology.isolated]
    pools: list[dict[str, object]] = [{"name": "first", "cpus": format_list(usable[0])}]
    if len(usable) > 2:
        pools.append({"name": "last", "cpus": format_list(usable[-1]), "namespaces": ["shop"]})
    return {"pools": pools}


requests = st.builds(
    lambda kind, number, milli, pod, space, isolated, one, memory: (
        kind, number if kind in (EXCLUSIVE, MIXED) else 0, milli, f"pod{pod}", space, isolated, one, memory << 28
    ),
    st.sampled_from([SHARED, SHARED, EXCLUSIVE, MIXED, RESERVED]),
    st.integers(1, 5),
    st.integers(0, 6000),
    st.integers(0, 4),
    st.sampled_from(["shop", "other"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 80),
)  # fmt: skip
events = st.lists(st.one_of(requests, st.integers(0, 30)), min_size=1, max_size=25)


@settings(max_examples=examples(40), deadline=None)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", MACHINES)
@given(events=events, reserve=st.booleans())
def test_any_sequence_of_changes_stays_consistent(policy: str, name: str, events: list[object], reserve: bool) -> None:
    topology = MACHINES[name]
    chosen = options(topology)
    reserved = (topology.online & -topology.online) if reserve and count(topology.online) > 2 else 0
    grants: list[Grant] = []
    for number, event in enumerate(events):
        if isinstance(event, int):
            if grants:
                grants.pop(event % len(grants))
        else:
            assert isinstance(event, tuple)
            kind, exclusive, milli, key, space, isolated, one, memory = event
            request = Request(
                f"c{number}", key, namespace=space, kind=kind, exclusive=exclusive, milli=milli, isolated=isolated,
                one_thread=one, memory=memory, options=chosen,
            )  # fmt: skip
            assert request.shared_milli == (0 if kind == EXCLUSIVE else max(milli - 1000 * exclusive, 0))
            usage = Usage(topology, grants, reserved)
            decision = POLICIES[policy](topology, usage, request)
            check(decision, usage)
            if kind in (SHARED, RESERVED):
                assert not decision.owned
            if decision.owned:
                assert count(decision.owned) == exclusive or (one and not split_cores(topology, decision.owned))
            assert not decision.mems & ~topology.memory_nodes
            grants.append(Grant(decision, key))
        usage = Usage(topology, grants, reserved)
        owned = 0
        for grant in grants:
            assert not grant.decision.owned & owned, "two owners"
            owned |= grant.decision.owned
        assert not owned & usage.reserved
        assert usage.common, "the next one finds no CPU"
        assert not usage.idle & (owned | usage.common)
        for grant in grants:
            runs = effective(grant.decision, usage)
            assert runs, "a container without CPUs"
            assert not runs & (~topology.online | usage.idle)
            assert not runs & owned & ~grant.decision.owned, "it runs on exclusive CPUs of another container"
            if grant.decision.kind != RESERVED:
                assert not runs & usage.reserved
                assert not runs & topology.isolated & ~grant.decision.owned
    assert Usage(topology, [], reserved).common == topology.online & ~reserved & ~topology.isolated


def split_cores(topology: Topology, owned: int) -> list[int]:
    """Return the cores of which only some threads are owned."""
    return [core for core in topology.cores if core & owned and core & ~owned]


def test_pool_is_a_set_of_shared_cpus() -> None:
    grants = [
        Grant(Decision(SHARED, "all", cpus=0b1111, milli=500)),
        Grant(Decision(SHARED, "all", cpus=0b1111, milli=250), users=2),
        Grant(Decision(MIXED, "all", cpus=0b1111, owned=0b0010, milli=100)),
        Grant(Decision(EXCLUSIVE, "all", owned=0b0100, milli=1000)),  # shares nothing
        Grant(Decision(RESERVED, "reserved", cpus=0b0001, milli=700)),  # no other container has those either
    ]
    usage = Usage(machine(cores=4, threads=1), grants, reserved=0b0001)
    assert usage.pools() == [0b1111]
    assert usage.load(0b1111) == (850, 4)
    assert usage.load(0b0001) == (0, 0)
    assert (usage.owned, usage.usable, usage.common) == (0b0110, 0b1110, 0b1000)


@pytest.mark.parametrize(
    "decision, words",
    [
        (Decision("any", "x"), "unknown kind"),
        (Decision(SHARED, "x\ty", cpus=0b100), "invalid pool name"),
        (Decision(EXCLUSIVE, "x", owned=0b1), "assigns CPUs 0, which are not free"),
        (Decision(EXCLUSIVE, "x", owned=1 << 40), "offline"),
        (Decision(EXCLUSIVE, "x", owned=0b10), "which are not free"),
        (Decision(EXCLUSIVE, "x", owned=0b100, hidden=0b100), "no exclusive CPUs"),
        (Decision(EXCLUSIVE, "x"), "no exclusive CPUs"),
        (Decision(EXCLUSIVE, "x", owned=0b11111100), "leaves other containers without CPUs"),
        (Decision(SHARED, "x", cpus=0b1), "pool x has no CPUs"),
        (Decision(SHARED, "x"), "pool x has no CPUs"),
    ],
)
def test_policy_violations_are_refused(decision: Decision, words: str) -> None:
    topology = machine(cores=4, threads=2)
    usage = Usage(topology, [Grant(Decision(EXCLUSIVE, "y", owned=0b1))], reserved=0b10)
    with pytest.raises(PlacementError, match=words):
        check(decision, usage)


MINE = """
from .policy import Decision, SHARED

def choose(topology, usage, request):
    return Decision(SHARED, "mine", cpus=topology.online, why="I say so")
"""


@pytest.mark.parametrize(
    "text, mode, words",
    [
        (MINE, 0o666, "it is owned or writable by a user other than root"),
        ("def choose(:", 0o644, "SyntaxError"),
        ("raise OSError(1, 'no')", 0o644, "cannot use"),
        ("x = 1", 0o644, "has no function choose"),
        ("def choose(*_): return None", 0o644, "returned NoneType"),
        ("def choose(*_): return 1/0", 0o644, "failed: ZeroDivisionError"),
    ],
)
def test_unusable_policy_is_reported(tmp_path: Path, text: str, mode: int, words: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    file.chmod(mode)
    topology = machine()
    with pytest.raises(PlacementError, match=words):
        load_policy(str(file))(topology, Usage(topology, []), Request("a"))


# Pools that grow and shrink, with several instances, limits and idle CPUs


@pytest.mark.parametrize("key", ["minInstances", "maxInstances", "minCpus", "maxCpus"])
@pytest.mark.parametrize("number", [100_000_000, 2**63])
def test_huge_number_of_a_compiled_pool_costs_a_hook_no_more_work(host: Host, key: str, number: int) -> None:
    node = PlacedHost(host)
    node.place(policy="pools", pools=[{"name": "db", "cpus": "0-3", "minInstances": 1, key: number}])
    with counted(200_000):
        node.start("late", 500, **{"pool.placement.resctrl-hooks.io": "db"})
    assert node.cpus("late")


# The machine of `PlacedHost`: l3-0: 0-3,16-19  l3-1: 4-7,20-23  l3-2: 8-11,24-27  l3-3: 12-15,28-31
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
    node = PlacedHost(host)
    node.place(policy="pools", pools=[{"name": "web", "namespaces": ["shop"]} | pool], allow={"shop": ["web"]})
    names = [f"c{number}" for number in range(len(milli))]
    for name, one in zip(names, milli, strict=True):
        node.start(name, one)
    node.assert_sound()
    assert [node.cpus(name) for name in names] == cpus


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
