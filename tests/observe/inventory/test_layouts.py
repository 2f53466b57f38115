"""Each layout of bandwidth counters in each command and service of observation: values, names and units."""

from __future__ import annotations

import csv
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

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
from resctrl_hooks.observe.node.slowdown.evidence.reader import NodeReader

if TYPE_CHECKING:
    from pathlib import Path

    from resctrl_hooks.observe.node.slowdown.evidence.perf.watched import Watched

HOUSES = ("lab",)
__all__ = ("host",)
pytestmark = pytest.mark.fuse


def test_metrics_have_resource_and_memory_domains(host: LayoutHost) -> None:
    lines = host.run("metrics").output.splitlines()
    for folder, number in zip(host.folders, host.numbers, strict=True):
        place = f'domain_id="{number:02d}",domain_name="{folder}"'
        start = f"{host.resource.lower()}_{TOTAL}_total{{"
        assert any(line.startswith(start) and place in line for line in lines), folder
    domains = [line for line in lines if line.startswith("resctrl_domain_mbm_bytes_total{")]
    assert [line.partition('"')[2].partition('"')[0] for line in domains] == list(map(str, host.numbers))


@pytest.mark.ci
def test_top_has_each_domain_under_its_name_and_selects_one(host: LayoutHost) -> None:
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
    number = host.numbers[-1]
    for name in (str(number), f"{host.resource}_{number}"):
        made = host.json("top", "--interval", "500ms", "--domain", name)
        (pod,) = [one for one in made["items"] if one["kind"] == "pod"]
        assert (made["domain"], near(pod["memoryBandwidthBytesPerSecond"], 1 / len(host.numbers))) == (number, True)
    failed = host.run("top", "--once", "--interval", "100ms", "--domain", "99")
    assert (failed.exit_code, f"{host.resource}_{number}" in failed.output) == (2, True)


@pytest.mark.ci
def test_recording_report_kubectl_and_slowdown_have_the_domains(host: LayoutHost, tmp_path: Path) -> None:
    file, page = tmp_path / "night.csv", tmp_path / "night.html"
    began, before = time.monotonic(), host.run("metrics").output
    reader, watched = NodeReader(host.context), cast("Watched", SimpleNamespace(read=lambda _: (None, None)))
    assert list(reader.domains) == [(number,) for number in host.numbers]
    first = reader.read(watched)
    assert host.run("record", "--interval", "300ms", "--for", "1s", "-o", str(file)).exit_code == 0
    found = [row for row in csv.DictReader(file.read_text().splitlines()) if row[TOTAL] or row["kind"] == "memory"]
    for kind in ("pod", "memory"):
        assert sorted({row["domain"] for row in found if row["kind"] == kind}) == sorted(host.folders)
    made = host.run("report", str(file), "-o", str(page))
    assert (made.exit_code, all(folder in page.read_text() for folder in host.folders)) == (0, True), made.output
    window = reader.window(first, reader.read(watched))
    traffic = window.uses[KEYS[0]].traffic
    assert traffic is not None
    assert (sorted(traffic), near(sum(traffic.values()))) == (host.numbers, True)
    assert all(near(rate, 2 / len(host.numbers)) for rate in window.moved.values())
    text, seconds = host.run("metrics").output, time.monotonic() - began
    pod = MetricsPod("worker-0", "metrics-worker-0", "10.0.0.1", ready=True, image="i")
    of_node, of_pods = (NodeReading(pod, parse(before, of), parse(text, of), seconds) for of in (NODE_NAMES, NAMES))
    node = node_of(of_node)
    assert (node.counting, near((node.load or 0) * 1e9, 2 / len(host.numbers))) == ("yes", True)
    (one,) = pods_of(of_pods)
    assert near(value_in(one, MBM))
