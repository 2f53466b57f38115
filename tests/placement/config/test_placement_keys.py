"""Keys of placement: accepted and refused values, with their messages."""

# ruff: noqa: E501  # a case and the line that the operator reads for it stand on one line

import json
from pathlib import Path

import pytest
import yaml
from core.config.judged import assert_accepted_also_as_compiled, assert_refused, assert_remarked, cases, check, problems
from golden import Golden

from resctrl_hooks.core.config.check import check_file
from resctrl_hooks.core.node.permissions import allows
from resctrl_hooks.core.node.settings import Settings

CPU = "placement: {cpuClasses: [{name: a, %s}]}"
POOL = "placement: {pools: [{name: p, cpus: '0', %s}]}"
EXPRESSION = "placement: {pools: [{name: p, cpus: '0', matchExpressions: [{%s}]}]}"

REFUSED = [
    ("placement: {pools: [{name: 'a b', cpus: '0'}]}", "c.yaml:1: placement.pools[0].name: 'a b' is not a valid pool name; use up to 63 letters, digits and _.-, starting with a letter or digit"),
    ("placement: {pools: [{name: isolated, cpus: '0'}]}", "c.yaml:1: placement.pools[0].name: 'isolated' is not a valid pool name; the name is reserved in `allow`; use another name"),
    ("placement: {pools: [{name: a, cpus: ''}]}", "c.yaml:1: placement.pools[0].cpus: should not be empty"),
    ("placement: {policy: best}", "c.yaml:1: placement.policy: unknown policy 'best'; write topology-aware or pools, or the path of a policy's file"),
    ("placement: {policy: pools}", "c.yaml:1: placement.policy: the policy pools needs pools; add placement.pools"),
    ("placement: {reservedCpus: all}", "c.yaml:1: placement.reservedCpus: 'all' is not a list of CPUs; write it as the kernel does: 0-3,8"),
    ("placement: {reservedCpus: '0-3', pools: [{name: a, cpus: '3-4'}]}", "c.yaml:1: placement.pools[0].cpus: pool a contains reserved CPUs or CPUs of another pool; give each CPU to one pool only"),
    ("placement: {pools: [{name: a, cpus: '3', cpuClass: x}], cpuClasses: [{name: y}]}", "c.yaml:1: placement.pools[0].cpuClass: unknown CPU class 'x'; the classes are y"),
    ("placement: {pools: [{name: a, cpus: '1'}, {name: b, cpus: '2'}, {name: c, cpus: '1'}]}", "c.yaml:1: placement.pools[2].cpus: pool c contains reserved CPUs or CPUs of another pool; give each CPU to one pool only"),
    ("placement: {idleCpuClass: x}", "c.yaml:1: placement.idleCpuClass: unknown CPU class 'x'; the classes are none"),
    ("placement: {cpuClasses: [{name: a}, {name: a}]}", "c.yaml:1: placement.cpuClasses[1].name: duplicate name 'a' (first at [0]); use unique names"),
    ("placement: {cpuClasses: [{name: a, minFreq: fast}]}", "c.yaml:1: placement.cpuClasses[0].minFreq: 'fast' is not a frequency; write 2.4GHz, 2400MHz, kHz as a number, or min, base, turbo"),
    ("placement: {cpuClasses: [{name: a, minFreq: 2GHz, maxFreq: 1900MHz}]}", "c.yaml:1: placement.cpuClasses[0].minFreq: minFreq 2000000 is above maxFreq 1900000; swap them"),
    ("placement: {cpuClasses: [{name: a, uncoreMinFreq: base}]}", "c.yaml:1: placement.cpuClasses[0].uncoreMinFreq: the uncore has no frequency 'base'; write min, turbo, or a frequency as in 1.8GHz"),
    ("placement: {cpuClasses: [{name: a, uncoreMinFreq: 2GHz, uncoreMaxFreq: 1.9GHz}]}", "c.yaml:1: placement.cpuClasses[0].uncoreMinFreq: uncoreMinFreq 2000000 is above uncoreMaxFreq 1900000; swap them"),
    ("placement: {cpuClasses: [{name: a, disabledCstates: ['C 6']}]}", "c.yaml:1: placement.cpuClasses[0].disabledCstates[0]: 'C 6' is not a C-state; the kernel lists their names in cpu0/cpuidle/state*/name"),
    ("placement: {cpuClasses: [{name: a, maxCstateLatency: -1}]}", "c.yaml:1: placement.cpuClasses[0].maxCstateLatency: -1 should be at least 0"),
    ("placement: {cpuClasses: [{name: a, energyPerformancePreference: 256}]}", "c.yaml:1: placement.cpuClasses[0].energyPerformancePreference: 256 is not an energy performance preference; write 0 to 255, or default, performance, balance_performance, balance_power, power"),
    ("placement: {cpuClasses: [{name: a, freqGovernor: 'a/b'}]}", "c.yaml:1: placement.cpuClasses[0].freqGovernor: 'a/b' is not a governor; the kernel lists them in scaling_available_governors"),
    ("placement: {pools: [{name: a, cpus: '0', matchExpressions: [{operator: Equals, values: []}]}]}", "c.yaml:1: placement.pools[0].matchExpressions[0]: Equals takes 1 value, not 0"),
    ("placement: {pools: [{name: a, cpus: '0', matchExpressions: [{operator: Exists, values: [a]}]}]}", "c.yaml:1: placement.pools[0].matchExpressions[0]: Exists takes no values, not 1"),
    ("placement: {pools: [{name: default}]}", "c.yaml:1: placement.pools[0].cpus: the pool default needs cpus; without it, default has all CPUs that no pool uses"),
    ("placement: {pools: [{name: a, matchExpressions: [{key: name, operator: Matches, values: ['a[']}]}]}", "c.yaml:1: placement.pools[0].matchExpressions[0].values: a pattern has a bracket; use * for any text and ? for one character"),
    ("placement: {pools: [{name: a, cpus: '0', matchExpressions: [{key: pod/color, operator: Exists}]}]}", "c.yaml:1: placement.pools[0].matchExpressions[0].key: unknown key 'pod/color'; the keys are id, name, namespace, pod/name, pod/namespace, pod/qosclass, pod/uid, qosclass, labels/NAME, pod/labels/NAME"),
    ("placement: {pools: [{name: a, cpus: '0', matchExpressions: [{key: name, operator: Is, values: [a]}]}]}", "c.yaml:1: placement.pools[0].matchExpressions[0].operator: unknown operator 'Is'; the operators are Equals, NotEqual, In, NotIn, Exists, NotExist, AlwaysTrue, Matches, MatchesNot, MatchesAny, MatchesNone"),
    ("placement: {pools: [{name: a, cpus: '0', matchExpressions: [{operator: Exists}]}]}", "c.yaml:1: placement.pools[0].matchExpressions[0]: key is missing; only AlwaysTrue needs no key"),
    ("placement: {pools: [{name: a, cpus: '0', minCpus: 4, maxCpus: 2}]}", "c.yaml:1: placement.pools[0].minCpus: minCpus 4 is above maxCpus 2; swap them"),
    ("placement: {pools: [{name: a, cpus: '0', minInstances: 4, maxInstances: 2}]}", "c.yaml:1: placement.pools[0].minInstances: minInstances 4 is above maxInstances 2; swap them"),
    ("placement: {pools: [{name: a, cpus: '0', instancePer: node}]}", "c.yaml:1: placement.pools[0].instancePer: unknown group 'node'; write container, pod, namespace, or a text with ${key}"),
    ("placement: {pools: [{name: a, cpus: '0', instancePer: '${name'}]}", "c.yaml:1: placement.pools[0].instancePer: a reference without an end: ${name; write ${key}"),
    ("placement: {pools: [{name: a, cpus: '0', instancePer: '${pod/color}'}]}", "c.yaml:1: placement.pools[0].instancePer: unknown key 'pod/color' in '${pod/color}'; the keys are those of matchExpressions"),
    ("placement: {pools: [{name: a, cpus: '0', shareIdleCpus: l2}]}", "c.yaml:1: placement.pools[0].shareIdleCpus: 'l2' is not an allowed value; choose system, package, die, numa, l3 or core"),
]  # fmt: skip

REMARKED = [
    ("placement: {enabled: true, allow: {shop: [exlusive]}}", "placement.allow.shop[0]", "'exlusive' matches nothing"),
    ("placement: {enabled: true, pools: [{name: a, cpus: '0'}], policy: pools, allow: {s: [a, default, b]}}", "placement.allow.s[2]", "exclusive, isolated, reserved, preserve, a, default"),
    ("placement: {enabled: true, pools: [{name: a, cpus: '0'}]}", "placement.pools", "set `policy: pools`"),
    ("placement: {reservedCpus: '0'}", "placement", "no effect without `enabled: true`"),
]  # fmt: skip

SILENT = [
        "placement: {enabled: false, reservedCpus: '0'}",
        "placement: {enabled: true, policy: /etc/policy.py, pools: [{name: a, cpus: '0'}], allow: {x: [anything]}}",
]  # fmt: skip

VALUES = [
    (CPU % "minFreq: %s", "min | base | turbo | 2400000 | 2.4GHz | 2400MHz | 800kHz | 1", "'' | 0 | -1 | fast | 2.4THz | true | 0.0001kHz"),
    (CPU % "uncoreMinFreq: %s", "min | turbo | 1.8GHz", "base | 0"),
    (CPU % "%s", "minFreq: 2GHz, maxFreq: 2GHz | minFreq: base, maxFreq: 1", ""),
    (CPU % "energyPerformancePreference: %s", "0 | 255 | '5' | performance | balance_power", "-1 | 256 | '05' | fast | true | 1.5"),
    (CPU % "freqGovernor: %s", "performance | schedutil", "'a b' | ''"),
    (CPU % "disabledCstates: [%s]", "C6 | C1E | POLL", "'a b' | ''"),
    (POOL % "instancePer: '%s'", "container | pod | namespace | ${pod/labels/app} | a-${name}", "node | ${ | ${none} | text | $name"),
    (POOL % "%s", "minCpus: 2, maxCpus: 2 | minCpus: 2, maxCpus: 0 | minInstances: 2, maxInstances: 2", ""),
    (POOL % "minInstances: %s", "16384", "16385 | 100000000"),
    (POOL % "maxInstances: %s", "16384", "100000000"),
    (POOL % "minCpus: %s", "16384", "100000000"),
    (POOL % "maxCpus: %s", "16384", "100000000"),
    (POOL % "%s", "minInstances: 1, maxInstances: 0", "minCpus: 3, maxCpus: 2 | minInstances: 3, maxInstances: 2"),
    ("placement: {pools: [%s]}", '{name: default, cpus: "0"} | {name: a}', "{name: default} | {name: a, cpus: x}"),
    (EXPRESSION % "operator: %s", "AlwaysTrue", "Exists | Sometimes"),
    (EXPRESSION % "key: %s, operator: Exists", "name | labels/app | pod/labels/app | ':name:namespace'", "nothing | pod/none | '' | labels/ | ':name:pod/x'"),
    (EXPRESSION % "key: name, operator: %s", "In, values: [a, b] | Equals, values: [a] | NotExists | NotExist | Exists", ""),
    (EXPRESSION % "key: name, operator: %s", "", "Equals | Equals, values: [a, b] | Exists, values: [a]"),
    (EXPRESSION % "key: name, operator: %s", 'Matches, values: ["a*"] | In, values: ["a["]', 'Matches, values: ["a[b]"]'),
    ("placement: {reservedCpus: %s}", "4 | 0 | '4'", "-4 | true | 4.5 | [4]"),
    ("placement: {pools: [{name: a, cpus: %s}]}", "4 | 0 | '4'", "-4 | true | 4.5 | [4]"),
    (POOL, "mems: 1", "mems: -1 | mems: false"),
]  # fmt: skip


@pytest.mark.parametrize("text, line", REFUSED)
def test_each_problem_has_line_and_remedy(text: str, line: str) -> None:
    assert_refused(text, line)


@pytest.mark.parametrize("text, key, words", REMARKED)
def test_ineffective_values_have_a_remark(text: str, key: str, words: str) -> None:
    assert_remarked(text, key, words)


@pytest.mark.parametrize("text", SILENT)
def test_meaningful_values_have_no_remark(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize("text", cases(VALUES, 1))
def test_value_is_accepted_also_as_compiled(text: str) -> None:
    assert_accepted_also_as_compiled(text)


@pytest.mark.parametrize("text", cases(VALUES, 2))
def test_value_is_refused(text: str) -> None:
    assert check(text).errors != []


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
