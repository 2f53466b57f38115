"""A node on which L3 caches and memories both count bandwidth: no byte counts twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.counter_tree import say_paths
from hosts.monitored import MonitoredHost, plain_host

from resctrl_hooks.observe.cluster.api import MetricsPod
from resctrl_hooks.observe.cluster.exposition import parse
from resctrl_hooks.observe.cluster.readings import NodeReading
from resctrl_hooks.observe.cluster.usage import NAMES, pods_of
from resctrl_hooks.observe.inventory.columns import MBM, value_in
from resctrl_hooks.observe.inventory.usage import usage
from resctrl_hooks.observe.node.guard.snapshots import domains_of, traffic_of
from resctrl_hooks.observe.node.snapshot.snapshot import take


def count(host: MonitoredHost, group: Path, total: int) -> None:
    for folder in (host.resctrl, group):
        for place in ("mon_L3_01", "mon_MB_10"):
            say_paths(folder, {f"{place}/mbm_total_bytes": total})
        say_paths(folder, {"mon_L3_01/mbm_local_bytes": total, "mon_L3_01/llc_occupancy": 4096})


@pytest.fixture
def group(tmp_path: Path) -> Iterator[tuple[MonitoredHost, Path]]:
    with plain_host(tmp_path, "info") as host:
        folder = host.group(0, "web-0")
        count(host, folder, 1000)
        yield host, folder


def test_sums_have_the_memory_only(group: tuple[MonitoredHost, Path]) -> None:
    host, folder = group
    before = take(host.context)
    count(host, folder, 3000)
    now = take(host.context)
    now.when = before.when + 2.0  # two reads can be of the same millisecond
    lines = usage(before, now)
    assert [line.moved["mbm_total_bytes"] for line in lines if line.kind == "pod"] == [2000]
    (whole,) = traffic_of(before, now, domains_of(host.context, now))
    assert (whole.domain, whole.estimated) == ((10,), False)
    assert whole.rate == pytest.approx(1000)
    of_cache = usage(before, now, domain="mon_L3_01")
    assert [line.moved["mbm_total_bytes"] for line in of_cache if line.kind == "pod"] == [2000]


def test_kubectl_has_the_memory_only(group: tuple[MonitoredHost, Path]) -> None:
    host, folder = group
    before = host.run("metrics").output
    count(host, folder, 3000)
    pod = MetricsPod("worker-0", "metrics-worker-0", "10.0.0.1", ready=True, image="i")
    reading = NodeReading(pod, parse(before, NAMES), parse(host.run("metrics").output, NAMES), 1.0)
    names = {one.partition("{")[0] for one in reading.now}
    assert {"l3_mbm_total_bytes_total", "mb_mbm_total_bytes_total"} <= names
    both = (reading.before, reading.now)
    old, new = ({one: value for one, value in series.items() if "l3_mbm" not in one} for series in both)
    alone = NodeReading(pod, old, new, 1.0)
    assert [value_in(one, MBM) for one in pods_of(reading)] == [value_in(one, MBM) for one in pods_of(alone)]
