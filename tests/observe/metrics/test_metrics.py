"""Metrics: foreign parsers accept them, names are goresctrl's, missing values have no sample, the file is complete."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.counter_tree import say, say_paths
from hosts.monitored import KEYS, MonitoredHost, plain_host
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest

import resctrl_hooks.core.node
from observe.metrics.conftest import parse, samples_of
from resctrl_hooks.core.node.errors import HookError
from resctrl_hooks.observe.metrics.collector import NodeCollector, registry_of
from resctrl_hooks.observe.metrics.self_metrics import REASONS

NASTY = 'a"b\\c\nd'


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Return a plain tree with one pod in two classes, energy and Sub-NUMA nodes."""
    with plain_host(tmp_path, "gold/mon_groups", "info/L3_MON") as found:
        (found.resctrl / "info/L3_MON/num_rmids").write_text("8\n")
        counters: dict[str, Any] = {"llc_occupancy": 1, "mbm_total_bytes": 2**60, "mbm_local_bytes": "Unavailable"}
        for rdt_class in ("", "gold"):
            group = found.group(0, NASTY, rdt_class=rdt_class, **counters)
            say_paths(group, {"mon_PERF_PKG_01/core_energy": 1.5, "mon_PERF_PKG_01/activity": 2.5})
            say_paths(group, {"mon_L3_00/mon_sub_L3_01/llc_occupancy": 1, "mon_PERF_PKG_01/uops_retired": 3})
        found.context.ledger.count_call("createRuntime", 0.002)
        found.context.ledger.count_call("createRuntime", 0.2, ["no-rmids"], KEYS[1])
        found.context.ledger.count_call("reconcile", 0.1)
        found.context.ledger.mark("waiting", KEYS[1])
        yield found


def registry(host: MonitoredHost) -> CollectorRegistry:
    """Return the host's metrics; a read error fails the test."""

    def fail(problem: HookError) -> None:
        raise AssertionError(problem)

    return registry_of(NodeCollector(host.context, fail))


def text_of(found: CollectorRegistry) -> str:
    """As OpenMetrics."""
    text: bytes = generate_latest(found)  # type: ignore[no-untyped-call]  # it has no types
    return text.decode()


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Samples by name and by the values of their most telling labels."""
    telling = ("stage", "reason", "le", "state", "owner", "rdt_class")
    return {
        (sample.name, *(sample.labels[name] for name in telling if name in sample.labels)): sample.value
        for sample in samples_of(text)
    }


def test_names_match_go_exporter_and_foreign_parser_accepts_them(host: MonitoredHost) -> None:
    result = host.run("metrics")
    assert result.exit_code == 0, result.output
    families: dict[str, Any] = {family.name: family for family in parse(result.stdout)}
    kinds = {name: (family.type, family.unit) for name, family in families.items() if name.startswith(("l3", "perf"))}
    assert kinds == {
        "l3_llc_occupancy_bytes": ("gauge", "bytes"),
        "l3_node_llc_occupancy_bytes": ("gauge", "bytes"),
        "l3_mbm_total_bytes": ("counter", "bytes"),
        "perf_core_energy_joules": ("counter", "joules"),
        "perf_activity_farads": ("counter", "farads"),
        "perf_uops_retired": ("counter", ""),
    }
    sample = families["l3_mbm_total_bytes"].samples[1]
    assert sample.name == "l3_mbm_total_bytes_total"
    assert sample.value == 2**60
    assert sample.labels == {
        "pod_uid": KEYS[0],
        "namespace": "shop",
        "pod": NASTY.replace("\n", "?"),
        "container": "",
        "rdt_class": "gold",
        "domain_id": "00",
        "domain_name": "mon_L3_00",
    }
    assert families["l3_node_llc_occupancy_bytes"].samples[0].labels["node"] == "1"


def test_missing_value_is_a_sample_with_its_reason(host: MonitoredHost) -> None:
    text = host.run("metrics").stdout
    assert "l3_mbm_local_bytes" not in text
    found = [family for family in parse(text) if family.name == "resctrl_unavailable"]
    assert [sample.labels["state"] for sample in found[0].samples] == ["Unavailable", "Unavailable"]


def test_own_metrics_are_complete(host: MonitoredHost) -> None:
    found = samples(host.run("metrics").stdout)
    assert found["resctrl_rmids", "pods"] == 2
    assert found["resctrl_rmids", "classes"] == 2  # the root class and gold
    assert found["resctrl_rmids", "foreign"] == found["resctrl_rmids", "runtimes"] == 0
    assert found["resctrl_rmids", "free"] == 4
    assert (found["resctrl_hooks_waiting_pods",], found["resctrl_hooks_queued_pods",]) == (1, 0)
    assert found["resctrl_hooks_runs_total", "createRuntime"] == 2
    assert found["resctrl_hooks_failures_total", "createRuntime", "no-rmids"] == 1
    assert found["resctrl_hooks_last_reconcile_timestamp_seconds",] > 1_700_000_000
    assert found["resctrl_scrape_ok",] == 1


def test_reasons_counted_from_zero_exist() -> None:
    node = Path(resctrl_hooks.core.node.__file__).parent
    defined = {
        one
        for path in node.rglob("*.py")
        for one in re.findall(r'^    reason = "([a-z-]+)"$', path.read_text(), re.MULTILINE)
    }
    assert {one for reasons in REASONS.values() for one in reasons} - defined <= {"placement"}


@pytest.mark.parametrize(
    "monitoring, queued",
    [({}, 0), ({"share": {"interval": 30.0}}, 1), ({"limits": {"*": 0}}, 1), ({"limits": {"*": 1}}, 0)],
    ids=["no rules", "time-sharing", "limit", "below the limit"],
)
def test_pods_waiting_by_rules_are_separate(host: MonitoredHost, monitoring: dict[str, Any], queued: int) -> None:
    host.context.ledger.mark("waiting", KEYS[0])  # it has its group; the mark stays until the next reconcile
    host.configure(monitoring=monitoring)
    found = samples(host.run("metrics").stdout)
    assert (found["resctrl_hooks_waiting_pods",], found["resctrl_hooks_queued_pods",]) == (1, queued)


def test_own_metrics_remain_without_resctrl(host: MonitoredHost) -> None:
    shutil.rmtree(host.resctrl)
    result = host.run("metrics")
    assert result.exit_code == 1
    assert samples(result.stdout)["resctrl_scrape_ok",] == 0
    assert "resctrl is not mounted at" in result.stderr


def test_pod_recorded_after_a_scrape_has_its_name_afterwards(host: MonitoredHost) -> None:
    """A scrape may come between a hook's record of the container and that of the pod."""
    found = registry(host)
    with host.context.monitor.hold(KEYS[2]) as locked:
        locked.add_member("c1")
        text_of(found)
        locked.record.update({"namespace": "shop", "pod": "late-0"})
        say(Path(locked.ensure_group().path), llc_occupancy=7)
    labels_of = [sample.labels for sample in samples_of(text_of(found))]
    assert {one["pod"] for one in labels_of if one.get("pod_uid") == KEYS[2]} == {"late-0"}
