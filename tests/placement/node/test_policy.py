"""Rules for all policies, for any sequence of containers, on every machine.

The k-th of equal requests gets the same, whatever it is called, and how the grants are listed says nothing. When all
fit, the order decides which CPUs are whose and nothing else: neither who gets CPUs of its own nor how many, nor who
shares, nor how much is left. When they don't fit, the first to come is served: nothing is said of that here.
"""

import contextlib
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Host, examples
from golden import Golden
from hosts.machines import MACHINES, machine
from hosts.placed import PlacedHost
from hosts.work import counted
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.node.test_memory_nodes import GIB, with_kinds
from resctrl_hooks.core.node.host.cpulist import count, format_list
from resctrl_hooks.core.node.host.topology import DRAM, FAST, SLOW, MemoryNode, Topology
from resctrl_hooks.placement.node import pools, topology_aware
from resctrl_hooks.placement.node.balloons import instances_of, parts_of
from resctrl_hooks.placement.node.policy import EXCLUSIVE, MIXED, RESERVED, SHARED, Decision, PlacementError, Request
from resctrl_hooks.placement.node.policy_file import load_policy
from resctrl_hooks.placement.node.usage import Grant, Usage, check, effective

POLICIES = {"topology-aware": topology_aware.choose, "pools": pools.choose}
ALIKE = [name for name, one in MACHINES.items() if not one.isolated and len({*map(count, one.cores)}) == 1]
"""Machines whose cores are all alike."""


class Wish(NamedTuple):
    """A request without a name."""

    kind: str
    own: int
    part: int
    limit: int
    memory: int
    pod: int
    space: str
    isolated: bool
    one_thread: bool
    annotated: bool
    """Whether the exclusive CPUs are only annotated, and not requested."""
    pool: str

    def request(self, id_: str, key: str, options: list[dict[str, Any]]) -> Request:
        own = self.own if self.kind in (EXCLUSIVE, MIXED) else 0
        # Of a mixed one, the part beyond its exclusive CPUs; of an exclusive one nothing.
        milli = self.part if self.annotated else own * 1000 + (self.part if self.kind != EXCLUSIVE else 0)
        return Request(
            id_, key, namespace=self.space, kind=self.kind, exclusive=own, milli=milli, limit=self.limit,
            memory=self.memory << 28, isolated=bool(own) and self.isolated, one_thread=self.one_thread,
            pool=self.pool, options={"pools": options},
        )  # fmt: skip


WISH = st.builds(
    Wish,
    st.sampled_from([SHARED, SHARED, EXCLUSIVE, EXCLUSIVE, MIXED, RESERVED]),
    st.integers(1, 9),
    st.sampled_from([0, 1, 500, 1000, 3500, 20_000]),
    st.sampled_from([0, 0, 1000, 6000]),
    st.integers(0, 80),
    st.integers(0, 3),
    st.sampled_from(["shop", "other"]),
    st.sampled_from([False, False, True]),
    st.booleans(),
    st.booleans(),
    st.just(""),
)
POOL = st.fixed_dictionaries({
    "minCpus": st.sampled_from([None, 1, 2]),
    "maxCpus": st.sampled_from([None, 2, 4, 8]),
    "minInstances": st.sampled_from([None, 1]),
    "maxInstances": st.sampled_from([None, 0, 2]),
    "instancePer": st.sampled_from(["", "container", "pod", "namespace"]),
    "spread": st.booleans(),
    "spreadCores": st.booleans(),
})  # fmt: skip
POOLS = st.tuples(POOL, POOL).map(lambda of: [{**one, "name": name} for name, one in zip("ab", of, strict=True)])


def in_any_order(number: int, machines: Iterable[str], **more: Any) -> Callable[[Any], Any]:
    """Run a test with so many lists of wishes and their shuffles, by each policy, on these machines."""

    def decorated(test: Callable[..., None]) -> Any:
        shuffle = st.randoms(use_true_random=False)
        lists = {"wanted": st.lists(WISH, max_size=12), "reserve": st.booleans(), "shuffle": shuffle, **more}
        repeated = settings(max_examples=examples(number), deadline=None)(given(**lists)(test))
        by_policy = pytest.mark.parametrize("policy", POLICIES)(repeated)
        return pytest.mark.no_cover(pytest.mark.parametrize("name", machines)(by_policy))

    return decorated


class Machine:
    """A machine with a pool of the first half of its cores, for the namespace `shop`, and perhaps a reserved CPU."""

    def __init__(self, policy: str, name: str, *, reserve: bool, grow: list[dict[str, Any]] | None = None) -> None:
        self.policy, self.topology = policy, MACHINES[name]
        online = self.topology.online
        self.reserved = online & -online if reserve else 0
        self.usable = online & ~self.topology.isolated & ~self.reserved
        self.half = sum(self.cores(self.usable)[: len(self.cores(self.usable)) // 2])
        self.pools = grow or [{"name": "half", "cpus": format_list(self.half), "namespaces": ["shop"]}]
        self.threads = count(self.topology.cores[0])

    def usage(self, grants: list[Grant]) -> Usage:
        usage = Usage(self.topology, grants, self.reserved)
        if self.policy == "pools":
            usage.parts, usage.homes = parts_of(self.pools, usage)
        return usage

    def grant(self, request: Request, grants: list[Grant]) -> Decision:
        usage = self.usage(grants)
        decision = POLICIES[self.policy](self.topology, usage, request)
        check(decision, usage)
        grants.append(Grant(decision, request.key))
        return decision

    def place(self, requests: list[Request]) -> list[Grant]:
        grants: list[Grant] = []
        for request in requests:
            self.grant(request, grants)
        return grants

    def cores(self, cpus: int) -> list[int]:
        return [core for core in self.topology.cores if core & cpus == core]

    def cost(self, request: Request) -> int:
        """Return the CPUs of its whole cores, of those that are alike."""
        return -(-request.exclusive // self.threads) * self.threads

    def fitting(self, requests: list[Request]) -> list[Request]:
        """Return those of them that fit all together, in any order.

        Each part of the machine without parts in which somebody may share keeps a core, and so does each named pool.
        """
        if self.policy == "pools":
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
    machine = Machine(policy, name, reserve=reserve)
    plain = [wish._replace(isolated=False, annotated=False, memory=0) for wish in wanted]
    named = [wish.request(f"c{place}", f"pod{wish.pod}", machine.pools) for place, wish in enumerate(plain)]
    requests = machine.fitting(named)
    order = shuffle.sample(range(len(requests)), len(requests))
    first, later = machine.place(requests), machine.place([requests[place] for place in order])
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
    machine = Machine(policy, name, reserve=reserve)
    runs = []
    for ids, keys in (
        (range(len(wanted)), range(4)),
        (shuffle.sample(range(len(wanted)), len(wanted)), shuffle.sample(range(4), 4)),
    ):
        named = [
            wish.request(f"c{id_}", f"pod{keys[wish.pod]}", machine.pools)
            for id_, wish in zip(ids, wanted, strict=True)
        ]
        runs.append(machine.place(named))
    assert [record(grant.decision) for grant in runs[0]] == [record(grant.decision) for grant in runs[1]]
    usages = machine.usage(runs[0]), machine.usage(shuffle.sample(runs[0], len(wanted)))
    for wish in wanted[:1]:
        late = wish.request("late", "pod9", machine.pools)
        one, other = (POLICIES[policy](machine.topology, usage, late) for usage in usages)
        assert record(one) == record(other)
    for grant in runs[0]:
        assert effective(grant.decision, usages[0]) == effective(grant.decision, usages[1])


@in_any_order(40, MACHINES, wanted=st.lists(st.one_of(WISH, WISH, st.integers(0, 30)), min_size=1, max_size=25))
def test_any_sequence_of_changes_stays_consistent(
    policy: str, name: str, wanted: list[Wish | int], reserve: bool, shuffle: random.Random
) -> None:
    """Numbers end a container."""
    machine, topology = Machine(policy, name, reserve=reserve), MACHINES[name]
    grants: list[Grant] = []
    for number, wish in enumerate(wanted):
        if isinstance(wish, Wish):
            request = wish.request(f"c{number}", f"pod{wish.pod}", machine.pools)
            most = 0 if wish.kind == EXCLUSIVE else max(request.milli - 1000 * request.exclusive, 0)
            assert request.shared_milli == most
            decision = machine.grant(request, grants)
            owned = decision.owned
            assert not owned or wish.kind in (EXCLUSIVE, MIXED)
            split = [core for core in topology.cores if core & owned and core & ~owned]
            assert not owned or count(owned) == request.exclusive or (wish.one_thread and not split)
            assert not decision.mems & ~topology.memory_nodes
        elif grants:
            grants.pop(wish % len(grants))
        check_grants(machine, grants)
    assert machine.usage([]).common == machine.usable


def check_grants(machine: Machine, grants: list[Grant]) -> Usage:
    topology, usage = machine.topology, machine.usage(grants)
    owned = sum(grant.decision.owned for grant in grants)
    assert count(owned) == sum(count(grant.decision.owned) for grant in grants), "two owners"
    assert not owned & usage.reserved
    assert usage.common, "the next one finds no CPU"
    assert not usage.idle & (owned | usage.common)
    for grant in grants:
        runs = effective(grant.decision, usage)
        assert runs, "a container without CPUs"
        assert not runs & (~topology.online | usage.idle)
        assert not runs & owned & ~grant.decision.owned, "it runs on exclusive CPUs of another container"
        if grant.decision.kind != RESERVED:
            assert not runs & (usage.reserved | topology.isolated & ~grant.decision.owned)
    return usage


EVENTS = st.lists(st.tuples(WISH, st.sampled_from(["a", "b", "default"]), st.integers(0, 9)), max_size=14)


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=examples(40), deadline=None)
@given(grow=POOLS, events=EVENTS, shuffle=st.randoms(use_true_random=False))
def test_instances_are_disjoint_and_independent_of_the_order_of_ends(
    name: str, grow: list[dict[str, Any]], events: list[tuple[Wish, str, int]], shuffle: random.Random
) -> None:
    machine = Machine("pools", name, reserve=False, grow=grow)
    grants: list[Grant] = []
    for number, (wish, pool, end) in enumerate(events):
        one = wish._replace(kind=SHARED, pool=pool, part=min(wish.part, 2500), memory=0)
        with contextlib.suppress(PlacementError):
            machine.grant(one.request(f"c{number}", f"pod{wish.pod}", grow), grants)
        if end < 3 and grants:
            grants.pop(end % len(grants))
        usage = check_grants(machine, grants)
        taken = 0
        for instance in instances_of(grow, usage):
            assert not instance.home & (taken | ~usage.common), "a CPU has one instance"
            taken |= instance.home
            assert count(instance.home) <= max(instance.size(), 1) + 1, "whole cores, no more"
        for grant in grants:
            home = usage.homes.get(grant.decision.pool) or ~0
            assert not effective(grant.decision, usage) & ~home
        assert machine.usage(shuffle.sample(grants, len(grants))).parts == usage.parts, (
            "an end restores the state before"
        )


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


@pytest.mark.parametrize(
    "text, mode, words",
    [
        ("def choose(*_): return None", 0o666, "it is owned or writable by a user other than root"),
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


# Decisions for sequences of requests: the numeric rules of CRI Resource Manager's, as nri-plugins documents them
# (docs/resource-policy/policy: topology-aware.md, balloons.md)

OWN, NOTHING = {"kind": EXCLUSIVE, "exclusive": 1, "milli": 1000}, {"milli": 0}
ISOLATED = {"kind": EXCLUSIVE, "exclusive": 6, "isolated": True}
SHOP = {"namespace": "shop"}
DB: list[dict[str, Any]] = [
    {"name": "db", "cpus": "0-3", "mems": "1", "namespaces": ["shop"]},
    {"name": "x", "cpus": "4"},
]
OPTIONS: list[dict[str, Any]] = [
    {"pools": DB},
    {"pools": [DB[0] | {"preferIsolCpus": True, "mems": ""}], "pinMemory": False},
]
LARGE = machine(2, 2, 2, 4)


def with_memory_alone() -> Topology:
    """Return one package, and memory nodes without CPUs: its only part is the whole node."""
    topology = machine(cores=4, memory=2 * GIB)
    for number, kind in ((1, SLOW), (2, FAST)):
        topology.nodes.append(MemoryNode(number, 0, {0: 20, number: 10}, 4 * GIB, kind))
    return topology


def without_memory_nodes() -> Topology:
    topology = machine(cores=4)
    topology.nodes.clear()
    return topology


SCENES: dict[str, tuple[Topology, int, list[dict[str, Any]]]] = {
    "sizes": (LARGE, 0, [{"milli": milli} for milli in (500, 8000, 8001, 16001, 32001, 99000)]),
    "a limit": (LARGE, 0, [{"milli": 100, "limit": 12000}, {"milli": 500, "memory": 1}]),
    "balance": (machine(2, 1, 1, 4), 0, [{"milli": 1000, "memory": 1}] * 5 + [NOTHING] * 4),
    "pods": (machine(2, 1, 2, 4), 0, [{"key": "p", "milli": 100}, {"milli": 900}, {"key": "p", "milli": 7900},
                                      {"key": "p", "milli": 500}]),
    "large ones": (machine(1, 4, 1, 3, 2), 0, [{"milli": 3500}, *[{"kind": EXCLUSIVE, "exclusive": 6}] * 3]),
    "19 exclusive": (machine(1, 4, 1, 3, 2), 0, [{"milli": 3500}, {"kind": EXCLUSIVE, "exclusive": 19}]),
    "21 requested": (machine(1, 4, 1, 3, 2), 0, [{"milli": 3500}, OWN | {"exclusive": 21, "milli": 21000}]),
    # What was only annotated must not take the room that others have requested.
    "21 annotated": (machine(1, 4, 1, 3, 2), 0, [{"milli": 3500}, {"kind": EXCLUSIVE, "exclusive": 21}]),
    "mixed": (machine(2, 1, 1, 4), 0, [{"kind": EXCLUSIVE, "exclusive": 3, "milli": 3000},
                                       {"kind": MIXED, "exclusive": 2, "milli": 2500},
                                       {"kind": MIXED, "exclusive": 2, "milli": 2000}]),
    "one thread": (machine(), 0, [{"kind": EXCLUSIVE, "exclusive": 4, "one_thread": True}]),
    "hidden threads": (machine(), 0, [OWN | {"one_thread": True}] * 4),
    "single threads": (machine(), 0, [*[OWN] * 7, {"milli": 500}]),
    "idle threads": (machine(), 0, [OWN, {"milli": 6000}, {"milli": 1000}]),
    "no cores": (machine(cores=2, threads=1), 0, [OWN, OWN]),
    "isolated": (MACHINES["offline and isolated"], 0, [ISOLATED, ISOLATED, ISOLATED | {"only_isolated": True}]),
    "hybrid": (MACHINES["hybrid"], 0, [OWN, OWN | {"exclusive": 6, "milli": 6000}]),
    "reserved": (machine(), 0b11, [{"kind": RESERVED}, {"milli": 100}]),
    "memory": (machine(2, 2, 1, 2), 0, [{"milli": 100, "memory": gib * GIB} for gib in (10, 17, 1)]),
    "all memory": (machine(2, 2, 1, 2), 0, [{"memory": 64 * GIB}, {"memory": GIB, "any_memory": True}]),
    "full memory": (machine(2, 1, 1, 8, memory=64 * GIB), 0, [{"milli": 14000, "memory": GIB},
                                                              *[{"milli": 100, "memory": 10 * GIB}] * 13]),
    "kinds": (with_kinds(), 0, [{"milli": 100, "memory": gib * GIB, "memory_kinds": kinds} for kinds, gib in (
        ([FAST], 1), ([FAST], 1), ([FAST], 1), ([SLOW], 1), ([DRAM, FAST], 3), ([DRAM, SLOW, FAST], 14))]),
    "wide": (with_kinds(), 0, [{"milli": 12_000, "memory": GIB}, {"memory_kinds": [FAST]}]),
    "missing kind": (machine(), 0, [{"memory_kinds": [FAST]}]),
    "whole node": (with_memory_alone(), 0, [{"milli": 100, "memory": gib * GIB} for gib in (1, 3, 0)]),
    "no NUMA": (without_memory_nodes(), 0, [{"memory": GIB, "memory_kinds": kinds} for kinds in (
        [DRAM], [FAST], [SLOW], [DRAM, SLOW, FAST])]),
    "pools": (machine(2, 1, 1, 4), 0, [SHOP, {"pool": "x"}, {"namespace": "other"}, {"pool": "y"}, SHOP | OWN]),
}  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
def test_decisions_for_requests_are_those_of_the_documentation(policy: str, golden: Golden) -> None:
    for name, (topology, reserved, wanted) in SCENES.items():
        for options in OPTIONS[: 1 + (name in ("isolated", "memory", "pools"))]:
            grants: list[Grant] = []
            lines = []
            for number, values in enumerate(wanted):
                given: dict[str, Any] = {"key": f"pod{number}", "kind": SHARED, "options": options} | values
                request = Request(f"c{number}", **given)
                try:
                    decision = POLICIES[policy](topology, Usage(topology, grants, reserved), request)
                except PlacementError as error:
                    lines.append(f"{request.id}: {error}")
                    continue
                shown = {key: value for key, value in decision.as_record().items() if value and key != "why"}
                lines.append(f"{request.id}: {shown}\n  {decision.why}; next {decision.runners_up}")
                grants.append(Grant(decision, request.key, memory=request.memory))
            usage = Usage(topology, grants, reserved)
            runs = [format_list(effective(grant.decision, usage)) for grant in grants]
            golden("\n".join([*lines, f"run on {runs}, idle {format_list(usage.idle)}"]), f"{name}, {[*options]}")
