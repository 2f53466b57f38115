"""Load of memory domains and its largest pods, from made-up counters of a node with two L3 caches."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.counter_tree import say_paths
from hosts.monitored import KEYS, MonitoredHost, plain_host

from resctrl_hooks.observe.inventory.memory_load import memory_usage, pod_memory
from resctrl_hooks.observe.inventory.usage_models import MemoryUsage
from resctrl_hooks.observe.node.guard.snapshots import domains_of
from resctrl_hooks.observe.node.snapshot.snapshot import Snapshot, take

NAMES = {KEYS[0]: "shop/cart", KEYS[1]: "batch/etl"}


def say(folder: Path, first: tuple[object, object], second: tuple[object, object]) -> None:
    """Set total and local traffic of the two L3 domains."""
    values: dict[str, object] = {}
    for domain, (total, local) in (("mon_L3_00", first), ("mon_L3_01", second)):
        values |= {f"{domain}/mbm_total_bytes": total, f"{domain}/mbm_local_bytes": local}
    say_paths(folder, values)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Two pods in the root class."""
    with plain_host(tmp_path, sysPath=str(tmp_path / "sys")) as found:
        for folder in (found.resctrl, found.group(0, "cart"), found.group(1, "etl")):
            say(folder, (0, 0), (0, 0))
        yield found


def groups(host: MonitoredHost) -> list[Path]:
    return [next((host.resctrl / "mon_groups").glob(f"*{key}")) for key in NAMES]


def begin(host: MonitoredHost) -> tuple[Snapshot, list[tuple[int, ...]]]:
    before = take(host.context)
    time.sleep(0.1)
    return before, list(domains_of(host.context, before))


def measured(host: MonitoredHost, before: Snapshot, domains: list[tuple[int, ...]]) -> list[MemoryUsage]:
    """Return the usage of domains that can carry 1000 bytes in the interval."""
    now = take(host.context)
    return memory_usage(before, now, domains, {"*": 1000 / (now.when - before.when)}, NAMES)


def test_load_of_two_domains_names_largest_pods(host: MonitoredHost) -> None:
    before, domains = begin(host)
    cart, etl = groups(host)
    say(cart, (300, 200), (0, 0))
    say(etl, (600, 600), (50, 50))
    say(host.resctrl, (900, 800), (50, 50))
    first, second = measured(host, before, domains)
    assert (first.domain, first.l3, first.estimated) == (0, [0], False)
    assert (first.load_percent, second.load_percent) == (80, 15)
    assert [(pod.name, pod.share_percent) for pod in first.pods] == [("batch/etl", 75.0), ("shop/cart", 25.0)]
    assert [pod.name for pod in second.pods] == ["shop/cart", "batch/etl"]


@pytest.mark.parametrize("value", ["Unavailable", "Error", 0])
def test_domain_with_unknown_value_has_neither_load_nor_pods(host: MonitoredHost, value: object) -> None:
    say(host.resctrl, (500, 500), (0, 0))
    before, domains = begin(host)
    say(host.resctrl, (value, 500), (40, 40))
    first, second = measured(host, before, domains)
    assert (first.memory_bandwidth_bytes_per_second, first.load_percent, first.pods) == (None, None, [])
    assert first.capacity_bytes_per_second
    # The other domain is known but for the first one's remote traffic.
    assert second.memory_bandwidth_bytes_per_second is not None
    assert second.estimated


def test_share_of_pod_is_of_known_traffic_beside_unknown_domain(host: MonitoredHost) -> None:
    """The remote traffic of an unknown domain is in neither the whole nor the part."""
    before, domains = begin(host)
    cart, etl = groups(host)
    say(cart, (100, 100), (900, 0))
    say(etl, (100, 100), (0, 0))
    say(host.resctrl, (200, 200), ("Unavailable", 0))
    first, _ = measured(host, before, domains)
    assert {pod.name: pod.share_percent for pod in first.pods} == {"shop/cart": 50.0, "batch/etl": 50.0}
    now = take(host.context)
    (shown, _) = pod_memory(before, now, domains, {}, KEYS[0])
    assert shown.share_percent == 50.0
    assert shown.memory_bandwidth_bytes_per_second == pytest.approx(1000 / (now.when - before.when))


def test_load_without_local_counters_is_estimated(host: MonitoredHost) -> None:
    for folder in (host.resctrl, *groups(host)):
        for path in folder.glob("mon_data/*/mbm_local_bytes"):
            path.unlink()
    before, domains = begin(host)
    say_paths(host.resctrl, {"mon_L3_00/mbm_total_bytes": 400})
    first, second = measured(host, before, domains)
    assert first.estimated
    assert (first.load_percent, second.load_percent) == (40, 0)
    assert first.pods == []


def test_traffic_of_a_pod_has_its_share_of_each_domain(host: MonitoredHost) -> None:
    before, domains = begin(host)
    cart, etl = groups(host)
    say(cart, (300, 200), (0, 0))
    say(host.resctrl, (900, 800), (50, 50))
    now = take(host.context)
    capacity = {"*": 1000 / (now.when - before.when)}
    first, second = pod_memory(before, now, domains, capacity, KEYS[0])
    assert (first.domain, first.share_percent, first.load_percent, first.estimated) == (0, 25.0, 80.0, False)
    assert first.memory_bandwidth_bytes_per_second == pytest.approx(200 / (now.when - before.when))
    assert (second.domain, second.share_percent, second.load_percent) == (1, 66.7, 15.0)
    assert [one.share_percent for one in pod_memory(before, now, domains, {}, KEYS[2])] == [None, None]  # not tracked
    say(etl, ("Unavailable", 0), (0, 0))
    before, _ = begin(host)
    for one in pod_memory(before, take(host.context), domains, {}, KEYS[1]):
        assert (one.memory_bandwidth_bytes_per_second, one.share_percent, one.load_percent) == (None, None, None)


def test_three_largest_pods_are_shown_by_name_or_key(tmp_path: Path) -> None:
    with plain_host(tmp_path, sysPath=str(tmp_path / "sys")) as host:
        folders = [host.resctrl, *(host.group(number, f"pod-{number}") for number in range(5))]
        for folder in folders:
            say(folder, (0, 0), (0, 0))
        before, domains = begin(host)
        for folder, total in zip(folders, (1000, 10, 0, 400, 300, 250), strict=True):
            say(folder, (total, total), (0, 0))
        first, second = memory_usage(before, take(host.context), domains, {}, {KEYS[2]: "shop/pod-2"})
    assert [(pod.name, pod.share_percent) for pod in first.pods] == [
        ("shop/pod-2", 40.0),
        (KEYS[3], 30.0),
        (KEYS[4], 25.0),
    ]
    assert (first.capacity_bytes_per_second, first.load_percent, second.pods) == (None, None, [])
