"""Affinity and anti-affinity annotations, by the node's records."""

import json
from pathlib import Path

import pytest
from hosts.placed import PlacedHost

from resctrl_hooks.node.container.unread import unread

# The machine of `PlacedHost`: l3-0: 0-3,16-19  l3-1: 4-7,20-23  l3-2: 8-11,24-27  l3-3: 12-15,28-31
L3 = ["0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"]
NEAR, FAR = "resource-policy.nri.io/affinity", "resource-policy.nri.io/anti-affinity"
ALL = {"key": "namespace", "operator": "Equals", "values": ["shop"]}


def rule(key: str, value: str, **more: object) -> str:
    match = {"key": key, "operator": "Equals", "values": [value]}
    return json.dumps({"late": [{"match": match, **more}]})


@pytest.mark.parametrize(
    "annotations, places",
    [
        ({}, [0]),  # one part for a pod
        ({FAR: "late: [first]"}, [2, 3]),  # the other package
        ({FAR: "first: [late]"}, [2, 3]),  # the short form holds in both directions
        ({NEAR: "late: [first]"}, [0]),
        ({FAR: "late: [other]"}, [0]),
        ({FAR: "late:\n- match:\n    key: name\n    operator: Equals\n    values: [first]\n"}, [2, 3]),
        ({FAR: rule("name", "first", weight=-3)}, [0]),
        ({FAR: rule("name", "first", weight=3), NEAR: rule("name", "first", weight=5)}, [0]),
        ({FAR: rule("name", "first", scope=ALL)}, [2, 3]),
        ({FAR: rule("pod/name", "web-0", scope={"operator": "AlwaysTrue"})}, [2, 3]),
        ({FAR: rule("qosclass", "Guaranteed")}, [2, 3]),
        ({FAR: rule("qosclass", "Burstable")}, [0]),
        ({FAR: rule("labels/io.kubernetes.container.name", "first")}, [2, 3]),
        ({FAR: rule("labels/io.kubernetes.pod.name", "web-0")}, [2, 3]),
        ({FAR: rule("name", "first").replace("late", "another")}, [0]),
    ],
)
def test_affinities_pull_and_push(node: PlacedHost, annotations: dict[str, str], places: list[int]) -> None:
    node.start("first", 500)
    assert node.cpus("first") == L3[0]
    node.start("late", 500, **annotations)
    assert node.cpus("late") in [L3[place] for place in places]
    node.assert_sound()


@pytest.mark.parametrize(
    "value, error",
    [
        ("late: [first", "] is missing"),
        ("late: 5\n5", "unexpected"),
        (rule("pod/color", "x"), "unknown key 'pod/color'"),
        (rule("name", "x").replace("Equals", "Is"), "unknown operator 'Is'"),
        ("late:\n- weight: 5", "'match'"),
        ("[late]", "invalid annotation"),
        (rule("name", "x", weight="heavy"), "invalid annotation"),
    ],
)
def test_invalid_annotation_follows_the_failure_policy(node: PlacedHost, value: str, error: str) -> None:
    node.configure(failurePolicy="fail")
    outcome = node.attempt("late", 500, **{FAR: value})
    assert (outcome.code, error in outcome.log) == (79, True)


def test_affinities_are_read() -> None:
    assert unread([NEAR, FAR, "resource-policy.nri.io/cold-start"]) == ["resource-policy.nri.io/cold-start"]


@pytest.mark.parametrize("app, places", [("web", [2, 3]), ("db", [0])])
def test_labels_of_other_pods_count(node: PlacedHost, app: str, places: list[int]) -> None:
    sandbox = node.host.bundle({"annotations": {"app": "web"}}, "sandbox")
    told = node.state("first", 500)
    node.start("first", 500)
    bundle = Path(told["bundle"]) / "config.json"
    notes = told["annotations"] | {"io.kubernetes.cri-o.ResolvPath": f"{sandbox}/resolv.conf"}
    bundle.write_text(json.dumps(json.loads(bundle.read_text()) | {"annotations": notes}))
    node.start("late", 500, **{FAR: rule("pod/labels/app", app, scope=ALL)})
    assert node.cpus("late") in [L3[place] for place in places]
