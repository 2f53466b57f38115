"""Traffic and load of memory domains, from made-up counters."""

import pytest
from conftest import Host

from resctrl_hooks.core.node.host.topology import UNKNOWN, MemoryNode, Topology
from resctrl_hooks.core.node.resctrl.counters import slot_at
from resctrl_hooks.observe.node.guard.actuator import spread
from resctrl_hooks.observe.node.guard.load import ClassCounts, memory_domains, traffic
from resctrl_hooks.observe.node.guard.snapshots import domains_of_slots


def counts(time: float, **classes: dict[int, tuple[int | None, int | None]]) -> ClassCounts:
    return ClassCounts(time, dict(classes))


def test_load_of_two_domains_adds_the_others_remote_traffic() -> None:
    before = counts(0, a={0: (10, 7), 1: (0, 0)}, b={0: (0, 0), 1: (0, 0)})
    after = counts(2, a={0: (110, 67), 1: (0, 0)}, b={0: (0, 0), 1: (50, 30)})
    first, second = traffic(before, after, [(0,), (1,)])
    assert (first.rate, first.estimated) == ((60 + 20) / 2, False)
    assert (second.rate, second.estimated) == ((30 + 40) / 2, False)
    assert first.rates == {"a": 50.0, "b": 0.0}


def test_load_of_three_domains_spreads_remote_traffic_and_is_estimated() -> None:
    before = counts(0, a={0: (0, 0), 1: (0, 0), 2: (0, 0)})
    after = counts(1, a={0: (100, 60), 1: (0, 0), 2: (0, 0)})
    found = traffic(before, after, [(0,), (1,), (2,)])
    assert [one.rate for one in found] == [60, 20, 20]
    assert all(one.estimated for one in found)


def test_load_without_local_counters_is_estimated_from_totals() -> None:
    before = counts(0, a={0: (0, None), 1: (0, None)})
    after = counts(1, a={0: (100, None), 1: (40, None)})
    assert [(one.rate, one.estimated) for one in traffic(before, after, [(0,), (1,)])] == [(100, True), (40, True)]


@pytest.mark.parametrize(
    "after",
    [
        counts(1, a={0: (None, 5)}, b={0: (10, 5)}),
        counts(1, a={0: (3, 3)}, b={0: (10, 5)}),
        counts(0, a={0: (10, 5)}, b={0: (10, 5)}),
    ],
    ids=["no number", "fell", "no time"],
)
def test_missing_or_falling_value_gives_no_load(after: ClassCounts) -> None:
    domains = sorted({(number,) for counts in after.counts.values() for number in counts})
    before = ClassCounts(0, {name: {number: (5, 5) for (number,) in domains} for name in "ab"})
    found, *_ = traffic(before, after, domains[::-1])
    assert found.rate is None
    assert found.load({"*": 1.0}) is None


def test_unknown_value_hides_neither_other_domains_nor_other_looks() -> None:
    before = counts(0, a={0: (0, 0), 1: (0, 0)}, b={0: (0, 0), 1: (0, 0)})
    after = counts(1, a={0: (None, 5), 1: (10, 5)}, b={0: (10, 5), 1: (10, 8)})
    first, second = traffic(before, after, [(0,), (1,)])
    assert first.rate is None
    assert (second.rate, second.rates, second.estimated) == (13, {"a": 10.0, "b": 10.0}, True)


@pytest.mark.parametrize("gone, come", [("b", "c"), ("b", ""), ("", "c")])
def test_class_that_comes_or_goes_makes_the_load_a_lower_bound(gone: str, come: str) -> None:
    before = ClassCounts(0, {name: {0: (5, 5)} for name in "ab"})
    names = [name for name in ("a", "b", come) if name and name != gone]
    (found,) = traffic(before, ClassCounts(1, {name: {0: (15, 15)} for name in names}), [(0,)])
    assert (found.rate, found.estimated) == (10.0 * (1 + (not gone)), True)


def machine(l3: dict[int, int], nodes: list[int], packages: dict[int, int] | None = None) -> Topology:
    """Return a machine of L3 caches, NUMA nodes and packages, each as a set of CPUs."""
    found = [MemoryNode(number, cpus, {}, 1, UNKNOWN) for number, cpus in enumerate(nodes)]
    return Topology(0xFFFF, [], packages=packages, l3=l3, nodes=found)


EIGHT = {number: 0b11 << 2 * number for number in range(8)}
EACH = [*EIGHT.values()]
ALL = tuple(EIGHT)
TWO = {0: 0b0011, 1: 0b1100}


@pytest.mark.parametrize(
    "numbers, topology, by, expected",
    [
        (ALL, machine(EIGHT, EACH), "auto", [ALL]),  # a package's L3s declared as NUMA nodes share its memory
        (ALL, machine(EIGHT, EACH), "node", [(number,) for number in ALL]),
        (ALL, machine(EIGHT, [0xFF, 0xFF00]), "auto", [(0, 1, 2, 3), (4, 5, 6, 7)]),  # two nodes per socket are real
        (ALL, machine(EIGHT, [0xFF, 0xFF00]), "package", [ALL]),
        (ALL, machine(EIGHT, [0xFF, 0xFF00]), "l3", [(number,) for number in ALL]),
        (ALL, machine(EIGHT, EACH, {0: 0xFF, 1: 0xFF00}), "auto", [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ((0, 1), machine(TWO, [*TWO.values()], TWO), "auto", [(0,), (1,)]),  # a node for each package
        ((8, 0, 5), machine({0: 0b11, 8: 0b1100}, [0b1111]), "auto", [(0, 8), (5,)]),
        ((8, 0), None, "auto", [(0,), (8,)]),
        ((0,), machine({0: 0b11}, [0b01, 0b10]), "auto", [(0,)]),  # clusters of one cache
    ],
)
def test_caches_are_grouped_by_node_or_package(
    numbers: tuple[int, ...], topology: Topology | None, by: str, expected: list[tuple[int, ...]]
) -> None:
    assert memory_domains(numbers, topology, by) == expected


def test_load_is_the_share_of_the_configured_capacity() -> None:
    (found,) = traffic(counts(0, a={3: (0, 0)}), counts(1, a={3: (50, 50)}), [(3,)])
    assert found.load({"3": 100.0}) == 0.5
    assert found.load({"*": 200.0}) == 0.25
    assert found.load({}) is None


def test_limit_is_spread_over_the_caches_by_use() -> None:
    assert spread(100, (0, 1), {0: 30.0, 1: 10.0}, {0: 2048, 1: 2048}) == {0: 75, 1: 25}
    assert spread(100, (0, 1), {0: 5.0}, {0: 2048, 1: 2048}) == {0: 100, 1: 1}
    assert spread(4096, (0, 1), {0: 5.0}, {0: 2048, 1: 2048}) == {0: 2048, 1: 2048}
    assert spread(60, (4,), {}, {4: 100}) == {4: 60}


def test_each_cache_keeps_its_part_of_the_floor() -> None:
    many = dict.fromkeys(range(4), 2048)
    assert spread(200, (0, 1, 2, 3), {0: 30.0}, many, floor=160) == {0: 200, 1: 40, 2: 40, 3: 40}
    assert min(spread(160, (0, 1, 2, 3), {0: 1.0, 1: 9.0}, many, floor=160).values()) == 40


def test_memory_domains_are_of_whole_l3_domains_that_count_traffic(host: Host) -> None:
    others = ("mon_L3_05/llc_occupancy", "mon_PERF_PKG_06/mbm_total_bytes", "mon_L3_07/mon_sub_L3_07/mbm_total_bytes")
    paths = ("mon_L3_01/mbm_total_bytes", "mon_L3_00/mbm_total_bytes", *others)
    assert domains_of_slots(host.context(), map(slot_at, paths)) == [(0,), (1,)]
