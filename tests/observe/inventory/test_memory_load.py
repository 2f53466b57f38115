"""Load of memory domains and its largest pods, from made-up counters of a node with two L3 caches."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.counter_tree import say_paths
from hosts.monitored import KEYS, MonitoredHost, plain_host

from resctrl_hooks.observe.cluster.api import MetricsPod
from resctrl_hooks.observe.cluster.exposition import parse
from resctrl_hooks.observe.cluster.readings import NodeReading
from resctrl_hooks.observe.cluster.usage import NAMES as SERIES
from resctrl_hooks.observe.cluster.usage import pods_of
from resctrl_hooks.observe.inventory.columns import MBM, value_in
from resctrl_hooks.observe.inventory.memory_load import memory_usage, pod_memory
from resctrl_hooks.observe.inventory.pod_rates import PodMemory
from resctrl_hooks.observe.inventory.usage import usage
from resctrl_hooks.observe.inventory.usage_models import MemoryUsage
from resctrl_hooks.observe.node.capacity.capacity import Capacities
from resctrl_hooks.observe.node.guard.snapshots import domains_of, traffic_of
from resctrl_hooks.observe.node.snapshot.snapshot import take

CART, ETL = KEYS[0], KEYS[1]
NAMES = {CART: "shop/cart", ETL: "batch/etl"}
Moved = tuple[object, object]


class Node:
    """Some pods in the root class, whose domains can carry 1000 bytes in an interval."""

    def __init__(self, host: MonitoredHost, pods: int) -> None:
        self.host = host
        self.folders = {"": host.resctrl} | {KEYS[one]: host.group(one, f"pod-{one}") for one in range(pods)}
        for name in self.folders:
            self.say(name, (0, 0), (0, 0))

    def say(self, name: str, first: Moved, second: Moved) -> None:
        """Set total and local traffic of the two L3 domains."""
        for domain, (total, local) in (("mon_L3_00", first), ("mon_L3_01", second)):
            paths = {f"{domain}/mbm_total_bytes": total, f"{domain}/mbm_local_bytes": local}
            say_paths(self.folders[name], {path: value for path, value in paths.items() if value is not None})

    def begin(self) -> None:
        self.before = take(self.host.context)
        self.domains = [*domains_of(self.host.context, self.before)]
        time.sleep(0.1)

    def measured(self) -> list[MemoryUsage]:
        self.now = take(self.host.context)
        self.seconds = self.now.when - self.before.when
        self.capacity = Capacities({"*": 1000 / self.seconds})
        return memory_usage(self.before, self.now, self.domains, self.capacity, NAMES)

    def of(self, key: str) -> list[PodMemory]:
        return pod_memory(self.before, self.now, self.domains, self.capacity, key)


@pytest.fixture
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    with plain_host(tmp_path, sysPath=str(tmp_path / "sys")) as host:
        yield Node(host, getattr(request, "param", 2))


def test_load_of_two_domains_names_largest_pods_and_their_shares(node: Node) -> None:
    node.begin()
    node.say(CART, (300, 200), (0, 0))
    node.say(ETL, (600, 600), (50, 50))
    node.say("", (900, 800), (50, 50))
    first, second = node.measured()
    assert (first.domain, first.l3, first.estimated) == (0, [0], False)
    assert (first.load_percent, second.load_percent) == (80, 15)
    assert [(pod.name, pod.share_percent) for pod in first.pods] == [("batch/etl", 75.0), ("shop/cart", 25.0)]
    assert [pod.name for pod in second.pods] == ["shop/cart", "batch/etl"]
    of_first, of_second = node.of(CART)
    assert (of_first.domain, of_first.share_percent, of_first.load_percent, of_first.estimated) == (0, 25.0, 80, False)
    assert of_first.memory_bandwidth_bytes_per_second == pytest.approx(200 / node.seconds)
    assert (of_second.domain, of_second.share_percent, of_second.load_percent) == (1, 66.7, 15.0)
    assert [one.share_percent for one in node.of(KEYS[2])] == [None, None]  # not tracked
    node.say(ETL, ("Unavailable", 0), (0, 0))
    node.begin()
    node.measured()
    assert {(one.memory_bandwidth_bytes_per_second, one.share_percent) for one in node.of(ETL)} == {(None, None)}


@pytest.mark.parametrize("value", ["Unavailable", "Error", 0])
def test_domain_with_unknown_value_has_neither_load_nor_pods(node: Node, value: object) -> None:
    node.say("", (500, 500), (0, 0))
    node.begin()
    node.say("", (value, 500), (40, 40))
    first, second = node.measured()
    assert (first.memory_bandwidth_bytes_per_second, first.load_percent, first.pods) == (None, None, [])
    assert first.capacity_bytes_per_second
    # The other domain is known but for the first one's remote traffic.
    assert second.memory_bandwidth_bytes_per_second is not None
    assert second.estimated


def test_share_of_pod_is_of_known_traffic_beside_unknown_domain(node: Node) -> None:
    """The remote traffic of an unknown domain is in neither the whole nor the part."""
    node.begin()
    node.say(CART, (100, 100), (900, 0))
    node.say(ETL, (100, 100), (0, 0))
    node.say("", (200, 200), ("Unavailable", 0))
    first, _ = node.measured()
    assert {pod.name: pod.share_percent for pod in first.pods} == {"shop/cart": 50.0, "batch/etl": 50.0}
    (shown, _) = node.of(CART)
    assert shown.share_percent == 50.0
    assert shown.memory_bandwidth_bytes_per_second == pytest.approx(1000 / node.seconds)


def test_load_without_local_counters_is_estimated(node: Node) -> None:
    for path in node.host.resctrl.rglob("mbm_local_bytes"):
        path.unlink()
    node.begin()
    node.say("", (400, None), (0, None))
    first, second = node.measured()
    assert (first.estimated, first.load_percent, second.load_percent, first.pods) == (True, 40, 0, [])


@pytest.mark.parametrize("node", [5], indirect=True)
def test_three_largest_pods_are_shown_by_name_or_key(node: Node) -> None:
    node.begin()
    for name, total in zip(node.folders, (1000, 10, 0, 400, 300, 250), strict=True):
        node.say(name, (total, total), (0, 0))
    node.measured()
    first, second = memory_usage(node.before, node.now, node.domains, Capacities(), {KEYS[2]: "shop/pod-2"})
    assert [(pod.name, pod.share_percent) for pod in first.pods] == [
        ("shop/pod-2", 40.0), (KEYS[3], 30.0), (KEYS[4], 25.0),
    ]  # fmt: skip
    assert (first.capacity_bytes_per_second, first.load_percent, second.pods) == (None, None, [])


def test_no_byte_of_caches_and_memories_that_both_count_is_counted_twice(tmp_path: Path) -> None:
    with plain_host(tmp_path, "info") as host:
        folders = (host.resctrl, host.group(0, "web-0"))

        def count(total: int) -> None:
            for folder in folders:
                places = {f"{place}/mbm_total_bytes": total for place in ("mon_L3_01", "mon_MB_10")}
                say_paths(folder, {**places, "mon_L3_01/mbm_local_bytes": total, "mon_L3_01/llc_occupancy": 4096})

        count(1000)
        before, text = take(host.context), host.run("metrics").output
        count(3000)
        now, series = take(host.context), [parse(one, SERIES) for one in (text, host.run("metrics").output)]
        now.when = before.when + 2.0  # two reads can be of the same millisecond
        for domain in ("", "mon_L3_01"):
            lines = usage(before, now, domain=domain)
            assert [line.moved["mbm_total_bytes"] for line in lines if line.kind == "pod"] == [2000]
        (whole,) = traffic_of(before, now, domains_of(host.context, now))
    assert (whole.domain, whole.estimated) == ((10,), False)
    assert whole.rate == pytest.approx(1000)
    pod = MetricsPod("worker-0", "metrics-worker-0", "10.0.0.1", ready=True, image="i")
    names = {one.partition("{")[0] for one in series[1]}
    assert {"l3_mbm_total_bytes_total", "mb_mbm_total_bytes_total"} <= names
    alone = [{one: value for one, value in of.items() if "l3_mbm" not in one} for of in series]
    readings = (NodeReading(pod, of[0], of[1], 1.0) for of in (series, alone))
    both, memory = ([value_in(one, MBM) for one in pods_of(found)] for found in readings)
    assert both == memory
