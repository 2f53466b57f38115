"""What the order in which containers come may change, and what it may not, by each policy of ours on every machine.

The k-th of equal requests gets the same, whatever it is called, and how the grants are listed says nothing.
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
from resctrl_hooks.core.node.host.cpulist import format_list
from resctrl_hooks.placement.node.policy import (
    EXCLUSIVE,
    MILLI,
    MIXED,
    RESERVED,
    SHARED,
    Decision,
    Request,
)
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
