"""Each layout of bandwidth counters in each command and service of observation: values, names and units."""

from __future__ import annotations

import csv
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hosts.monitored import KEYS
from layouts.test_consumers import TOTAL, LayoutHost, host, near

from resctrl_hooks.observe.cluster.api import MetricsPod
from resctrl_hooks.observe.cluster.exposition import parse
from resctrl_hooks.observe.cluster.nodes import NAMES as NODE_NAMES
from resctrl_hooks.observe.cluster.nodes import node_of
from resctrl_hooks.observe.cluster.readings import NodeReading
from resctrl_hooks.observe.cluster.usage import NAMES, pods_of
from resctrl_hooks.observe.inventory.columns import MBM, value_in
from resctrl_hooks.observe.node.history.rows import Sampler
from resctrl_hooks.observe.node.slowdown.evidence.reader import NodeReader

if TYPE_CHECKING:
    from pathlib import Path

    from resctrl_hooks.observe.node.slowdown.evidence.perf.watched import Watched

HOUSES = ("lab",)
__all__ = ("host",)
pytestmark = pytest.mark.fuse


@pytest.mark.ci
def test_top_has_each_domain_under_its_name(host: LayoutHost) -> None:
    made = host.json("top", "--interval", "500ms")
    rates = {(one["resource"], one["domain"]): one["memoryBandwidthBytesPerSecond"] for one in made["domains"]}
    counted = {(host.resource, number) for number in host.numbers}
    assert counted == {place for place, rate in rates.items() if rate}
    assert set(rates) == counted | {("L3", 0), ("L3", 1)}
    (pod,) = [one for one in made["items"] if one["kind"] == "pod"]
    assert near(pod["memoryBandwidthBytesPerSecond"])
    assert [one["domain"] for one in made["memoryDomains"]] == host.numbers
    # The root group's tasks, which count as one, and the pod.
    assert all(near(one["memoryBandwidthBytesPerSecond"], 2 / len(host.numbers)) for one in made["memoryDomains"])
    text = host.run("top", "--once", "--interval", "300ms").output
    assert all(f"{host.resource} {number} " in text for number in host.numbers), text


@pytest.mark.ci
def test_top_selects_a_domain_by_number_or_by_name(host: LayoutHost) -> None:
    number = host.numbers[-1]
    for name in (str(number), f"{host.resource}_{number}"):
        made = host.json("top", "--interval", "500ms", "--domain", name)
        assert made["domain"] == number
        (pod,) = [one for one in made["items"] if one["kind"] == "pod"]
        assert near(pod["memoryBandwidthBytesPerSecond"], 1 / len(host.numbers))
    failed = host.run("top", "--once", "--interval", "100ms", "--domain", "99")
    assert (failed.exit_code, f"{host.resource}_{number}" in failed.output) == (2, True)


def test_metrics_have_resource_and_memory_domains(host: LayoutHost) -> None:
    lines = host.run("metrics").output.splitlines()
    for folder, number in zip(host.folders, host.numbers, strict=True):
        place = f'domain_id="{number:02d}",domain_name="{folder}"'
        start = f"{host.resource.lower()}_{TOTAL}_total{{"
        assert any(line.startswith(start) and place in line for line in lines), folder
    domains = [line for line in lines if line.startswith("resctrl_domain_mbm_bytes_total{")]
    assert [line.partition('"')[2].partition('"')[0] for line in domains] == list(map(str, host.numbers))


def readings_of(host: LayoutHost, names: Any) -> NodeReading:
    before, began = parse(host.run("metrics").output, names), time.monotonic()
    time.sleep(1)
    now = parse(host.run("metrics").output, names)
    pod = MetricsPod("worker-0", "metrics-worker-0", "10.0.0.1", ready=True, image="i")
    return NodeReading(pod, before, now, time.monotonic() - began)


@pytest.mark.ci
def test_kubectl_knows_that_the_node_counts_and_how_much(host: LayoutHost) -> None:
    node = node_of(readings_of(host, NODE_NAMES))
    assert node.counting == "yes"
    assert node.load is not None
    assert near(node.load * 1e9, 2 / len(host.numbers))
    (pod,) = pods_of(readings_of(host, NAMES))
    assert near(value_in(pod, MBM))


@pytest.mark.ci
def test_recording_and_report_have_the_domains(host: LayoutHost, tmp_path: Path) -> None:
    file, page = tmp_path / "night.csv", tmp_path / "night.html"
    assert host.run("record", "--interval", "300ms", "--for", "1s", "-o", str(file)).exit_code == 0
    rows = [row for row in csv.DictReader(file.read_text().splitlines()) if row["kind"] == "pod" and row[TOTAL]]
    assert sorted({row["domain"] for row in rows}) == sorted(host.folders)
    made = host.run("report", str(file), "-o", str(page))
    assert made.exit_code == 0, made.output
    assert all(folder in page.read_text() for folder in host.folders)


@pytest.mark.ci
def test_history_has_memory_domains_and_changes_of_every_resource(host: LayoutHost) -> None:
    sampler = Sampler(host.context)
    sampler.sample()
    time.sleep(0.1)
    rows = sampler.sample()
    assert [row["domain"] for row in rows if row["kind"] == "memory"] == host.folders
    assert sorted(sampler.peaks) == host.numbers


@pytest.mark.ci
def test_slowdown_sees_the_traffic_of_each_domain(host: LayoutHost) -> None:
    reader, watched = NodeReader(host.context), cast("Watched", SimpleNamespace(read=lambda _: (None, None)))
    assert list(reader.domains) == [(number,) for number in host.numbers]
    before = reader.read(watched)
    time.sleep(0.5)
    window = reader.window(before, reader.read(watched))
    traffic = window.uses[KEYS[0]].traffic
    assert traffic is not None
    assert sorted(traffic) == host.numbers
    assert near(sum(traffic.values()))
    assert all(near(rate, 2 / len(host.numbers)) for rate in window.moved.values())
