"""Rules for all policies, for any sequence of containers, on every machine."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import examples
from hosts.machines import MACHINES, machine
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.node.policies import POLICIES
from resctrl_hooks.core.node.host.cpulist import count, format_list
from resctrl_hooks.core.node.host.topology import Topology
from resctrl_hooks.placement.node.policy import (
    EXCLUSIVE,
    MILLI,
    MIXED,
    RESERVED,
    SHARED,
    Decision,
    PlacementError,
    Request,
)
from resctrl_hooks.placement.node.policy_file import load_policy
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


# What the order in which containers come may change, and what it may not, by each policy of ours on every machine


class Wish(NamedTuple):
    """A request without a name."""

    kind: str
    own: int
    part: int
    limit: int
    pod: int
    space: str
    isolated: bool
    one_thread: bool

    def request(self, id_: str, key: str, pools: list[dict[str, Any]]) -> Request:
        own = self.own if self.kind in (EXCLUSIVE, MIXED) else 0
        # Of a mixed one, the part beyond its exclusive CPUs; of an exclusive one nothing.
        milli = own * MILLI + (self.part if self.kind != EXCLUSIVE else 0)
        return Request(
            id_, key, namespace=self.space, kind=self.kind, exclusive=own, milli=milli, limit=self.limit,
            isolated=bool(own) and self.isolated, one_thread=self.one_thread, options={"pools": pools},
        )  # fmt: skip


wishes = st.lists(
    st.builds(
        Wish,
        st.sampled_from([SHARED, SHARED, EXCLUSIVE, EXCLUSIVE, MIXED, RESERVED]),
        st.integers(1, 9),
        st.sampled_from([0, 1, 500, 1000, 3500, 20_000]),
        st.sampled_from([0, 0, 1000, 6000]),
        st.integers(0, 3),
        st.sampled_from(["shop", "other"]),
        st.sampled_from([False, False, True]),
        st.booleans(),
    ),
    max_size=12,
)


def in_any_order(number: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with so many lists of wishes and their shuffles, by each policy, on each machine."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        given_order = given(wanted=wishes, reserve=st.booleans(), shuffle=st.randoms(use_true_random=False))
        repeated = settings(max_examples=examples(number), deadline=None)(given_order(test))
        by_policy: Callable[..., None] = pytest.mark.parametrize("policy", POLICIES)(repeated)
        on_each: Callable[..., None] = pytest.mark.parametrize("name", MACHINES)(by_policy)
        return on_each

    return decorated


class Machine:
    """A machine with a pool of the first half of its cores, for the namespace `shop`, and perhaps a reserved CPU."""

    def __init__(self, name: str, *, reserve: bool) -> None:
        self.topology = MACHINES[name]
        online = self.topology.online
        self.reserved = online & -online if reserve else 0
        usable = online & ~self.topology.isolated & ~self.reserved
        cores = [core for core in self.topology.cores if core & usable == core]
        half = format_list(sum(cores[: len(cores) // 2]))
        self.pools = [{"name": "half", "cpus": half, "namespaces": ["shop"]}]

    def usage(self, grants: list[Grant]) -> Usage:
        return Usage(self.topology, grants, self.reserved)

    def place(self, policy: str, requests: list[Request]) -> dict[str, Grant]:
        """Return the grants of containers that come in this order, by id."""
        grants: dict[str, Grant] = {}
        for request in requests:
            usage = self.usage(list(grants.values()))
            decision = POLICIES[policy](self.topology, usage, request)
            check(decision, usage)
            grants[request.id] = Grant(decision, request.key)
        return grants


def record(decision: Decision) -> dict[str, Any]:
    return decision.as_record() | {"why": decision.why, "runners_up": decision.runners_up}


@in_any_order(25)
def test_equal_requests_get_same_grants_in_any_order(
    policy: str, name: str, wanted: list[Wish], reserve: bool, shuffle: random.Random
) -> None:
    """In any order, with any names of containers and pods, fitting or not."""
    machine = Machine(name, reserve=reserve)
    places = list(range(len(wanted)))
    names = shuffle.sample(places, len(places))
    pods = shuffle.sample(range(4), 4)
    runs = []
    for ids, keys in ((places, range(4)), (names, pods)):
        requests = [
            wish.request(f"c{id_}", f"pod{keys[wish.pod]}", machine.pools)
            for id_, wish in zip(ids, wanted, strict=True)
        ]
        grants = machine.place(policy, requests)
        runs.append(([record(grants[request.id].decision) for request in requests], list(grants.values())))
    assert runs[0][0] == runs[1][0]
    assert machine.usage(runs[0][1]).common == machine.usage(runs[1][1]).common


@in_any_order(25)
def test_order_of_grants_has_no_effect(
    policy: str, name: str, wanted: list[Wish], reserve: bool, shuffle: random.Random
) -> None:
    """Allocations are stored by place, not by arrival: the next decision and all grants stay the same."""
    machine = Machine(name, reserve=reserve)
    requests = [wish.request(f"c{place}", f"pod{wish.pod}", machine.pools) for place, wish in enumerate(wanted)]
    grants = list(machine.place(policy, requests[1:]).values())
    listed = machine.usage(grants), machine.usage(shuffle.sample(grants, len(grants)))
    for request in requests[:1]:
        one, other = (POLICIES[policy](machine.topology, usage, request) for usage in listed)
        assert record(one) == record(other)
    for grant in grants:
        assert effective(grant.decision, listed[0]) == effective(grant.decision, listed[1])
