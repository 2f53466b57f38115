import json
from pathlib import Path
from typing import Any

import pytest
from conftest import ID, POD_CGROUP, Host, workload_of

from resctrl_hooks.core.node.sharing.priority import priority_of, version_of

RULES: list[dict[str, Any]] = [
    {"namespaces": ["team-*"], "qos": "Guaranteed", "value": 200},
    {"namespaces": ["shop", "team-*"], "value": 100},
    {"qos": "Burstable", "value": 50},
    {"labels": {"tier": "batch"}, "value": -10},
]


@pytest.fixture
def burstable(host: Host) -> Host:
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    return host


@pytest.mark.parametrize("namespace, expected", [("shop", 100), ("team-a", 100), ("other", 50)])
def test_first_matching_rule_counts(burstable: Host, namespace: str, expected: int) -> None:
    workload = workload_of(burstable, **{"io.kubernetes.pod.namespace": namespace})
    assert priority_of(workload, RULES) == expected


def test_priority_without_matching_rule_is_0(burstable: Host) -> None:
    assert priority_of(workload_of(burstable), RULES[3:]) == 0
    assert priority_of(workload_of(burstable), []) == 0


def test_labels_are_those_of_sandbox(burstable: Host, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"annotations": {"tier": "batch", "app": "x"}}))
    workload = workload_of(burstable, **{"io.kubernetes.cri-o.ResolvPath": f"{tmp_path}/resolv.conf"})
    assert priority_of(workload, RULES[3:]) == -10
    assert priority_of(workload, [{"labels": {"tier": "front"}, "value": 7}]) == 0
    assert priority_of(workload, [{"labels": {"tier": "front"}, "value": 7}, {"labels": {"app": "x"}, "value": 3}]) == 3


def test_unreadable_labels_match_no_rule(burstable: Host) -> None:
    workload = workload_of(burstable, **{"io.kubernetes.cri-o.ResolvPath": "/nonexistent/resolv.conf"})
    assert priority_of(workload, RULES[3:]) == 0


def test_changed_rules_have_another_version() -> None:
    assert version_of(RULES) == version_of(json.loads(json.dumps(RULES)))
    assert version_of(RULES) != version_of(RULES[1:])
    assert version_of([]) == 0x741638A5  # FNV-1a of "[]": a release with another hash would rank every pod again
