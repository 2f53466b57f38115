"""Keys of placement: accepted and refused values, with their messages."""

# ruff: noqa: E501  # a case and the line that the operator reads for it stand on one line

import json
from pathlib import Path

import pytest
import yaml
from core.config.judged import assert_accepted_also_as_compiled, assert_remarked, cases, check, problems
from golden import Golden

from resctrl_hooks.core.config.check import check_file
from resctrl_hooks.core.node.permissions import allows
from resctrl_hooks.core.node.settings import Settings

CPU = "placement: {cpuClasses: [{name: a, %s}]}"
POOL = "placement: {pools: [{name: p, cpus: '0', %s}]}"
EXPRESSION = "placement: {pools: [{name: p, cpus: '0', matchExpressions: [{%s}]}]}"
VALUES = [
    ("placement: {pools: [{name: %s, cpus: '0'}]}", "a", "'a b' | isolated"),
    ("placement: {policy: %s}", "topology-aware", "best | pools"),
    ("placement: {reservedCpus: %s}", "4 | 0 | '4'", "all | -4 | true | 4.5 | [4]"),
    ("placement: {reservedCpus: '0-3', pools: [{name: a, cpus: %s}]}", "4 | '4-5'", "'3-4' | 0 | '' | -4 | true | 4.5 | [4]"),
    ("placement: {pools: [{name: a, cpus: '1'}, {name: b, cpus: '2'}, {name: c, cpus: '%s'}]}", "3", "1"),
    ("placement: {pools: [%s]}", '{name: default, cpus: "0"} | {name: a}', "{name: default} | {name: a, cpus: x}"),
    ("placement: {%s}", "idleCpuClass: a, cpuClasses: [{name: a}]", "idleCpuClass: x | cpuClasses: [{name: a}, {name: a}]"),
    (POOL % "cpuClass: x}], cpuClasses: [{name: %s", "x", "y"),
    (CPU % "minFreq: %s", "min | base | turbo | 2400000 | 2.4GHz | 2400MHz | 800kHz | 1", "'' | 0 | -1 | fast | 2.4THz | true | 0.0001kHz"),
    (CPU % "minFreq: 2GHz, maxFreq: %s", "2GHz | turbo", "1900MHz"),
    (CPU % "minFreq: base, maxFreq: %s", "1", ""),
    (CPU % "uncoreMinFreq: %s", "min | turbo | 1.8GHz", "base | 0 | 2GHz, uncoreMaxFreq: 1.9GHz"),
    (CPU % "energyPerformancePreference: %s", "0 | 255 | '5' | performance | balance_power", "-1 | 256 | '05' | fast | true | 1.5"),
    (CPU % "freqGovernor: %s", "performance | schedutil", "'a b' | '' | a/b"),
    (CPU % "disabledCstates: [%s]", "C6 | C1E | POLL", "'a b' | ''"),
    (CPU % "maxCstateLatency: %s", "0", "-1"),
    (POOL % "instancePer: '%s'", "container | pod | namespace | ${pod/labels/app} | a-${name}", "node | ${ | ${name | ${none} | ${pod/color} | text | $name"),
    (POOL % "shareIdleCpus: %s", "l3", "l2"),
    (POOL % "minCpus: %s", "16384 | 2, maxCpus: 2 | 2, maxCpus: 0", "100000000 | 3, maxCpus: 2"),
    (POOL % "maxCpus: %s", "16384", "100000000"),
    (POOL % "minInstances: %s", "16384 | 2, maxInstances: 2 | 1, maxInstances: 0", "16385 | 100000000 | 3, maxInstances: 2"),
    (POOL % "maxInstances: %s", "16384", "100000000"),
    (POOL % "mems: %s", "1", "-1 | false"),
    (EXPRESSION % "operator: %s", "AlwaysTrue", "Exists | Sometimes | Equals, values: []"),
    (EXPRESSION % "key: %s, operator: Exists", "name | labels/app | pod/labels/app | ':name:namespace'", "nothing | pod/none | '' | labels/ | ':name:pod/x'"),
    (EXPRESSION % "key: name, operator: %s", "In, values: [a, b] | Equals, values: [a] | NotExists | NotExist | Exists", "Is, values: [a]"),
    (EXPRESSION % "key: name, operator: %s", "", "Equals | Equals, values: [a, b] | Exists, values: [a]"),
    (EXPRESSION % "key: name, operator: %s", 'Matches, values: ["a*"] | In, values: ["a["]', 'Matches, values: ["a[b]"]'),
]  # fmt: skip


REMARKED = [
    ("placement: {enabled: true, allow: {shop: [exlusive]}}", "placement.allow.shop[0]", "'exlusive' matches nothing"),
    ("placement: {enabled: true, pools: [{name: a, cpus: '0'}], policy: pools, allow: {s: [a, default, b]}}", "placement.allow.s[2]", "exclusive, isolated, reserved, preserve, a, default"),
    ("placement: {enabled: true, pools: [{name: a, cpus: '0'}]}", "placement.pools", "set `policy: pools`"),
    ("placement: {reservedCpus: '0'}", "placement", "no effect without `enabled: true`"),
]  # fmt: skip


@pytest.mark.parametrize("text, key, words", REMARKED)
def test_ineffective_values_have_a_remark(text: str, key: str, words: str) -> None:
    assert_remarked(text, key, words)


def test_meaningful_values_have_no_remark() -> None:
    pools = "pools: [{name: a, cpus: '0'}], allow: {x: [anything]}"
    texts = ("placement: {enabled: false, reservedCpus: '0'}", f"placement: {{enabled: true, policy: /x.py, {pools}}}")
    assert [problems(text) for text in texts] == [[], []]


@pytest.mark.parametrize("text", cases(VALUES, 1))
def test_value_is_accepted_also_as_compiled(text: str) -> None:
    assert_accepted_also_as_compiled(text)


def test_refused_value_is_named_with_line_and_remedy(golden: Golden) -> None:
    refused = cases(VALUES, 2)
    assert [text for text in refused if not check(text).errors or check(text).config] == []
    golden("\n".join("; ".join(problems(text)) for text in refused))


def test_cpu_class_is_compiled_to_the_values_of_the_kernel(golden: Golden) -> None:
    text = """
placement:
  enabled: true
  idleCpuClass: a
  cpuClasses:
    - {name: a, minFreq: 3.2GHz, maxFreq: turbo, energyPerformancePreference: 128, freqGovernor: performance,
       uncoreMaxFreq: 1.8GHz, disabledCstates: [C6, C1_ACPI], maxCstateLatency: 10, turboPriority: 3}
    - {name: b, minFreq: 2900MHz, maxFreq: 2900000, energyPerformancePreference: balance_power}
    - {name: c}
    - {name: default}
  allow: {shop: ["class:c", "class:x"]}
"""
    checked = check(text)
    classes = checked.valid().model_dump(mode="json", by_alias=True)["placement"]["cpuClasses"]
    golden("\n".join(map(str, [*classes, *checked.problems])))


def test_empty_pattern_matches_missing_namespace() -> None:
    text = "namespaces: ['']\nplacement: {enabled: true, namespaces: [''], allow: {'': [exclusive]}}"
    settings = Settings(json.loads(json.dumps(yaml.safe_load(text))))
    assert problems(text) == []
    assert allows(settings.sections["placement"]["allow"], "", "exclusive")
    assert not allows(settings.sections["placement"]["allow"], "shop", "exclusive")


def test_cpus_missing_on_this_machine_have_a_remark(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/possible").write_text("0-3\n")
    path = tmp_path / "c.yaml"
    placement = {"enabled": True, "policy": "pools", "reservedCpus": "2-5", "pools": [{"name": "a", "cpus": "900"}]}
    path.write_text(json.dumps({"sysPath": str(tmp_path / "sys"), "placement": placement}))
    notes = {note.key: note.what for note in check_file(str(path)).remarks if note.severity == "note"}
    assert notes == {
        "placement.reservedCpus": "this machine has no CPU 4-5, only 0-3",
        "placement.pools[0].cpus": "this machine has no CPU 900, only 0-3",
    }
    (tmp_path / "sys/devices/system/cpu/possible").unlink()
    assert check_file(str(path)).remarks == []
