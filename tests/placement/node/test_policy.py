"""Rules for all policies, for any sequence of containers, on every machine."""

from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from hosts.machines import MACHINES, machine
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.node.policies import POLICIES, place
from resctrl_hooks.core.node.host.cpulist import count, format_list, parse_list
from resctrl_hooks.core.node.host.topology import Topology
from resctrl_hooks.placement.node import allocator
from resctrl_hooks.placement.node import pools as policy_pools
from resctrl_hooks.placement.node import topology_aware as policy_topology
from resctrl_hooks.placement.node.exclusive_cpus import whole_cores
from resctrl_hooks.placement.node.policy import (
    EXCLUSIVE,
    MIXED,
    RESERVED,
    SHARED,
    Decision,
    PlacementError,
    Request,
)
from resctrl_hooks.placement.node.policy_file import load_policy
from resctrl_hooks.placement.node.usage import Grant, Usage, check, effective, short_of_cpus


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


def test_small_container_gets_tightest_part() -> None:
    (decision,) = place(machine(2, 2, 2, 4), Request("a", milli=500, memory=1))
    assert (decision.pool, decision.mems) == ("l3-0", 1)
    assert "the smallest part with room for 500m (8000m free)" in decision.why
    assert decision.runners_up == ["l3-1 (8000m free)", "l3-2 (8000m free)", "l3-3 (8000m free)"]


@pytest.mark.parametrize(
    "milli, pool", [(8000, "l3-0"), (8001, "numa0"), (16001, "package0"), (32001, "node"), (99000, "node")]
)
def test_request_that_does_not_fit_gets_wider_part(milli: int, pool: str) -> None:
    assert place(machine(2, 2, 2, 4), Request("a", milli=milli))[0].pool == pool


def test_limit_bounds_use() -> None:
    assert place(machine(2, 2, 2, 4), Request("a", milli=100, limit=12000))[0].pool == "numa0"


def test_pools_are_balanced() -> None:
    found = place(machine(2, 1, 1, 4), *(Request(f"c{number}", milli=1000, memory=1) for number in range(6)))
    assert [decision.pool for decision in found] == ["package0", "package1"] * 3
    assert [decision.mems for decision in found] == [0b01, 0b10] * 3
    idle = place(machine(2, 1, 1, 4), *(Request(f"c{number}") for number in range(4)))
    assert [decision.pool for decision in idle] == ["package0", "package1"] * 2


def test_containers_of_pod_stay_together() -> None:
    wanted = [Request("a", "p", milli=100), Request("b", "q", milli=900), Request("c", "p", milli=100)]
    assert [decision.pool for decision in place(machine(2, 1, 2, 4), *wanted)] == ["l3-0", "l3-1", "l3-0"]
    full = [Request("a", "p", milli=7900), Request("b", "q", milli=100), Request("c", "p", milli=500)]
    assert [decision.pool for decision in place(machine(2, 1, 2, 4), *full)] == ["l3-0", "l3-1", "l3-1"]


def test_request_larger_than_a_part_extends_it() -> None:
    topology = machine(1, 4, 1, 3, 2)
    shared, own = place(topology, Request("a"), Request("b", kind=EXCLUSIVE, exclusive=7))
    assert (shared.pool, own.kind, count(own.owned)) == ("numa0", EXCLUSIVE, 7)
    assert effective(shared, Usage(topology, [Grant(shared), Grant(own)]))
    wanted = [Request("a", milli=3500), *(Request(f"c{n}", kind=EXCLUSIVE, exclusive=6) for n in range(3))]
    loaded, *owners = place(topology, *wanted)
    assert [count(decision.owned) for decision in owners] == [6, 6, 6]
    assert not any(decision.owned & loaded.cpus for decision in owners)
    last = place(topology, Request("a", milli=3500), Request("b", kind=EXCLUSIVE, exclusive=19))[1]
    assert (count(last.owned), "narrow" in last.why) == (19, False)
    last = place(topology, Request("a", milli=3500), Request("b", kind=EXCLUSIVE, exclusive=21, milli=21000))[1]
    assert (count(last.owned), "narrow" in last.why) == (21, True)
    # What was only annotated must not take the room that others have requested.
    last = place(topology, Request("a", milli=3500), Request("b", kind=EXCLUSIVE, exclusive=21))[1]
    assert last.kind == SHARED


def test_exclusive_and_mixed_requests_get_cores_of_their_own() -> None:
    topology = machine(2, 1, 1, 4)
    own, mixed = place(
        topology,
        Request("a", kind=EXCLUSIVE, exclusive=3, milli=3000),
        Request("b", kind=MIXED, exclusive=2, milli=2500),
    )
    assert (own.kind, own.owned, own.cpus) == (EXCLUSIVE, parse_list("0-1,8"), 0)
    assert (mixed.kind, mixed.owned, mixed.milli) == (MIXED, parse_list("4,12"), 500)
    usage = Usage(topology, [Grant(own), Grant(mixed)])
    assert usage.idle == parse_list("9")
    assert effective(mixed, usage) == parse_list("4-7,12-15")
    (whole,) = place(topology, Request("a", kind=MIXED, exclusive=2, milli=2000))
    assert (whole.kind, whole.cpus, whole.milli) == (EXCLUSIVE, 0, 0)


@pytest.mark.parametrize(
    "kind, milli, part",
    [(MIXED, 2500, 500), (MIXED, 2000, 0), (MIXED, 1000, 0), (EXCLUSIVE, 2500, 0), (SHARED, 2500, 500)],
)
def test_part_beyond_exclusive_cpus_is_shared(kind: str, milli: int, part: int) -> None:
    assert Request("a", kind=kind, exclusive=2, milli=milli).shared_milli == part


def test_one_thread_of_each_core_is_used() -> None:
    topology = machine(1, 1, 1, 4)
    (own,) = place(topology, Request("a", kind=EXCLUSIVE, exclusive=4, one_thread=True))
    assert (own.owned, own.hidden) == (parse_list("0-1,4-5"), parse_list("4-5"))
    assert effective(own, Usage(topology, [Grant(own)])) == parse_list("0-1")


def test_isolated_cpus_are_granted_on_request() -> None:
    topology = MACHINES["offline and isolated"]
    wanted = [Request(f"c{n}", kind=EXCLUSIVE, exclusive=6, isolated=True) for n in range(2)]
    first, second = place(topology, *wanted)
    assert (first.pool, first.owned & ~topology.isolated) == ("isolated", 0)
    assert not second.owned & topology.isolated
    assert "(no isolated CPUs are free)" in second.why


def test_pool_that_prefers_isolated_cpus_gets_them_while_some_are_free() -> None:
    topology = MACHINES["offline and isolated"]
    pools = {"pools": [{"name": "db", "cpus": "0-1", "preferIsolCpus": True, "namespaces": ["shop"]}]}
    wanted = Request("a", namespace="shop", kind=EXCLUSIVE, exclusive=6, options=pools)
    first = policy_pools.choose(topology, Usage(topology, []), wanted)
    assert (first.pool, first.owned & ~topology.isolated, count(first.owned)) == ("isolated", 0, 6)
    second = policy_pools.choose(topology, Usage(topology, [Grant(first)]), wanted)
    assert not second.owned & topology.isolated
    other = Request("b", namespace="other", kind=EXCLUSIVE, exclusive=1, options=pools)
    assert not policy_pools.choose(topology, Usage(topology, []), other).owned & topology.isolated
    shares = Request("c", namespace="shop", milli=500, options=pools)
    assert policy_pools.choose(topology, Usage(topology, []), shares).kind == SHARED


@pytest.mark.parametrize("choose", POLICIES.values())
def test_container_that_requires_isolated_cpus_gets_no_others(choose: Any) -> None:
    topology = MACHINES["offline and isolated"]
    pools = {"pools": [{"name": "db", "cpus": "0-1"}]}
    wanted = Request("a", kind=EXCLUSIVE, exclusive=6, isolated=True, only_isolated=True, options=pools)
    first = choose(topology, Usage(topology, []), wanted)
    assert (first.pool, first.owned & ~topology.isolated) == ("isolated", 0)
    with pytest.raises(PlacementError, match="too few isolated CPUs are free"):
        choose(topology, Usage(topology, [Grant(first)]), wanted)


def test_container_that_preserves_memory_is_bound_to_no_nodes() -> None:
    topology = machine(2, 1, 1, 4)
    pools = {"pools": [{"name": "db", "cpus": "0-3", "mems": "1", "namespaces": ["shop"]}]}
    for any_memory, mems in ((False, 0b10), (True, 0)):
        wanted = Request("a", namespace="shop", any_memory=any_memory, options=pools)
        assert policy_pools.choose(topology, Usage(topology, []), wanted).mems == mems
    for any_memory in (False, True):
        own = Request("a", kind=EXCLUSIVE, exclusive=1, milli=1000, memory=1, any_memory=any_memory)
        assert (policy_topology.choose(topology, Usage(topology, []), own).mems == 0) == any_memory


def test_fast_cores_come_first() -> None:
    (own,) = place(MACHINES["hybrid"], Request("a", kind=EXCLUSIVE, exclusive=2))
    assert not own.owned & ~MACHINES["hybrid"].kinds["performance"]


def test_other_thread_of_exclusive_core_is_idle_until_it_is_needed() -> None:
    topology = machine(1, 1, 1, 4)  # 0-3,4-7
    own = Request("a", kind=EXCLUSIVE, exclusive=1, milli=1000)
    for milli, cpus, idle in ((6000, "1-3,5-7", "4"), (7000, "1-7", "")):
        first, shared = place(topology, own, Request("b", milli=milli))
        usage = Usage(topology, [Grant(first), Grant(shared)])
        assert (first.owned, effective(first, usage)) == (1, 1)
        assert (effective(shared, usage), usage.idle) == (parse_list(cpus), parse_list(idle))
    assert "with idle threads of exclusive cores" in shared.why


def test_single_threads_are_exclusive_if_no_whole_core_is_free() -> None:
    topology = machine(1, 1, 1, 4)
    wanted = [Request(f"c{number}", kind=EXCLUSIVE, exclusive=1, milli=1000) for number in range(7)]
    found = place(topology, *wanted)
    assert [format_list(decision.owned) for decision in found] == ["0", "1", "2", "3", "4", "5", "6"]
    assert ["single threads free" in decision.why for decision in found] == [False] * 4 + [True] * 3
    shared = Request("s", milli=500)
    last = policy_topology.choose(topology, Usage(topology, [*map(Grant, found)]), shared)
    grants = [*map(Grant, found), Grant(last)]
    assert effective(last, Usage(topology, grants)) == parse_list("7")


def test_container_that_hides_threads_gets_whole_cores_only() -> None:
    topology = machine(1, 1, 1, 4)
    wanted = [Request(f"c{number}", kind=EXCLUSIVE, exclusive=1, milli=1000, one_thread=True) for number in range(4)]
    assert [count(decision.owned) for decision in place(topology, *wanted)] == [2, 2, 2, 0]


def test_exhausted_cores_give_shared_pool() -> None:
    found = place(machine(cores=2, threads=1), *(Request(f"c{n}", kind=EXCLUSIVE, exclusive=1) for n in range(2)))
    assert [decision.kind for decision in found] == [EXCLUSIVE, SHARED]
    assert found[1].why.startswith("no exclusive CPUs are free, so it shares node, the smallest part")


def test_reserved_cpus_go_to_reserved_namespaces_only() -> None:
    system, user = place(machine(), Request("a", kind=RESERVED), Request("b", milli=100), reserved=0b11)
    topology = machine()
    usage = Usage(topology, [Grant(system), Grant(user)], 0b11)
    assert effective(system, usage) == 0b11
    assert effective(user, usage) == topology.online & ~0b11


def test_owned_or_reserved_cpus_are_shared_when_no_other_is_left() -> None:
    topology = machine(1, 1, 1, 4, 1)
    own = Grant(Decision(EXCLUSIVE, "x", owned=0b0111))
    shared = Decision(SHARED, "node", cpus=topology.online)
    mixed = Decision(MIXED, "node", cpus=topology.online, owned=0b1000)
    full = Grant(mixed)
    some = Usage(topology, [own, Grant(shared)])
    assert (effective(shared, some), short_of_cpus(some)) == (0b1000, "")
    none = Usage(topology, [own, full, Grant(shared, milli=10, users=3)])
    assert effective(mixed, none) == 0b1000
    assert effective(shared, none) == topology.online
    assert short_of_cpus(none) == "no shared CPUs left: 3 containers run on exclusive CPUs of other containers"
    reserved = Usage(topology, [own, Grant(shared)], 0b1000)
    assert effective(shared, reserved) == 0b1000
    assert short_of_cpus(reserved) == "no shared CPUs left: 1 containers run on reserved CPUs"
    assert short_of_cpus(Usage(topology, [own, full])) == ""
    isolated = machine(1, 1, 1, 4, 1, isolated=0b1111)
    assert effective(Decision(RESERVED, "reserved"), Usage(isolated, [])) == isolated.online


def test_one_grant_can_represent_several() -> None:
    topology = machine(1, 1, 2, 4, 1)
    one = [Grant(Decision(SHARED, "l3-0", cpus=0b1111, milli=300), "p") for _ in range(3)]
    all_ = [Grant(Decision(SHARED, "l3-0", cpus=0b1111), "p", milli=900, users=3)]
    for grants in (one, all_):
        usage = Usage(topology, grants)
        assert (usage.load(0b1111), usage.room(0b1111), usage.near("p")) == ((900, 3), 3100, 0b1111)
        assert usage.load(0b1111) == (900, 3)
        assert usage.can_give(0b111)


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


def test_whole_cores_have_all_threads_and_fast_ones_come_first() -> None:
    cores = [0b11, 0b1100, 0b110000]
    assert whole_cores(Topology(0b111111, cores), 0b111011) == [0b11, 0b110000]
    hybrid = Topology(0b111111, cores, kinds={"efficient": 0b1111, "performance": 0b110000})
    assert whole_cores(hybrid, 0b111111) == [0b110000, 0b11, 0b1100]


def test_memory_larger_than_a_node_spans_several() -> None:
    found = machine(2, 2, 1, 2, memory=8 << 30)
    assert place(found, Request("a", milli=100, memory=10 << 30))[0].mems == 0b11
    assert place(found, Request("a", milli=100, memory=17 << 30))[0].mems == 0b111
    assert place(found, Request("a", milli=100, memory=64 << 30))[0].mems == 0
    assert place(found, Request("a", milli=100, memory=1, options={"pinMemory": False}))[0].mems == 0


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


def test_named_pools_are_used() -> None:
    topology = machine(2, 1, 1, 4)
    pools = {"pools": [{"name": "db", "cpus": "0-3", "mems": "1", "namespaces": ["shop"]}, {"name": "x", "cpus": "4"}]}
    usage = Usage(topology, [])
    chosen = policy_pools.choose(topology, usage, Request("a", namespace="shop", options=pools))
    assert (chosen.pool, chosen.cpus, chosen.mems) == ("db", 0b1111, 0b10)
    assert policy_pools.choose(topology, usage, Request("a", pool="x", options=pools)).pool == "x"
    rest = policy_pools.choose(topology, usage, Request("a", namespace="other", options=pools))
    assert (rest.pool, rest.cpus, rest.mems) == ("default", topology.online & ~0b11111, 0)
    with pytest.raises(PlacementError, match="unknown pool 'y'"):
        policy_pools.choose(topology, usage, Request("a", pool="y", options=pools))


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


@pytest.mark.parametrize(
    "owned, reserved, kind, fails",
    [(0b1111, 0, SHARED, True), (0b0111, 0b1000, SHARED, True), (0b0111, 0b1000, RESERVED, False)],
)
def test_container_without_a_cpu_to_run_on_is_refused(owned: int, reserved: int, kind: str, *, fails: bool) -> None:
    own = Grant(Decision(EXCLUSIVE, "x", owned=owned))
    usage = Usage(machine(1, 1, 1, 4, 1), [own], reserved)
    if fails:
        with pytest.raises(PlacementError, match="no shared CPUs left"):
            allocator._check_room(usage, Request("a", kind=kind))
    else:
        allocator._check_room(usage, Request("a", kind=kind))
