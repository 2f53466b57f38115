"""Affinity and anti-affinity annotations, by the node's records."""

import json
from pathlib import Path
from typing import Any

import pytest
from golden import Golden
from hosts.placed import CPUS, PlacedHost
from hosts.script import said
from hosts.work import counted

from resctrl_hooks.core.node.reconcile.reconcile import reconcile
from resctrl_hooks.placement.node.expressions import holds

# The machine of `PlacedHost`: l3-0: 0-3,16-19  l3-1: 4-7,20-23  l3-2: 8-11,24-27  l3-3: 12-15,28-31
L3 = ["0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"]
NEAR, FAR = "resource-policy.nri.io/affinity", "resource-policy.nri.io/anti-affinity"
ALL = {"key": "namespace", "operator": "Equals", "values": ["shop"]}


def rule(key: str, value: str, **more: object) -> str:
    match = {"key": key, "operator": "Equals", "values": [value]}
    return json.dumps({"late": [{"match": match, **more}]})


HERE, AWAY = L3[:1], L3[2:]
"""The part of the first container, and those of the other package."""


def labelled(node: PlacedHost, **values: Any) -> None:
    """Start the first container, and change its bundle."""
    bundle = Path(node.told("first", 500)["bundle"]) / "config.json"
    node.start("first", 500)
    bundle.write_text(json.dumps(json.loads(bundle.read_text()) | values))


def late(node: PlacedHost, annotations: dict[str, str]) -> str:
    """Return the CPUs of another container with valid annotations."""
    assert "ignored" not in node.start("late", 500, **annotations)
    return node.cpus("late")


@pytest.mark.parametrize(
    "annotations, places",
    [
        ({}, HERE),  # one part for a pod
        ({FAR: "late: [first]"}, AWAY),
        ({FAR: "first: [late]"}, AWAY),  # the short form holds in both directions
        ({NEAR: "late: [first]"}, HERE),
        ({FAR: "late: [other]"}, HERE),
        ({FAR: "late:\n- match:\n    key: name\n    operator: Equals\n    values: [first]\n"}, AWAY),
        ({FAR: rule("name", "first", weight=-3)}, HERE),
        ({FAR: rule("name", "first", weight=3), NEAR: rule("name", "first", weight=5)}, HERE),
        ({FAR: rule("name", "first", scope=ALL)}, AWAY),
        ({FAR: rule("pod/name", "web-0", scope={"operator": "AlwaysTrue"})}, AWAY),
        ({FAR: rule("qosclass", "Guaranteed")}, AWAY),
        ({FAR: rule("qosclass", "Burstable")}, HERE),
        ({FAR: rule("labels/io.kubernetes.container.name", "first")}, AWAY),
        ({FAR: rule("labels/io.kubernetes.pod.name", "web-0")}, AWAY),
        ({FAR: rule("name", "first").replace("late", "another")}, HERE),
    ],
)
def test_affinities_pull_and_push(node: PlacedHost, annotations: dict[str, str], places: list[str]) -> None:
    labelled(node)
    assert node.cpus("first") == L3[0]
    assert late(node, annotations) in places
    node.assert_sound()


INVALID = (
    *(
        "late: [first",
        "late: 5\n5",
        rule("pod/color", "x"),
        rule("name", "x").replace("Equals", "Is"),
        "[late]",
        "late",
    ),
    *("late:\n- weight: 5", *(rule("name", "x", weight=weight) for weight in ("heavy", "+-5", [5])), "- late"),
    *("late: first", "other: first", "late: {first: 5}", "late: [first, {match: {}}]", "late: [[first]]"),
    *("late:\n- match: first", "late:\n- match: {}\n  scope: pod", "late:\n- match: {key: [name], operator: Exists}"),
    "late:\n- match: {key: name, operator: In, values: first}",
    "late:\n- match: {key: name, operator: {In: a}}",
)


def test_invalid_annotation_follows_the_failure_policy(node: PlacedHost, golden: Golden) -> None:
    node.place(failurePolicy="fail")
    outcomes = [(value, node.attempt("late", 500, **{FAR: value})) for value in INVALID]
    golden("\n".join(f"{value!r}: {outcome.code}\n  {said(outcome.log)[-1]}" for value, outcome in outcomes))


@pytest.mark.parametrize("app, padding, places", [("web", 0, AWAY), ("db", 0, HERE), ("web", 1 << 19, HERE)])
def test_labels_of_other_pods_count_without_a_large_bundle(
    node: PlacedHost, app: str, padding: int, places: list[str]
) -> None:
    sandbox = node.bundle({"annotations": {"app": "web"}}, "sandbox")
    notes = node.told("first", 500)["annotations"] | {"io.kubernetes.cri-o.ResolvPath": f"{sandbox}/resolv.conf"}
    labelled(node, annotations=notes, padding="x" * padding)
    assert late(node, {FAR: rule("pod/labels/app", app, scope=ALL)}) in places


def test_label_expression_reads_no_bundle_of_a_container_outside_its_scope(node: PlacedHost) -> None:
    labelled(node)
    (Path(node.told("first", 500)["bundle"]) / "config.json").unlink()
    elsewhere = {**ALL, "values": ["other"]}
    assert late(node, {FAR: rule("pod/labels/app", "web", scope=elsewhere)}) in HERE


def joint(keys: int, patterns: int, key: str = "id") -> str:
    """Return a rule with a joint key and patterns that must be tried at each place of its value."""
    match = {"key": ":" + ":".join([key] * keys), "operator": "MatchesAny", "values": ["*0*z"] * patterns}
    return json.dumps({"late": [{"match": match, "scope": {"operator": "AlwaysTrue"}}]})


ALWAYS = {"match": {"key": ":" + "id:" * 80, "operator": "AlwaysTrue"}}
HOSTILE = {
    "joint key of many parts": joint(300, 300),
    "many patterns": joint(8, 900),
    "beyond the largest text": joint(7000, 4000),
    "joint keys that count always": json.dumps({"late": [ALWAYS] * 55}),
    "stars": json.dumps({"late": [{"match": {"key": "id", "operator": "Matches", "values": ["*" * 4000 + "z"] * 3}}]}),
    "backtracking": joint(8, 1, "pod/name").replace("*0*z", "*" + "0" * 6000 + "z"),
    "many rules": json.dumps({"late": [json.loads(joint(8, 1))["late"][0]] * 60}),
    "list items": "- a\n" * 10_000,
    "deep": "[" * 1000,
    "NUL": "late: [a\0b]",
    "lone surrogate": "late: [\ud800]",
    "anchor": "a: &a [x]\nlate: *a",
    "duplicate key": '{"late": [], "late": []}',
    "a weight at the limit": rule("name", "first", weight=2**63),
    "a weight of many digits": rule("name", "first").replace('"match"', f'"weight": "{"9" * 5000}", "match"'),
}


@pytest.mark.parametrize("name", [NEAR, FAR])
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_affinity_costs_bounded_work_and_only_its_own_effect(node: PlacedHost, name: str, case: str) -> None:
    for number in range(8):
        node.start(f"first{number}", 100)
    node.start("victim", 4000, **{CPUS: "exclusive"})
    with counted() as plain:
        node.start("plain", 500)
    with counted() as work:
        log = node.start("late", 500, **{name: HOSTILE[case]})
    assert work.lines < plain.lines + 2_500_000
    valid = case.startswith(("a weight", "joint keys that"))
    assert node.cpus("late") == node.cpus("plain") or valid
    assert log.count(f"annotation {name} is ignored") == int(not valid)
    node.assert_sound()


def test_unseen_container_with_a_hostile_affinity_is_placed_and_holds_nothing_up(node: PlacedHost) -> None:
    node.start("victim", 4000, **{CPUS: "exclusive"})
    node.run_unseen("late", 500, **{NEAR: joint(8, 900)})
    node.run_unseen("other", 500)
    with counted(5_000_000):
        assert len(reconcile(node.host.context()).events["placed"]) == 2
    assert node.cpus("late") == node.cpus("other") == "2-3,18-19"
    with counted(200_000):
        assert reconcile(node.host.context()).ok
    node.assert_sound()


def test_many_variables_give_no_hints_and_are_reported_once(node: PlacedHost) -> None:
    for number, value in enumerate((",".join(["a"] * 32), "x\0y", "\ud800", "x" * 5000)):
        name = f"late{number}"
        node.begin(name)
        told = node.told(name, 500)
        env = [f"PCIDEVICE_{one:x}={value}" for one in range(20_000 if value[0] == "a" else 1)]
        bundle = Path(told["bundle"]) / "config.json"
        bundle.write_text(json.dumps(json.loads(bundle.read_text()) | {"process": {"env": env}}))
        with counted(200_000):
            outcome = node.call(told)
        assert (outcome.code, outcome.log.count("variable PCIDEVICE_")) == (0, 1)
        assert node.cpus(name)


# Expressions about containers, and the pools that they select

FACTS = {"name": "db", "namespace": "shop", "pod/name": "web-0", "pod/labels/app": "web", "pod/labels/empty": ""}

OPERATORS = (
    *("name Equals db", "name Equals *", "name Equals d", "pod/labels/none Equals *", "name NotEqual db"),
    *("pod/labels/none NotEqual x", "pod/labels/app In api web", "/pod/labels/app In api web", "pod/labels/app In"),
    *("pod/labels/app NotIn api", "pod/labels/none NotIn api", "pod/labels/empty Exists", "pod/labels/none Exists"),
    *("pod/labels/none NotExist", " AlwaysTrue", "pod/name Matches web-?", "pod/name MatchesNot web-*"),
    *("pod/name MatchesAny x w*", "pod/labels/none MatchesAny *", "pod/name MatchesNone x y*"),
    *(":pod/name:name Equals web-0:db", ":,-pod/labels/none,name Equals -db"),
    ":pod/labels/none:pod/labels/other Exists",
)


def test_operators_compare_as_in_the_plugins(golden: Golden) -> None:
    lines = []
    for words in OPERATORS:
        key, operator, *values = words.split(" ")
        lines.append(f"{words}: {holds({'key': key, 'operator': operator, 'values': values}, FACTS)}")
    golden("\n".join(lines))
