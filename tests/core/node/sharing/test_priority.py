"""Priorities of pods by rules, and the index of RMID holders: the names of its files, and invalid ones."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ID, POD_CGROUP, Host, workload_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resctrl_hooks.core.node.sharing.claims import entry_of, holders
from resctrl_hooks.core.node.sharing.decision import Claim
from resctrl_hooks.core.node.sharing.priority import priority_in, priority_of, version_of

if TYPE_CHECKING:
    from pathlib import Path

    from resctrl_hooks.core.node.ledger import Ledger

RULES: list[dict[str, Any]] = [
    {"namespaces": ["team-*"], "qos": "Guaranteed", "value": 200},
    {"namespaces": ["shop", "team-*"], "value": 100},
    {"qos": "Burstable", "value": 50},
    {"labels": {"tier": "batch"}, "value": -10},
]
LABELS = RULES[3:]
FRONT = {"labels": {"tier": "front"}, "value": 7}
APP = {"labels": {"app": "x"}, "value": 3}


@pytest.mark.parametrize(
    "namespace, rules, labels, expected",
    [
        ("shop", RULES, "", 100),
        ("team-a", RULES, "", 100),
        ("other", RULES, "", 50),
        ("shop", LABELS, "", 0),
        ("shop", [], "", 0),
        ("shop", LABELS, "io.kubernetes.cri-o.ResolvPath", -10),  # labels are those of the sandbox
        ("shop", [FRONT], "io.kubernetes.cri-o.ResolvPath", 0),
        ("shop", [FRONT, APP], "io.kubernetes.cri-o.ResolvPath", 3),
        ("shop", LABELS, "unreadable", 0),
    ],
)
def test_first_matching_rule_counts(
    host: Host, tmp_path: Path, namespace: str, rules: list[dict[str, Any]], labels: str, expected: int
) -> None:
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    (tmp_path / "config.json").write_text(json.dumps({"annotations": {"tier": "batch", "app": "x"}}))
    folder = "/nonexistent" if labels == "unreadable" else tmp_path
    notes = {"io.kubernetes.cri-o.ResolvPath": f"{folder}/resolv.conf"} if labels else {}
    workload = workload_of(host, **{"io.kubernetes.pod.namespace": namespace}, **notes)
    assert priority_of(workload, rules) == expected


@pytest.mark.parametrize("rules, born, expected", [
    (RULES, 1.0, 9), (RULES[1:], 1.0, 100), (RULES, None, 100), (None, 1.0, 100),
])  # fmt: skip
def test_running_container_keeps_its_priority_until_the_rules_change(
    host: Host, rules: Any, born: float | None, expected: int
) -> None:
    host.process(100, f"{POD_CGROUP}/crio-{ID}")
    workload = workload_of(host, **{"io.kubernetes.pod.namespace": "shop"})
    context: Any = SimpleNamespace(settings=SimpleNamespace(groups={"priority": RULES}))
    container: Any = SimpleNamespace(born=born, planned=lambda _: workload)
    record: Any = {"claim": {"priority": 9, "rules": version_of(rules)}} if rules else {}
    assert priority_in(context, container, record) == expected


CLAIMS = st.builds(
    Claim,
    st.text("k.l-", min_size=1),
    st.integers(-1_000_000, 1_000_000),
    st.integers(0, 10**12).map(lambda n: n / 1e6),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(CLAIMS, min_size=2, max_size=4))
def test_entry_sorts_by_priority_and_reads_back(ledger: Ledger, claims: set[Claim]) -> None:
    for name in ledger.marked("rmids"):
        ledger.unmark("rmids", name)
    for name in (*map(entry_of, claims), "x.1.k", "1.x.k", "1.1.", "1.1", "k", "-1.1.k"):
        ledger.mark("rmids", name)
    assert set(holders(ledger)) == claims, "invalid entries are ignored"
    by_name = sorted(claims, key=entry_of)
    assert [claim.priority for claim in by_name] == sorted(claim.priority for claim in claims)
