"""The conditions of a node's pods: slowed by others, waiting; and what their Events disclose."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.guard_and_packages import write_slowdown_state
from hosts.monitored import KEYS, MonitoredHost, plain_host

from resctrl_hooks.core.inventory.pod_names import PodNames
from resctrl_hooks.core.node.names import SLOWDOWN_STATUS
from resctrl_hooks.observe.events.conditions import NO_RMID, SLOWED, conditions
from resctrl_hooks.observe.events.model import Condition, Pod, event_of, uid_of


@pytest.fixture
def host(tmp_path: Path) -> Iterator[MonitoredHost]:
    """Three pods in groups; the first one is slowed."""
    with plain_host(tmp_path) as found:
        for number, name in enumerate(("cart", "batch", "quiet")):
            found.group(number, name, llc_occupancy=1, mbm_total_bytes=1)
        write_slowdown_state(found.context, KEYS[0])
        yield found


def of(host: MonitoredHost) -> list[Condition]:
    return conditions(host.context, PodNames(host.context))


def culprits(host: MonitoredHost, *keys: str) -> None:
    """Let these pods have equal parts in the cause."""
    path = Path(host.context.settings.state_dir, SLOWDOWN_STATUS)
    record = json.loads(path.read_text())
    parts = [{"key": key, "share": 1 / len(keys), "correlation": None} for key in keys]
    record["pods"][KEYS[0]]["causes"][0]["pods"] = parts
    path.write_text(json.dumps(record))


def test_victim_has_a_condition_with_ratio_cause_and_neighbours(host: MonitoredHost) -> None:
    culprits(host, KEYS[1])
    (found,) = of(host)
    assert (found.pod, found.reason, found.cause) == (Pod("shop", "cart", KEYS[0]), SLOWED, "memory-bandwidth")
    assert found.note == (
        "work takes 1.6 times as long as in quiet times; memory-bandwidth: batch 100% "
        "(`kubectl resctrl diagnose shop/cart`)"
    )


def test_names_of_pods_of_other_namespaces_are_not_disclosed(host: MonitoredHost) -> None:
    record = host.context.ledger.read_pod(KEYS[1])
    assert record is not None
    host.context.ledger.write_pod(KEYS[1], {**record, "namespace": "rival"})
    culprits(host, KEYS[1], KEYS[2])
    (found,) = of(host)
    assert "quiet 50%, pods of other namespaces 50%" in found.note
    assert "batch" not in found.note
    assert "rival" not in found.note


def test_cause_without_other_pods_is_not_a_neighbours(host: MonitoredHost) -> None:
    culprits(host)
    assert of(host) == []


def test_pod_that_waits_has_a_condition_until_it_has_a_group(host: MonitoredHost) -> None:
    Path(host.context.settings.state_dir, SLOWDOWN_STATUS).unlink()
    key = "7c0a3b52-1111-4222-8333-944455566677"
    host.context.ledger.mark("waiting", key)
    assert of(host) == [], "a pod without a name"
    record = host.context.ledger.read_pod(KEYS[2])
    assert record is not None
    host.context.ledger.write_pod(key, {**record, "pod": "late", "groups": {}})
    (found,) = of(host)
    assert (found.pod, found.reason, found.cause) == (Pod("shop", "late", key), NO_RMID, "")
    assert "no RMID is free" in found.note
    host.context.ledger.mark("waiting", KEYS[0])
    assert len(of(host)) == 1, "a pod with a group"


@pytest.mark.parametrize(
    "key, uid",
    [
        ("0f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", "0f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01"),
        ("0f0ac7f2-8a3b-7f0e-9a55-1d9d3b7e6c01", "0f0ac7f28a3b7f0e9a551d9d3b7e6c01"),
    ],
    ids=["random", "static pod"],
)
def test_uid_of_a_static_pod_is_the_kubelets_hash(key: str, uid: str) -> None:
    assert uid_of(key) == uid


def test_event_stays_within_the_limits_of_the_api() -> None:
    pod = Pod("n" * 63, f"{'p' * 236}-{'q' * 16}", KEYS[0])
    event = event_of(Condition(pod, SLOWED, "l3-cache", "Diagnosed", "ä" * 2000), "i" * 300, 1.7e9)
    name = event["metadata"]["name"]
    assert len(name) <= 253
    assert "-." not in name
    assert len(event["note"].encode()) == 1024
    assert len(event["reportingInstance"]) == 128
