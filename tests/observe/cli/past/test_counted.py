"""The counted time beside an amount of the past: both are since the same moment, whenever the recording began."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.counter_tree import say
from hosts.monitored import MonitoredHost, plain_host
from hosts.past import sample

from resctrl_hooks.observe.node.history.place import claim
from resctrl_hooks.observe.node.history.rows import Sampler
from resctrl_hooks.observe.node.history.sample import Sample
from resctrl_hooks.observe.node.history.store import Store
from resctrl_hooks.observe.node.history.thinning import minute

UPTIME = 5000.0
EARLIER = "earlier_counted_seconds"


class Node:
    """A node whose clock stands still, with a history that another process may begin again."""

    def __init__(self, host: MonitoredHost, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = host
        self.file = file
        self.uptime = UPTIME
        self.began = int(time.time()) - 7200
        monkeypatch.setattr(time, "clock_gettime", lambda _: self.uptime)
        host.configure(history={"enabled": True, "file": str(file)})
        claim(str(file))
        self.samples: list[Sample] = []

    def wait(self, seconds: float, **counters: object) -> None:
        """Let time pass, and set the counters of the pod's group at its end."""
        self.uptime += seconds
        say(self.host.resctrl / "mon_groups" / self.key, **counters)

    @property
    def key(self) -> str:
        return next(iter(self.host.context.ledger.keys()))

    def read(self) -> None:
        """Read the counters as a scrape of the metrics does."""
        self.host.context.monitor.read(self.key)

    def sample(self, sampler: Sampler) -> None:
        now = (self.began + int(self.uptime - UPTIME)) * 1000
        self.samples.append(Sample(now, self.uptime, "b0", "node-1", sampler.sample()))

    def shown(self) -> dict[str, tuple[Any, Any]]:
        """Return each counter of the pod at the last sample: its value and its seconds, in JSON."""
        store = Store(str(self.file), write=True)
        for one in self.samples:
            store.add(one)
        self.samples = []
        store.close()
        result = self.host.run("show", "web-0", "--at", self.when, "-o", "json")
        assert result.exit_code == 0, result.output
        (pod,) = json.loads(result.stdout)["items"]
        return {one["counter"]: (one["value"], one["seconds"]) for one in pod["counters"]}

    def text(self) -> list[str]:
        return self.host.run("show", "web-0", "--at", self.when).stdout.splitlines()

    @property
    def when(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.began + self.uptime - UPTIME + 1))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    with plain_host(tmp_path, "info") as host:
        found = Node(host, tmp_path / "var/history.sqlite", monkeypatch)
        say(host.resctrl, llc_occupancy=900, mbm_total_bytes=10_000, mbm_local_bytes=5_000)
        host.group(0, "web-0", llc_occupancy=300, mbm_total_bytes=0, mbm_local_bytes="Unassigned")
        found.read()
        yield found


def test_counted_time_of_pod_before_the_recording_is_that_of_its_total(node: Node) -> None:
    node.wait(3600.0, mbm_total_bytes=36_000)
    sampler = Sampler(node.host.context)
    node.sample(sampler)
    node.wait(19.0, mbm_total_bytes=36_190)
    node.sample(sampler)
    assert node.shown()["mbm_total_bytes"] == (36_190, 3619.0)
    (line,) = (one for one in node.text() if "mbm_total" in one)
    assert line.split()[-3:] == ["35.3", "KiB", "1h19s"]
    rates = json.loads(node.host.run("show", "web-0", "--at", node.when, "--json").stdout)["items"][0]["rates"]
    assert rates["memoryBandwidthBytesPerSecond"] == 10


def test_counters_with_own_times_have_their_own_counted_time(node: Node) -> None:
    node.wait(100.0, mbm_total_bytes=1000)
    node.read()
    node.wait(50.0, mbm_total_bytes=1500, mbm_local_bytes=0)
    node.read()
    node.wait(20.0, mbm_total_bytes=1700, mbm_local_bytes=200)
    sampler = Sampler(node.host.context)
    node.sample(sampler)
    node.wait(10.0, mbm_total_bytes=1800, mbm_local_bytes=300)
    node.sample(sampler)
    found = node.shown()
    assert found["mbm_total_bytes"] == (1800, 180.0)
    assert found["mbm_local_bytes"] == (300, 30.0)
    assert "earlier_mbm_local_bytes_counted_seconds" in sampler.columns


def test_counted_time_of_moved_pod_is_that_of_its_classes(node: Node) -> None:
    (node.host.resctrl / "gold/mon_groups").mkdir(parents=True)
    say(node.host.resctrl / "gold", llc_occupancy=0, mbm_total_bytes=0)
    node.wait(100.0, mbm_total_bytes=1000)
    node.read()
    node.host.group(0, "web-0", rdt_class="gold", llc_occupancy=10, mbm_total_bytes=0)
    node.uptime += 50
    sampler = Sampler(node.host.context)
    node.sample(sampler)
    live = {one["counter"]: one["seconds"] for one in node.host.json("show", "web-0")["items"][0]["totals"]}
    assert node.shown()["mbm_total_bytes"][1] == live["mbm_total_bytes"]


def test_minute_has_the_counted_time_of_its_last_sample(node: Node) -> None:
    node.wait(3600.0, mbm_total_bytes=36_000)
    sampler = Sampler(node.host.context)
    for _ in range(3):
        node.wait(10.0, mbm_total_bytes=int(node.uptime))
        node.sample(sampler)
    node.samples = [minute(node.samples, None)]
    assert node.shown()["mbm_total_bytes"][1] == 3630.0


def test_counted_time_of_sample_of_an_earlier_version_is_unknown(node: Node) -> None:
    old = sample(600, {"web-0": 1000.0})
    rows = [{name: value for name, value in row.items() if name != EARLIER} for row in old.rows]
    node.uptime += 600
    node.samples = [Sample((node.began + 600) * 1000, node.uptime, "b0", "node-1", rows)]
    assert node.shown()["mbm_total_bytes"] == (600_000, None)
    (line,) = (one for one in node.text() if "mbm_total" in one)
    assert line.split()[-1] == "-"


def test_file_of_record_has_the_counted_time_of_totals(node: Node, tmp_path: Path) -> None:
    node.wait(3600.0, mbm_total_bytes=36_000)
    done = node.host.run("record", "--interval", "100ms", "--for", "200ms", "-o", str(tmp_path / "x.csv"))
    assert done.exit_code == 0, done.output
    heads, *lines = (line.split(",") for line in (tmp_path / "x.csv").read_text().splitlines())
    rows = [dict(zip(heads, line, strict=True)) for line in lines]
    counted = [float(row["counted_seconds"]) + float(row[EARLIER]) for row in rows if row["kind"] == "pod"]
    assert counted == [3600.0] * len(counted)
    assert counted
