"""What the order in which containers come may change, and what it may not, by each policy of ours on every machine.

The k-th of equal requests gets the same, whatever it is called, and how the grants are listed says nothing. When all
fit, the order decides which CPUs are whose and nothing else: neither who gets CPUs of its own nor how many, nor who
shares, nor how much is left. When they don't fit, the first to come is served: nothing is said of that here.
"""

import random
from collections.abc import Callable, Iterable
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
ALIKE = [name for name, one in MACHINES.items() if not one.isolated and len({*map(count, one.cores)}) == 1]
"""Machines whose cores are all alike."""


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


def in_any_order(number: int, machines: Iterable[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with so many lists of wishes and their shuffles, by each policy, on these machines."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        given_order = given(wanted=wishes, reserve=st.booleans(), shuffle=st.randoms(use_true_random=False))
        repeated = settings(max_examples=examples(number), deadline=None)(given_order(test))
        by_policy: Callable[..., None] = pytest.mark.parametrize("policy", POLICIES)(repeated)
        on_each: Callable[..., None] = pytest.mark.parametrize("name", machines)(by_policy)
        return on_each

    return decorated


class Machine:
    """A machine with a pool of the first half of its cores, for the namespace `shop`, and perhaps a reserved CPU."""

    def __init__(self, name: str, *, reserve: bool) -> None:
        self.topology = MACHINES[name]
        online = self.topology.online
        self.reserved = online & -online if reserve else 0
        self.usable = online & ~self.topology.isolated & ~self.reserved
        self.half = sum(self.cores(self.usable)[: len(self.cores(self.usable)) // 2])
        self.pools = [{"name": "half", "cpus": format_list(self.half), "namespaces": ["shop"]}]
        self.threads = count(self.topology.cores[0])

    def usage(self, grants: list[Grant]) -> Usage:
        return Usage(self.topology, grants, self.reserved)

    def place(self, policy: str, requests: list[Request]) -> list[Grant]:
        """Return the grants of containers that come in this order."""
        grants: list[Grant] = []
        for request in requests:
            usage = self.usage(grants)
            decision = POLICIES[policy](self.topology, usage, request)
            check(decision, usage)
            grants.append(Grant(decision, request.key))
        return grants

    def cores(self, cpus: int) -> list[int]:
        """Return the whole cores of a set."""
        return [core for core in self.topology.cores if core & cpus == core]

    def cost(self, request: Request) -> int:
        """Return the CPUs of its whole cores, of those that are alike."""
        return -(-request.exclusive // self.threads) * self.threads

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
        left = {cpus: (len(self.cores(cpus)) - kept) * self.threads for cpus in sets.values()}
        found = []
        for request in requests:
            if self.cost(request) <= max(left[sets[request.namespace]], 0):
                left[sets[request.namespace]] -= self.cost(request)
                found.append(request)
        return found


def as_asked(request: Request, machine: Machine) -> str:
    """Return the kind of place that a request gets where it fits."""
    if request.kind == RESERVED and not machine.reserved:
        return SHARED
    if request.kind == MIXED and not request.shared_milli:
        return EXCLUSIVE
    return request.kind


@in_any_order(60, ALIKE)
def test_order_decides_only_the_owner_of_cpus_if_all_fit(
    policy: str, name: str, wanted: list[Wish], reserve: bool, shuffle: random.Random
) -> None:
    machine = Machine(name, reserve=reserve)
    plain = [wish._replace(isolated=False) for wish in wanted]
    named = [wish.request(f"c{place}", f"pod{wish.pod}", machine.pools) for place, wish in enumerate(plain)]
    requests = machine.fitting(policy, named)
    order = shuffle.sample(range(len(requests)), len(requests))
    first, later = machine.place(policy, requests), machine.place(policy, [requests[place] for place in order])
    second = [later[order.index(place)] for place in range(len(requests))]
    for request, *grants in zip(requests, first, second, strict=True):
        one, other = (grant.decision for grant in grants)
        for decision in (one, other):
            assert decision.kind == as_asked(request, machine), "who shares"
            assert decision.milli == (request.shared_milli if request.exclusive else request.milli)
            assert request.exclusive <= count(decision.owned) <= machine.cost(request), "satisfied, without waste"
        if policy == "pools":
            assert (one.pool, one.cpus) == (other.pool, other.cpus) or request.exclusive
        assert (count(one.owned), count(one.hidden)) == (count(other.owned), count(other.hidden))
    root = machine.topology.root.cpus
    ends = [machine.usage(grants) for grants in (first, later)]
    left = [(end.load(root), count(end.owned), count(end.common | end.idle), end.room(root, lent=True)) for end in ends]
    assert left[0] == left[1]
    # The other thread of a half-used core may be lent, or its core be split again.
    if not any(request.exclusive % machine.threads for request in requests):
        assert len(machine.cores(ends[0].common)) == len(machine.cores(ends[1].common))


def record(decision: Decision) -> dict[str, Any]:
    return decision.as_record() | {"why": decision.why, "runners_up": decision.runners_up}


@in_any_order(25, MACHINES)
def test_names_and_the_order_of_grants_have_no_effect(
    policy: str, name: str, wanted: list[Wish], reserve: bool, shuffle: random.Random
) -> None:
    """Whether all fit or not: allocations are stored by place, not by arrival."""
    machine = Machine(name, reserve=reserve)
    runs = []
    for ids, keys in (
        (range(len(wanted)), range(4)),
        (shuffle.sample(range(len(wanted)), len(wanted)), shuffle.sample(range(4), 4)),
    ):
        named = [
            wish.request(f"c{id_}", f"pod{keys[wish.pod]}", machine.pools)
            for id_, wish in zip(ids, wanted, strict=True)
        ]
        runs.append(machine.place(policy, named))
    assert [record(grant.decision) for grant in runs[0]] == [record(grant.decision) for grant in runs[1]]
    usages = machine.usage(runs[0]), machine.usage(shuffle.sample(runs[0], len(wanted)))
    for wish in wanted[:1]:
        late = wish.request("late", "pod9", machine.pools)
        one, other = (POLICIES[policy](machine.topology, usage, late) for usage in usages)
        assert record(one) == record(other)
    for grant in runs[0]:
        assert effective(grant.decision, usages[0]) == effective(grant.decision, usages[1])
