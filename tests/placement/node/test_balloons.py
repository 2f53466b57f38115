"""Pools that grow and shrink with the requests of their containers."""

import random
from typing import Any

import pytest
from conftest import Host
from hosts.machines import MACHINES, machine
from hosts.placed import PlacedHost
from hosts.work import counted

from resctrl_hooks.core.node.host.cpulist import count, format_list, parse_list
from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.placement.node.allocations import Book
from resctrl_hooks.placement.node.balloons import parts_of
from resctrl_hooks.placement.node.policy import EXCLUSIVE, SHARED, Decision, PlacementError
from resctrl_hooks.placement.node.usage import Grant, Usage, effective

# The machine of `PlacedHost`: 16 cores; the second threads are CPUs 16 to 31.
POOLS: list[dict[str, Any]] = [
    {"name": "db", "cpus": "0-3,16-19", "minCpus": 2, "namespaces": ["shop"]},
    {"name": "fixed", "cpus": "4-5,20-21"},
]
POOL = "pool.placement.resctrl-hooks.io"


def parts(*grants: Grant) -> dict[str, str]:
    topology = machine(1, 1, 2, 4, 2)  # cores 0,8 to 7,15
    pools: list[dict[str, Any]] = [{"name": "db", "cpus": "0-3,8-11", "minCpus": 2}, {"name": "fixed", "cpus": "4,12"}]
    usage = Usage(topology, list(grants))
    return {name: format_list(cpus) for name, cpus in parts_of(pools, usage)[0].items()}


def shares(milli: int, pool: str = "db", users: int = 1) -> Grant:
    return Grant(Decision(SHARED, pool, cpus=parse_list("0-3,8-11")), milli=milli, users=users)


@pytest.mark.parametrize(
    "milli, cpus, rest",
    [
        (0, "0,8", "1-3,5-7,9-11,13-15"),  # minCpus
        (2000, "0,8", "1-3,5-7,9-11,13-15"),
        (2001, "0-1,8-9", "2-3,5-7,10-11,13-15"),  # whole cores
        (6500, "0-3,8-11", "5-7,13-15"),
        (99000, "0-3,8-11", "5-7,13-15"),  # all of its CPUs
    ],
)
def test_pool_has_whole_cores_for_its_requests_and_default_the_others(milli: int, cpus: str, rest: str) -> None:
    assert parts(shares(milli)) == {"db": cpus, "default": rest}


def test_pool_without_containers_uses_no_cpus() -> None:
    assert parts() == {"db": "", "default": "0-3,5-11,13-15"}
    assert parts(shares(5000, "fixed")) == {"db": "", "default": "0-3,5-11,13-15"}


def test_exclusive_cpus_of_pool_are_outside_its_part() -> None:
    owns = Grant(Decision(EXCLUSIVE, "db", owned=parse_list("0,8")))
    assert parts(owns) == {"db": "", "default": "1-3,5-7,9-11,13-15"}
    assert parts(owns, shares(3000)) == {"db": "1-2,9-10", "default": "3,5-7,11,13-15"}


@pytest.mark.parametrize("name", MACHINES)
def test_parts_are_disjoint_and_enough_on_every_machine(name: str) -> None:
    topology, chance = MACHINES[name], random.Random(name)
    cpus = [cpu for cpu in range(64) if topology.online >> cpu & 1]
    for _ in range(50):
        chance.shuffle(cpus)
        cut = chance.randrange(1, len(cpus))
        sets = {"a": cpus[:cut], "b": cpus[cut:]}
        pools = [
            {"name": one, "cpus": ",".join(map(str, of)), "minCpus": chance.randrange(3)} for one, of in sets.items()
        ]
        milli = {one: chance.randrange(9000) for one in sets}
        grants = [
            Grant(Decision(SHARED, one, cpus=sum(1 << cpu for cpu in of)), milli=milli[one]) for one, of in sets.items()
        ]
        usage = Usage(topology, grants)
        usage.parts, usage.homes = parts_of(pools, usage)
        total = 0
        for grant, pool in zip(grants, pools, strict=True):
            own = usage.parts[grant.decision.pool]
            assert not own & (total | ~grant.decision.cpus | ~usage.common)
            total |= own
            wanted = max(-(-grant.milli // 1000), int(str(pool["minCpus"])), 1)
            assert count(own) >= min(wanted, count(grant.decision.cpus & usage.common))
            assert effective(grant.decision, usage) == own or not own
        assert usage.parts["default"] == usage.common & ~total


@pytest.fixture
def node(host: Host) -> PlacedHost:
    node = PlacedHost(host)
    node.place(policy="pools", pools=POOLS)
    return node


def test_pool_grows_and_shrinks_with_its_containers(node: PlacedHost) -> None:
    node.start("other", 500, **{POOL: "default"})
    assert node.cpus("other") == "0-3,6-19,22-31"
    node.start("a", 500)
    assert (node.cpus("a"), node.cpus("other")) == ("0,16", "1-3,6-15,17-19,22-31")
    node.start("b", 3100)
    assert (node.cpus("a"), node.cpus("b"), node.cpus("other")) == ("0-1,16-17", "0-1,16-17", "2-3,6-15,18-19,22-31")
    node.start("c", 9100)
    assert (node.cpus("a"), node.cpus("other")) == ("0-3,16-19", "6-15,22-31")
    node.assert_sound()
    node.stop("c")
    node.stop("b")
    assert (node.cpus("a"), node.cpus("other")) == ("0,16", "1-3,6-15,17-19,22-31")
    node.stop("a")
    assert node.cpus("other") == "0-3,6-19,22-31"
    node.assert_sound()


@pytest.mark.parametrize("by_hook", [True, False])
def test_changed_minimum_applies_to_running_containers(node: PlacedHost, *, by_hook: bool) -> None:
    node.start("a", 500)
    for least, cpus in ((4, "0-1,16-17"), (None, "0-3,16-19"), (0, "0,16")):
        node.place(policy="pools", pools=[POOLS[0] | {"minCpus": least}])
        if by_hook:
            node.start(f"b{least}", 0, **{POOL: "default"})
        else:
            reconcile(node.host.context())
        assert node.cpus("a") == cpus
        node.assert_sound()


@pytest.mark.parametrize("least", [None, 1])
def test_declared_default_pool_has_its_own_cpus(node: PlacedHost, least: "int | None") -> None:
    own = {"name": "default", "cpus": "0-3,16-19", "minCpus": least}
    node.place(policy="pools", pools=[own, {"name": "grow", "cpus": "4-7,20-23", "minCpus": 1}])
    node.start("a", 500)
    node.start("b", 500, **{POOL: "grow"})
    assert (node.cpus("a"), node.cpus("b")) == ("0-3,16-19" if least is None else "0,16", "4,20")
    node.assert_sound()


def test_pools_do_not_grow_under_another_policy(node: PlacedHost) -> None:
    node.place(policy="topology-aware", pools=[{"name": "l3-0", "cpus": "8-11,24-27", "minCpus": 2}])
    node.start("a", 500)  # in the part of the machine with that name
    assert node.cpus("a") == "0-3,16-19"
    node.assert_sound()


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
