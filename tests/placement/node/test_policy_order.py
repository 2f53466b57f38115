"""What the order in which containers come may change, and what it may not, by each policy of ours on every machine.

The k-th of equal requests gets the same, whatever it is called, and how the grants are listed says nothing. When all
fit, the order decides which CPUs are whose and nothing else: neither who gets CPUs of its own nor how many, nor who
shares, nor how much is left. When they don't fit, the first to come is served: nothing is said of that here.
"""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from conftest import examples
from hosts.machines import MACHINES
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.node.policies import POLICIES
from resctrl_hooks.core.node.host.cpulist import count, format_list
from resctrl_hooks.placement.node.policy import EXCLUSIVE, MILLI, MIXED, RESERVED, SHARED, Decision, Request
from resctrl_hooks.placement.node.usage import Grant, Usage, check, effective

pytestmark = pytest.mark.no_cover


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
        self.usable = online & ~self.topology.isolated & ~self.reserved
        cores = [core for core in self.topology.cores if core & self.usable == core]
        self.half = sum(cores[: len(cores) // 2])
        self.pools = [{"name": "half", "cpus": format_list(self.half), "namespaces": ["shop"]}]
        self.thread_counts = {count(core) for core in self.topology.cores}

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

    def whole(self, cpus: int) -> int:
        """Return the CPUs of a set's whole cores."""
        return sum(core for core in self.topology.cores if core & cpus == core)

    def cost(self, request: Request) -> int:
        """Return the most CPUs that its whole cores can be: exact where all cores have as many threads."""
        most = max(self.thread_counts)
        if len(self.thread_counts) == 1:
            return -(-request.exclusive // most) * most
        return request.exclusive + most - 1

    def fitting(self, policy: str, requests: list[Request]) -> list[Request]:
        """Return those of them that fit all together, in any order.

        Each part of the machine without parts in which somebody may share keeps a core, and so does each named pool.
        """
        if policy == "pools":
            sets = {"shop": self.half, "other": self.usable & ~self.half}
            kept = 1
        else:
            sets = dict.fromkeys(("shop", "other"), self.usable)
            leaves = [domain for domain in self.topology.domains if not domain.height]
            kept = max(1, min(len(leaves), sum(as_asked(request, self) in (SHARED, MIXED) for request in requests)))
        left = {cpus: count(self.whole(cpus)) - kept * max(self.thread_counts) for cpus in sets.values()}
        found = []
        for request in requests:
            cost = self.cost(request) if request.exclusive else 0
            if cost <= max(left[sets[request.namespace]], 0):
                left[sets[request.namespace]] -= cost
                found.append(request)
        return found

    def isolated_suffice(self, requests: list[Request]) -> bool:
        """Return whether all containers that prefer isolated CPUs get some, or none prefers them."""
        wanted = sum(self.cost(request) for request in requests if request.isolated)
        return wanted <= count(self.whole(self.topology.isolated & ~self.reserved))


def as_asked(request: Request, machine: Machine) -> str:
    """Return the kind of place that a request gets where it fits."""
    if request.kind == RESERVED and not machine.reserved:
        return SHARED
    if request.kind == MIXED and not request.shared_milli:
        return EXCLUSIVE
    return request.kind


@in_any_order(60)
def test_order_decides_only_the_owner_of_cpus_if_all_fit(
    policy: str, name: str, wanted: list[Wish], reserve: bool, shuffle: random.Random
) -> None:
    machine = Machine(name, reserve=reserve)
    named = [wish.request(f"c{place}", f"pod{wish.pod}", machine.pools) for place, wish in enumerate(wanted)]
    requests = machine.fitting(policy, named)
    order = shuffle.sample(requests, len(requests))
    first, second = machine.place(policy, requests), machine.place(policy, order)
    even = len(machine.thread_counts) == 1
    for request in requests:
        one, other = first[request.id].decision, second[request.id].decision
        for decision in (one, other):
            assert decision.kind == as_asked(request, machine), "who shares"
            assert decision.milli == (request.shared_milli if request.exclusive else request.milli)
            assert request.exclusive <= count(decision.owned) <= machine.cost(request), "satisfied, without waste"
        if policy == "pools":
            assert (one.pool, one.cpus) == (other.pool, other.cpus) or request.exclusive
        if even:
            assert (count(one.owned), count(one.hidden)) == (count(other.owned), count(other.hidden))
    ends = [machine.usage(list(grants.values())) for grants in (first, second)]
    root = machine.topology.root.cpus
    assert ends[0].load(root) == ends[1].load(root)
    if even:
        assert count(ends[0].owned) == count(ends[1].owned)
        if machine.isolated_suffice(requests):
            # The order may decide which pools need idle threads.
            assert count(ends[0].common | ends[0].idle) == count(ends[1].common | ends[1].idle)
            assert ends[0].room(root, lent=True) == ends[1].room(root, lent=True)
            # The other thread of a half-used core may be lent, or its core be split again.
            if all(not request.exclusive % max(machine.thread_counts) for request in requests):
                assert count(machine.whole(ends[0].common)) == count(machine.whole(ends[1].common))


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
