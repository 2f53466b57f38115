"""Expressions about containers, and the pools that they select."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Host
from hosts.placed import PlacedHost

from resctrl_hooks.placement.node.expressions import holds

FACTS = {"name": "db", "namespace": "shop", "pod/name": "web-0", "pod/labels/app": "web", "pod/labels/empty": ""}


@pytest.mark.parametrize(
    "key, operator, values, result",
    [
        ("name", "Equals", ["db"], True),
        ("name", "Equals", ["*"], True),
        ("name", "Equals", ["d"], False),
        ("pod/labels/none", "Equals", ["*"], False),
        ("name", "NotEqual", ["db"], False),
        ("pod/labels/none", "NotEqual", ["x"], True),
        ("pod/labels/app", "In", ["api", "web"], True),
        ("/pod/labels/app", "In", ["api", "web"], True),
        ("pod/labels/app", "In", [], False),
        ("pod/labels/app", "NotIn", ["api"], True),
        ("pod/labels/none", "NotIn", ["api"], True),
        ("pod/labels/empty", "Exists", [], True),
        ("pod/labels/none", "Exists", [], False),
        ("pod/labels/none", "NotExist", [], True),
        ("", "AlwaysTrue", [], True),
        ("pod/name", "Matches", ["web-?"], True),
        ("pod/name", "MatchesNot", ["web-*"], False),
        ("pod/name", "MatchesAny", ["x", "w*"], True),
        ("pod/labels/none", "MatchesAny", ["*"], False),
        ("pod/name", "MatchesNone", ["x", "y*"], True),
        (":pod/name:name", "Equals", ["web-0:db"], True),
        (":,-pod/labels/none,name", "Equals", ["-db"], True),
        (":pod/labels/none:pod/labels/other", "Exists", [], False),
    ],
)
def test_operators_compare_as_in_the_plugins(key: str, operator: str, values: list[str], result: bool) -> None:
    assert holds({"key": key, "operator": operator, "values": values}, FACTS) is result


def has(key: str, *values: str) -> list[dict[str, Any]]:
    return [{"key": key, "operator": "In", "values": list(values)}]


POOLS: list[dict[str, Any]] = [
    {"name": "side", "cpus": "0-1,16-17", "matchExpressions": has("name", "logger")},
    {"name": "fast", "cpus": "2-3,18-19", "matchExpressions": has("pod/labels/tier", "high", "critical")},
    {"name": "shop", "cpus": "4-7,20-23", "namespaces": ["shop"]},
]


class Labelled(PlacedHost):
    """A host whose containers belong to a pod with labels, which CRI-O keeps in the sandbox's bundle."""

    def __init__(self, host: Host, labels: dict[str, str]) -> None:
        super().__init__(host)
        self.place(policy="pools", pools=POOLS)
        self.sandbox = Path(host.bundle({"annotations": labels}, "sandbox"))

    def told(self, name: str, milli: int = 0, status: str = "created", **annotations: str) -> dict[str, Any]:
        file = {"io.kubernetes.cri-o.ResolvPath": f"{self.sandbox}/resolv.conf"}
        return super().told(name, milli, status, **file, **annotations)


@pytest.mark.parametrize(
    "labels, cpus", [({"tier": "high"}, "2-3,18-19"), ({"tier": "low"}, "4-7,20-23"), ({}, "4-7,20-23")]
)
def test_first_pool_that_matches_labels_or_namespace_gets_the_container(
    host: Host, labels: dict[str, str], cpus: str
) -> None:
    node = Labelled(host, labels)
    node.start("web", 500)
    node.start("logger", 500)
    assert (node.cpus("web"), node.cpus("logger")) == (cpus, "0-1,16-17")
    node.assert_sound()


def test_annotation_of_a_pool_comes_before_expressions(host: Host) -> None:
    node = Labelled(host, {"tier": "high"})
    node.start("web", 500, **{"balloon.balloons.resource-policy.nri.io": "side"})
    assert node.cpus("web") == "0-1,16-17"


@pytest.mark.parametrize("policy, code", [("ignore", 0), ("fail", 79)])
def test_unreadable_labels_follow_the_failure_policy(host: Host, policy: str, code: int) -> None:
    node = Labelled(host, {})
    node.place(policy="pools", pools=POOLS, failurePolicy=policy)
    (node.sandbox / "config.json").write_text("{")
    outcome = node.attempt("web", 500)
    assert outcome.code == code
    assert "its pool depends on labels that cannot be read" in outcome.log


@pytest.mark.parametrize("bad", [{"operator": "In"}, {"key": "name"}, {"key": 5, "operator": "In"}, 5])
def test_invalid_expression_in_settings_is_placement_error(host: Host, bad: Any) -> None:
    node = Labelled(host, {})
    node.place(policy="pools", pools=[POOLS[0] | {"matchExpressions": [bad]}], failurePolicy="fail")
    outcome = node.attempt("web", 500)
    assert (outcome.code, "invalid placement.pools" in outcome.log) == (79, True)


def test_labels_are_not_read_without_expressions_on_them(host: Host) -> None:
    node = Labelled(host, {})
    node.place(policy="pools", pools=[POOLS[0], POOLS[2]], failurePolicy="fail")
    (node.sandbox / "config.json").write_text(json.dumps(5))
    node.start("web", 500)
    assert node.cpus("web") == "4-7,20-23"
