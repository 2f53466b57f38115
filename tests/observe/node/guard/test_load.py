"""Traffic and load of memory domains, with groups that come and go all the time, and the largest pods of a class."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Host, temporary_host
from hosts.faults import Fail
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.errors import LedgerError
from resctrl_hooks.core.node.host.topology import UNKNOWN, MemoryNode, Topology
from resctrl_hooks.core.node.ledger import Ledger
from resctrl_hooks.core.node.resctrl.bandwidth import Bandwidth
from resctrl_hooks.core.node.resctrl.counters import slot_at
from resctrl_hooks.observe.node.capacity.domains import memory_domains
from resctrl_hooks.observe.node.guard.actuator import spread
from resctrl_hooks.observe.node.guard.churn import FOR_EACH_LEFT, MOST_FILES, Groups
from resctrl_hooks.observe.node.guard.load import ClassCounts, Reader, traffic
from resctrl_hooks.observe.node.guard.pods import Pods
from resctrl_hooks.observe.node.guard.snapshots import domains_of_slots
from resctrl_hooks.observe.node.guard.status import NAME

from .node import GB, Node

L3_DOMAINS = Bandwidth("L3", (0, 1))
Moved = tuple[int | None, int | None]
"""Total and local bytes of a class on an L3 domain in an interval; None if the counter has no value."""
MOVED = st.tuples(st.integers(0, 1000), st.integers(0, 1000)).map(lambda pair: (max(pair), min(pair)))
VALUES = st.one_of(MOVED, MOVED, MOVED, MOVED.map(lambda pair: (pair[0], None)), st.just((None, 5)))


@pytest.mark.hypothesis
@settings(max_examples=150, deadline=None)
@given(
    moved=st.integers(1, 4).flatmap(
        lambda l3: st.dictionaries(st.sampled_from("abc"), st.lists(VALUES, min_size=l3, max_size=l3), min_size=1)
    ),
    seconds=st.sampled_from([0, 1, 2]),
    gone=st.booleans(),
    come=st.booleans(),
)
def test_traffic_is_local_and_others_remote_traffic(
    moved: dict[str, list[Moved]], seconds: int, *, gone: bool, come: bool
) -> None:
    """Remote traffic is spread evenly; where local traffic is unknown, the totals are taken."""
    count = len(next(iter(moved.values())))
    domains = [(number,) for number in range(count)]
    before: dict[str, dict[int, Moved]] = {name: dict.fromkeys(range(count), (5, 5)) for name in moved}
    if gone:
        before["gone"] = dict.fromkeys(range(count), (5, 5))
    after: dict[str, dict[int, Moved]] = {}
    for name, of in moved.items():
        pairs = ((None if total is None else 5 + total, None if local is None else 5 + local) for total, local in of)
        after[name] = dict(enumerate(pairs))
    if come:
        after["new"] = dict.fromkeys(range(count), (7, 7))
    found = traffic(ClassCounts(0, before), ClassCounts(seconds, after), domains)
    assert [one.domain for one in found] == domains
    known = [number for number in range(count) if seconds and all(of[number][0] is not None for of in moved.values())]
    split = all(of[number][1] is not None for of in moved.values() for number in known)
    for number, one in enumerate(found):
        if number not in known:
            assert (one.rate, one.rates, one.load(1.0)) == (None, {}, None)
            continue
        rate = 0.0
        for of in moved.values():
            rate += (of[number][1] if split and count > 1 else of[number][0]) or 0
            if split and count > 1:
                away = [(of[other][0] or 0) - (of[other][1] or 0) for other in known if other != number]
                rate += sum(away) / (count - 1)
        assert one.rate == pytest.approx(rate / seconds)
        assert one.rates == {name: (of[number][0] or 0) / seconds for name, of in moved.items()}
        exact = count == 1 or (count == 2 and split and len(known) == 2)
        assert one.estimated is (not exact or gone or come)
        assert one.load(10.0) == pytest.approx(rate / seconds / 10.0)
        assert one.load(0.0) is None


def machine(l3: dict[int, int], nodes: list[int], packages: dict[int, int] | None = None) -> Topology:
    """Return a machine of L3 caches, NUMA nodes and packages, each as a set of CPUs."""
    found = [MemoryNode(number, cpus, {}, 1, UNKNOWN) for number, cpus in enumerate(nodes)]
    return Topology(0xFFFF, [], packages=packages, l3=l3, nodes=found)


EIGHT = {number: 0b11 << 2 * number for number in range(8)}
EACH = [*EIGHT.values()]
ALL = tuple(EIGHT)
TWO = {0: 0b0011, 1: 0b1100}


PAIRS, EACH_ONE = [(0, 1, 2, 3), (4, 5, 6, 7)], [(number,) for number in ALL]


@pytest.mark.parametrize(
    "numbers, topology, by, expected",
    [
        (ALL, machine(EIGHT, EACH), "auto", [ALL]),  # a package's L3s declared as NUMA nodes share its memory
        (ALL, machine(EIGHT, EACH), "node", EACH_ONE),
        (ALL, machine(EIGHT, [0xFF, 0xFF00]), "auto", PAIRS),  # two nodes per socket are real
        (ALL, machine(EIGHT, [0xFF, 0xFF00]), "package", [ALL]),
        (ALL, machine(EIGHT, [0xFF, 0xFF00]), "l3", EACH_ONE),
        (ALL, machine(EIGHT, EACH, {0: 0xFF, 1: 0xFF00}), "auto", PAIRS),
        ((0, 1), machine(TWO, [*TWO.values()], TWO), "auto", [(0,), (1,)]),  # a node for each package
        ((8, 0, 5), machine({0: 0b11, 8: 0b1100}, [0b1111]), "auto", [(0, 8), (5,)]),
        ((8, 0), None, "auto", [(0,), (8,)]),
        ((0,), machine({0: 0b11}, [0b01, 0b10]), "auto", [(0,)]),  # clusters of one cache
    ],
)
def test_caches_are_grouped_by_node_or_package(numbers: Any, topology: Any, by: str, expected: Any) -> None:
    assert memory_domains(numbers, topology, by) == expected


def test_memory_domains_are_of_whole_l3_domains_that_count_traffic(host: Host) -> None:
    others = ("mon_L3_05/llc_occupancy", "mon_PERF_PKG_06/mbm_total_bytes", "mon_L3_07/mon_sub_L3_07/mbm_total_bytes")
    paths = ("mon_L3_01/mbm_total_bytes", "mon_L3_00/mbm_total_bytes", *others)
    assert domains_of_slots(host.context(), map(slot_at, paths)) == [(0,), (1,)]


@pytest.mark.parametrize(
    "value, use, declared, floor, expected",
    [
        (100, {0: 30.0, 1: 10.0}, 2048, 0, [75, 25]),
        (100, {0: 5.0}, 2048, 0, [100, 1]),
        (4096, {0: 5.0}, 2048, 0, [2048, 2048]),
        (60, {}, 100, 0, [30, 30]),
        (200, {0: 30.0}, 2048, 160, [200, 80]),
        (160, {0: 1.0, 1: 9.0}, 2048, 160, [80, 144]),
    ],
)
def test_limit_is_spread_by_use_above_the_floor(
    value: int, use: Any, declared: int, floor: int, expected: list[int]
) -> None:
    assert [*spread(value, (0, 1), use, dict.fromkeys((0, 1), declared), floor).values()] == expected


# Groups that come and go


class Kernel:
    """Two classes with groups; a class's file is the sum of its own tasks and of its present groups."""

    def __init__(self, host: Host) -> None:
        self.node = Node(host)
        self.groups: dict[str, str] = {}
        self.counted: dict[str, int] = {}
        self.own = {"bronze": 0, "silver": 0}
        self.moved = {"bronze": 0, "silver": 0}
        """The truth: bytes by class, whatever became of the groups."""

    def path(self, name: str) -> Path:
        return self.node.root / self.groups[name] / "mon_groups" / name

    def add(self, name: str, rdt_class: str) -> None:
        self.groups[name], self.counted[name] = rdt_class, 0
        self.path(name).mkdir()

    def end(self, name: str) -> None:
        self.path(name).rename(self.node.host.root / f"ended-{name}")  # kernfs reuses no inode soon
        del self.groups[name], self.counted[name]

    def move(self, name: str, rdt_class: str, new: str) -> None:
        old = self.path(name)
        self.groups[new], self.counted[new] = rdt_class, self.counted.pop(name)
        del self.groups[name]
        old.rename(self.path(new))

    def count(self, each: int = 10) -> None:
        for name, rdt_class in self.groups.items():
            self.counted[name] += each
            self.moved[rdt_class] += each
            self.node.count(f"{rdt_class}/mon_groups/{name}", 0, self.counted[name])
        for rdt_class in self.own:
            self.own[rdt_class] += 5
            self.moved[rdt_class] += 5
            present = sum(self.counted[name] for name, of in self.groups.items() if of == rdt_class)
            self.node.count(rdt_class, 0, self.own[rdt_class] + present)

    def reader(self) -> Reader:
        return Reader(self.node.context().monitor.resctrl, Bandwidth("L3", [0]))


CLASSES = ["bronze", "silver"]
CHANGE = st.tuples(st.sampled_from(["add", "end", "move", "rename"]), st.integers(0, 9), st.sampled_from(CLASSES))


@pytest.mark.hypothesis
@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(CHANGE, max_size=2), min_size=3, max_size=12))
@example([[("add", 0, "bronze")] * 3, [], [("end", 0, "bronze")], [("move", 0, "silver")], [("move", 1, "silver")]])
def test_bytes_of_groups_that_ended_or_moved_stay_with_the_class_in_which_they_were_counted(looks: list[Any]) -> None:
    """From the look on in which a first group left its class: then groups are read."""
    with temporary_host() as host:
        kernel, born = Kernel(host), 0
        reader, read, active, seen = kernel.reader(), set[str](), set[str](), set[str]()
        before: dict[str, int] = {}
        for changes in looks:
            lost, unknown, truth = dict.fromkeys(CLASSES, 0), set[str](), dict(kernel.moved)
            for kind, number, rdt_class in changes:
                names = sorted(kernel.groups)
                if kind == "add":
                    born += 1
                    kernel.add(f"g{born:03}", rdt_class)
                elif names:
                    name = names[number % len(names)]
                    left, known = kernel.groups[name], name in read
                    target = left if kind == "rename" else rdt_class
                    bytes_ = kernel.counted[name]
                    born += 1
                    new = f"g{born:03}"
                    if kind == "end":
                        kernel.end(name)
                    else:
                        kernel.move(name, target, new)
                        read |= {new} if known else set()
                        seen |= {new} if name in seen else set()
                    if name in seen and (kind == "end" or target != left):
                        active.add(left)
                        lost[left] += 0 if known else bytes_
                        unknown |= {target} if kind == "move" and not known else set()
            kernel.count()
            found = reader.read(CLASSES, 0.0)
            for name in CLASSES:
                total = found.counts[name][0][0]
                assert total is not None
                if name in before and name not in unknown and not lost[name]:
                    assert name not in found.jumped
                    assert total - before[name] == kernel.moved[name] - truth[name]
                elif name in before and name not in found.jumped:
                    assert total - before[name] <= kernel.moved[name] - truth[name]
                before[name] = total
            seen = {*kernel.groups}
            read |= {name for name, of in kernel.groups.items() if of in active}


@pytest.fixture
def kernel(host: Host) -> Kernel:
    """A kernel with a group in bronze."""
    made = Kernel(host)
    made.add("a", "bronze")
    made.count()
    return made


@pytest.mark.parametrize("times, jumps", [(1, [False] * 3), (100, [True, True, False])])
def test_look_while_groups_change_is_repeated(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, times: int, jumps: list[bool]
) -> None:
    reader, present, left = kernel.reader(), Groups.present, [*range(times)]
    reader.read(CLASSES, 0.0)

    def changing(self: Groups, classes: list[str]) -> dict[int, tuple[str, str]]:
        found = present(self, classes)
        if left:
            kernel.node.count(f"bronze/mon_groups/new{left.pop()}", 0, 0)
        return found

    found = []
    with monkeypatch.context() as patch:
        patch.setattr(Groups, "present", changing)
        found.append("bronze" in reader.read(CLASSES, 0.0).jumped)
    found += ["bronze" in reader.read(CLASSES, 0.0).jumped for _ in range(2)]
    assert found == jumps


def test_class_that_gets_a_group_without_a_counter_has_jumped_once(kernel: Kernel) -> None:
    reader = kernel.reader()
    for name in ("late", "ends"):
        kernel.add(name, "bronze")
    reader.read(CLASSES, 0.0)
    kernel.end("ends")
    kernel.node.count("bronze/mon_groups/late", 0, "Unassigned")
    reader.read(CLASSES, 0.0)
    kernel.move("late", "silver", "later")
    assert [reader.read(CLASSES, 0.0).jumped for _ in range(2)] == [{"silver"}, set()]


@pytest.mark.parametrize("pods, life, l3", [(110, 110, 2), (240, 120, 16), (1, 2, 2), (240, 60, 2)])
def test_rate_of_a_class_with_many_pods_that_end_is_within_a_tenth(pods: int, life: int, l3: int) -> None:
    """Each pod moves 1 in a sample; their ends are spread over time. One pod of two samples loses at most its last."""
    born = {number: -(number * life // pods) for number in range(pods)}  # by inode
    totals = dict.fromkeys(born, 0)
    reads: list[int] = []

    def read(folder: str) -> dict[int, Moved]:
        reads[-1] += 1
        return {0: (totals[int(folder.rpartition("/")[2])], 0)}

    folders: Any = type("Folders", (), {"group_folder": staticmethod(lambda _, name: name)})
    groups = Groups(folders, read, l3)
    rates, before = [], 0
    for now in range(3 * life + 60):
        for inode in [one for one, since in born.items() if now - since >= life]:
            del born[inode], totals[inode]
            born[inode + 1000], totals[inode + 1000] = now, 0
        for inode in totals:
            totals[inode] += 1
        reads.append(0)
        groups.follow({inode: ("bronze", str(inode)) for inode in born})
        total = sum(totals.values()) + groups.left.get("bronze", {}).get(0, (0, 0))[0]
        rates.append(total - before)
        before = total
    settled = rates[life + 30 :]
    assert sum(settled) / len(settled) >= (0.9 if pods > 1 else 0.5) * pods
    assert max(settled) <= pods
    assert max(reads) <= MOST_FILES // (2 * l3)
    for _ in range(90):
        reads.append(0)
        groups.follow({inode: ("bronze", str(inode)) for inode in born})
    assert reads[-1] == 0, "groups are read only after one left"
    born.popitem()
    groups.follow({inode: ("bronze", str(inode)) for inode in born})
    assert reads[-1] == min(FOR_EACH_LEFT, len(born)), "few are read for each that left"


@pytest.mark.parametrize("period", [1, 3])
def test_guard_acts_on_a_class_whose_pods_end_all_the_time(host: Host, period: int) -> None:
    kernel = Kernel(host)
    guard, rates = kernel.node.guard(), list[float]()
    for second in range(100):
        if second % period == 0:
            for name in [*kernel.groups]:
                kernel.end(name)
            kernel.add(f"pod{second}", "bronze")
        kernel.count(80 * GB)
        kernel.node.count("gold", 0, second * 15 * GB)
        kernel.node.now += 1
        guard.sample(kernel.node.now)
        if (host.state / NAME).exists():
            status = json.loads((host.state / NAME).read_text())
            rates.append(status["domains"]["0"]["classes"]["bronze"]["rate"])
    assert status["invalidSamples"] <= 1  # the first pod's end, before which no group is read
    assert kernel.node.mb("bronze") == 20
    assert all(rate == pytest.approx(80 * GB, rel=0.2) for rate in rates[5:])


# The largest pods, for the log


def count(node: Node, group: str, total: int | str, number: int = 0) -> None:
    """Set the counter of a mon_group of class bronze."""
    node.count(f"bronze/mon_groups/{group}", number, total)


def test_largest_pods_come_first_and_are_at_most_three(host: Host) -> None:
    node = Node(host, l3=(0, 1))
    pods = Pods(node.context(), L3_DOMAINS)
    for rates in ({"a": 9, "b": 0, "c": 0, "d": 0, "e": 0, "z": 0}, {"a": 10, "b": 4, "c": 3, "d": 2, "e": 0, "f": 9}):
        for group, total in rates.items():
            count(node, group, total)
            count(node, group, total * 2, 1)
        pods.sample((0, 1), ["bronze"])
    assert pods.largest(0, "bronze") == ["b", "c", "d"]
    assert pods.largest(0, "silver") == pods.largest(1, "bronze") == []
    count(node, "a", "Unavailable")
    count(node, "e", 1)
    pods.sample((0, 1), ["bronze"])
    assert pods.largest(0, "bronze") == ["e"]


def test_pod_is_named_as_in_its_record_or_by_its_group(host: Host, fail: Fail) -> None:
    node = Node(host)
    context = node.context()
    context.ledger.prepare()
    names = {"pod1": ("web", "shop"), "pod2": ("web", ""), "pod3": ("", "shop")}
    for key, (pod, namespace) in names.items():
        with context.ledger.lock(key, 1.0):
            context.ledger.write_pod(key, {"groups": {}, "pod": pod, "namespace": namespace})
    for shown in (["shop/web", "web", "pod3"], [*names]):
        found = Pods(context, L3_DOMAINS)
        for moved in (0, 1):
            for size, key in enumerate(reversed(names), 1):
                count(node, key, moved * size)
            found.sample((0,), ["bronze"])
        assert found.largest(0, "bronze") == shown
        fail(Ledger, "read_pod", LedgerError("cannot read /x"))


def test_log_of_a_cut_names_the_largest_pods(host: Host) -> None:
    node = Node(host)
    guard = node.guard()
    for second in range(6):
        count(node, "web", second * GB)
        node.pass_time(guard, {"gold": 20.0, "silver": 20.0, "bronze": 45.0})  # just full
    (line,) = [line for line in node.lines if "guard lowered" in line]
    assert line.endswith(": load 85%; largest pods: web")
