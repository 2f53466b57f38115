"""Rules for all policies, for any sequence of containers, on every machine."""

from pathlib import Path

import pytest
from conftest import examples
from hosts.machines import MACHINES, machine
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.node.policies import POLICIES
from resctrl_hooks.core.node.host.cpulist import count, format_list
from resctrl_hooks.core.node.host.topology import Topology
from resctrl_hooks.placement.node.policy import EXCLUSIVE, MIXED, RESERVED, SHARED, Decision, PlacementError, Request
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
