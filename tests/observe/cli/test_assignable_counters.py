"""Counters that are not assigned, in the commands of observation: what is not counted is unknown or marked."""

import csv
from pathlib import Path

import pytest
from core.cli.test_assignable_counters import TOTAL, host, moved, reading
from hosts.monitored import MonitoredHost

from resctrl_hooks.core.node.sharing.bandwidth_counters import balance

HOUSES = ("lab",)
__all__ = ("host",)
pytestmark = pytest.mark.fuse


def test_counter_that_a_pod_lost_keeps_its_total_in_metrics_and_has_no_rate(host: MonitoredHost) -> None:
    key = host.pod(0, "web-0")
    while not reading(host, key).value:
        pass
    moved(host, key, give=False)
    kept = reading(host, key)
    samples = [line for line in host.run("metrics").stdout.splitlines() if f'pod_uid="{key}"' in line]
    here = [line for line in samples if 'domain_name="mon_L3_00"' in line]
    (total,) = [line for line in here if line.startswith("l3_mbm_total_bytes_total{")]
    assert float(total.split()[-1]) == kept.value
    assert [line for line in here if line.startswith("resctrl_unavailable{") and f'counter="{TOTAL}"' in line]
    (item,) = [item for item in host.json("top", "--interval", "0.1")["items"] if item["key"] == key]
    assert item["memoryBandwidthBytesPerSecond"] is None


def test_values_of_partly_counted_pods_are_marked_in_top(host: MonitoredHost) -> None:
    key = host.pod(0, "web-0")
    record = host.context.ledger.read_pod(key)
    assert record is not None
    record["born"] -= 1000
    host.context.ledger.write_pod(key, record)
    assert "~" in host.run("top", "--once", "--interval", "0.1").stdout


def test_uncounted_values_are_unknown_in_top_record_and_metrics(host: MonitoredHost, tmp_path: Path) -> None:
    """Six pods and four counters: the root class has none, so its file is the sum of four pods and nothing else."""
    for number in range(6):
        host.pod(number, f"web-{number}")
    balance(host.context)
    made = host.json("top", "--interval", "0.3")
    rates = {line["name"]: line["memoryBandwidthBytesPerSecond"] for line in made["items"]}
    assert sum(rate is not None and rate > 0 for rate in rates.values()) == 4
    assert rates["(ungrouped)"] is None
    assert rates["TOTAL"] is None
    assert made["uncounted"] == 2
    target = tmp_path / "x.csv"
    assert host.run("record", "--interval", "1s", "--for", "100ms", "-o", str(target)).exit_code == 0
    rest = [row for row in csv.DictReader(target.read_text().splitlines()) if row["kind"] == "rest"]
    assert [row["mbm_total_bytes"] for row in rest] == ["", ""]
    assert all("mbm_total_bytes:Incomplete" in row["missing"] for row in rest)
    assert [row["uncounted_groups"] for row in rest] == ["2", "2"]
    said = host.run("metrics").stdout
    assert "resctrl_class_l3_mbm_total_bytes_total{" not in said
    where = 'counter="mbm_total_bytes",domain_id="00",domain_name="mon_L3_00",rdt_class=""'
    assert f"resctrl_class_uncounted_groups{{{where}}} 2.0" in said
