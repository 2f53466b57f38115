"""Each layout of bandwidth counters in each command and service that reads them: values, names and units.

`L3` as on most machines, `MB` as in NVIDIA's kernels, `NODE` as in the patches under review, and an invented resource.
Ids have gaps. An Arm machine is simulated, which counts the total only.
"""

from __future__ import annotations

import csv
import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hosts.monitored import KEYS, MonitoredHost, monitored_host
from hosts.simulated_kernel import Layout

from resctrl_hooks.lab.simulation import mounted
from resctrl_hooks.lab.simulation.machine import BYTES_PER_SECOND
from resctrl_hooks.observe.cluster.api import MetricsPod
from resctrl_hooks.observe.cluster.exposition import parse
from resctrl_hooks.observe.cluster.nodes import NAMES as NODE_NAMES
from resctrl_hooks.observe.cluster.nodes import node_of
from resctrl_hooks.observe.cluster.readings import NodeReading
from resctrl_hooks.observe.cluster.usage import NAMES, pods_of
from resctrl_hooks.observe.inventory.columns import MBM, value_in
from resctrl_hooks.observe.node.history.rows import Sampler
from resctrl_hooks.observe.node.slowdown.reader import NodeReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from resctrl_hooks.observe.node.slowdown.watched import Watched

HOUSES = ("lab",)
pytestmark = pytest.mark.fuse

TOTAL = "mbm_total_bytes"
OTHERS = "MB_MIN:0=0;1=0 MB_REGION0_OPT:0=5 GMB:0=4096"
LAYOUTS = [Layout("L3"), Layout("MB", "0-1,10"), Layout("NODE", "1,4"), Layout("X", "3,7")]


class LayoutHost(MonitoredHost):
    """A host with one pod of one process, and where its bandwidth is counted."""

    layout: Layout

    @property
    def resource(self) -> str:
        return self.layout.bandwidth

    @property
    def numbers(self) -> list[int]:
        """The domains that count."""
        return {"L3": [0, 1], "MB": [0, 1, 10], "NODE": [1, 4], "X": [3, 7]}[self.resource]

    @property
    def folders(self) -> list[str]:
        return [f"mon_{self.resource}_{number:02d}" for number in self.numbers]


@pytest.fixture(scope="module", params=LAYOUTS, ids=lambda layout: layout.bandwidth)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LayoutHost]:
    root, layout = tmp_path_factory.mktemp("layout"), request.param
    machine: dict[str, Any] = {"vendor": "arm", "pmg": 8, "partids": 4, **layout._asdict(), "other_schemata": OTHERS}
    capacity = {"monitoring": {"capacity": {"*": 1e9}}}
    with mounted(root / "resctrl", **machine) as path, monitored_host(root, path, **capacity) as made:
        made.__class__ = LayoutHost
        assert isinstance(made, LayoutHost)
        made.layout = layout
        made.pod(0, "web-0")
        yield made


def near(rate: float | None, share: float = 1.0) -> bool:
    """Return whether a rate is about a part of one process's traffic; timers of a busy machine are late."""
    return rate is not None and 0.5 * share * BYTES_PER_SECOND < rate < 1.5 * share * BYTES_PER_SECOND


def test_totals_are_of_each_domain_in_bytes(host: LayoutHost) -> None:
    time.sleep(0.1)
    found = [one for one in host.context.monitor.read(KEYS[0]) if one.counter.name == TOTAL]
    assert [(one.domain.folder, one.domain.resource, one.domain.id, one.unit) for one in found] == [
        (folder, host.resource, number, "By") for folder, number in zip(host.folders, host.numbers, strict=True)
    ]
    assert all(one.value for one in found)


def test_list_and_show_name_the_domains(host: LayoutHost) -> None:
    (pod,) = host.json("list")["items"]
    assert pod["pod"] == "web-0"
    text = host.run("show", "web-0").output
    assert all(folder.removeprefix("mon_") in text for folder in host.folders), text


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


def test_kubectl_knows_that_the_node_counts_and_how_much(host: LayoutHost) -> None:
    node = node_of(readings_of(host, NODE_NAMES))
    assert node.counting == "yes"
    assert node.load is not None
    assert near(node.load * 1e9, 2 / len(host.numbers))
    (pod,) = pods_of(readings_of(host, NAMES))
    assert near(value_in(pod, MBM))


def test_recording_and_report_have_the_domains(host: LayoutHost, tmp_path: Path) -> None:
    file, page = tmp_path / "night.csv", tmp_path / "night.html"
    assert host.run("record", "--interval", "300ms", "--for", "1s", "-o", str(file)).exit_code == 0
    rows = [row for row in csv.DictReader(file.read_text().splitlines()) if row["kind"] == "pod" and row[TOTAL]]
    assert sorted({row["domain"] for row in rows}) == sorted(host.folders)
    made = host.run("report", str(file), "-o", str(page))
    assert made.exit_code == 0, made.output
    assert all(folder in page.read_text() for folder in host.folders)


def test_history_has_memory_domains_and_changes_of_every_resource(host: LayoutHost) -> None:
    sampler = Sampler(host.context)
    sampler.sample()
    time.sleep(0.1)
    rows = sampler.sample()
    assert [row["domain"] for row in rows if row["kind"] == "memory"] == host.folders
    assert sorted(sampler.peaks) == host.numbers


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


def test_other_schemata_are_shown_and_left_alone(host: LayoutHost) -> None:
    made = host.run("rdt", "show", "--json")
    (root,) = json.loads(made.stdout)["items"]
    assert root["schemata"]["MB_MIN"] == {"0": "0", "1": "0"}
    assert root["schemata"]["GMB"] == {"0": "4096"}
    assert root["units"].keys() == {"MB"}
    assert root["state"] == "not declared"
    assert made.exit_code == 0


def test_doctor_finds_counters(host: LayoutHost) -> None:
    items = json.loads(host.run("doctor", "--json").stdout)["items"]
    assert not [one for one in items if "Traceback" in one["text"]]
    assert [one["level"] for one in items if one["check"] == "counters"] == ["ok"]
