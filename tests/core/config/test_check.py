"""Accepted and refused configurations in `config check`, with its messages."""

# ruff: noqa: E501  # a case and the line that the operator reads for it stand on one line

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner
from conftest import FIXTURES
from hypothesis import given
from hypothesis import strategies as st
from schema_checks import refusal

from core.config.judged import assert_refused, assert_remarked, check, problems
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.config import check as check_module
from resctrl_hooks.core.config.applied import explicit_values_of
from resctrl_hooks.core.config.check import check_text
from resctrl_hooks.core.config.root import Configuration
from resctrl_hooks.core.config.schema import json_schema
from resctrl_hooks.core.config.show import Shown
from resctrl_hooks.core.node.feature_table import FEATURES, KEYS
from resctrl_hooks.core.node.settings import DEFAULTS, Settings

if TYPE_CHECKING:
    from pathlib import Path

NO_DEFAULTS: dict[str, Any] = {"namespaces": {}, "qos": {}}
TEMPLATE = "classes:\n- name: a\n  memtierdconfig: |\n    policy:\n      name: age\n"


def test_defaults_equal_those_of_node_half() -> None:
    values = explicit_values_of(Configuration())
    assert set(values) == {*DEFAULTS, *KEYS, *FEATURES}
    for name, row in FEATURES.items():
        defaults = row.defaults
        assert {key: values[name][key] for key in defaults} == json.loads(json.dumps(defaults)), name
        without = set(values[name]) - set(defaults) - {"failurePolicy"}
        assert [key for key in without if values[name][key] not in (None, "", [], {}, NO_DEFAULTS)] == [], name
    for name, default in (*DEFAULTS.items(), *KEYS.items()):
        if not isinstance(default, dict):
            assert values[name] == default, name


def test_class_keys_are_accepted_in_any_case() -> None:
    (found,) = check("classes: [{Name: a, allowSwap: true, MemtierdConfig: 'policy: {}'}]").valid().classes
    assert (found.name, found.allowswap, found.memtierdconfig) == ("a", True, "policy: {}")


def test_top_level_plugin_keys_in_any_case_are_valid_with_remark() -> None:
    checked = check("ResctrlPath: /r\nNamespaces: [shop]\nlabelselector: {app: web}\n")
    assert checked.valid().namespaces == ["shop"]
    assert checked.valid().resctrl_path == "/r"
    assert checked.valid().label_selector == {"app": "web"}
    assert [(found.severity, found.line) for found in checked.problems] == [("note", 1), ("note", 2), ("note", 3)]
    assert "this is read as resctrlPath" in str(checked.problems[0])


def test_two_spellings_of_one_key_are_an_error() -> None:
    assert check("namespaces: [a]\nNamespaces: [b]\n").errors


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "{}", "classes:\nmonitoring:\nnamespaces:\n", "runtimeRoots: /run/runc"]
)
def test_nearly_empty_file_is_valid(text: str) -> None:
    assert check(text).errors == []


@pytest.mark.parametrize("roots", ["/run/runc", ["/run/runc"], {"runc": "/run/runc"}, {"runc": ["/run/runc/"]}])
def test_runtime_roots_are_accepted_in_every_form(roots: Any) -> None:
    values = check(json.dumps({"runtimeRoots": roots})).valid().runtime_roots
    assert list(values.values()) == [["/run/runc"]]


# A file and the one line that the operator gets for it.
@pytest.mark.parametrize(
    "text, line",
    [
        ("monitoring:\n  relase: pod\n", 'c.yaml:2: monitoring.relase: unknown key; did you mean "release"?'),
        ("failure-policy: fail", 'c.yaml:1: failure-policy: unknown key; did you mean "failurePolicy"?'),
        ("takeOver: true", "c.yaml:1: takeOver: unknown key; it belongs to monitoring.takeOver"),
        ("log:\n  xyzzy: 1", "c.yaml:2: log.xyzzy: unknown key; known here: target, level, file, journalSocket, syslogSocket"),
        ("classes:\n- name: a\n  swap: 1", 'c.yaml:3: classes[0].swap: unknown key; did you mean "allowswap"?'),
        ("monitoring: {release: container}", "c.yaml:1: monitoring.release: 'container' is not an allowed value; did you mean \"last-container\"?"),
        ("failurePolicy: 1", "c.yaml:1: failurePolicy: 1 is not an allowed value; choose ignore or fail"),
        ("failurePolicy: off", "c.yaml:1: failurePolicy: false is not an allowed value; choose ignore or fail"),
        ("log: {level: off}", "c.yaml:1: log.level: false is not an allowed value; choose error, warning, notice, info or debug"),
        ("monitoring: {enabled: maybe}", "c.yaml:1: monitoring.enabled: should be true or false, not 'maybe'"),
        ("monitoring: {share: {interval: 30x}}", "c.yaml:1: monitoring.share.interval: '30x' is not a duration; write a number and ms, s, m or h: 30s"),
        ("monitoring: {share: {interval: 5s, atLeast: 1m}}", "c.yaml:1: monitoring.share.atLeast: atLeast is longer than interval; make atLeast shorter than interval"),
        ("monitoring: {priority: [{qos: best, value: 1}]}", "c.yaml:1: monitoring.priority[0].qos: 'best' is not an allowed value; choose Guaranteed, Burstable or BestEffort"),
        ("monitoring: [1]", "c.yaml:1: monitoring: should be a mapping, not a list"),
        ("namespaces: shop", "c.yaml:1: namespaces: should be a list, not 'shop'"),
        ("namespaces:\n- a\n- 1\n", "c.yaml:3: namespaces[1]: should be a text, not 1; put it in quotes"),
        ("memory: {allow: {a: ['']}}", "c.yaml:1: memory.allow.a[0]: an empty pattern matches nothing; write a name, or * for all"),
        ("labelSelector: {a: true}", "c.yaml:1: labelSelector.a: should be a text, not true; put it in quotes"),
        ("labelSelector: {on: x}", "c.yaml:1: the key 'on' is read as True, not as text; quote it"),
        ("resctrlPath: sys", "c.yaml:1: resctrlPath: 'sys' is not an absolute path; start it with a slash"),
        ("stateDir: /a/../b", "c.yaml:1: stateDir: '/a/../b' goes through '..'; write a plain absolute path"),
        ("runtimeRoots: [/a, b]", "c.yaml:1: runtimeRoots[1]: 'b' is not an absolute path; start it with a slash"),
        ('stateDir: "/run/a\\nb"', "c.yaml:1: stateDir: '/run/a\\nb' has control characters; write a plain absolute path"),
        (f"groupPrefix: {'p' * 192}", "c.yaml:1: groupPrefix: 'pppppppppppppppppppp'… is too long; use at most 191 characters"),
        ("groupPrefix: ../", "c.yaml:1: groupPrefix: '../' is not a valid prefix; use letters, digits and _+.-, not starting with a dot"),
        ("deadlineSeconds: 70", "c.yaml:1: deadlineSeconds: 70 should be at most 60"),
        ("runtimeRoots: rel", "c.yaml:1: runtimeRoots: 'rel' is not an absolute path; start it with a slash"),
        ("rdt: {classes: {a: {L3: zz}}}", "c.yaml:1: rdt.classes.a.L3: 'zz' is not a mask of cache ways; write it in hexadecimal digits and quotes, such as \"ff0\", or a share: \"60%\""),
        ("rdt: {classes: {a: {L3: {'0': zz}}}}", "c.yaml:1: rdt.classes.a.L3['0']: 'zz' is not a mask of cache ways; write it in hexadecimal digits and quotes, such as \"ff0\", or a share: \"60%\""),
        ("rdt: {classes: {a: {L3: {b: ff}}}}", "c.yaml:1: rdt.classes.a.L3.b: 'b' is not a domain; write its number from schemata in quotes: \"0\""),
        ("rdt: {classes: {a: {L3: [1]}}}", "c.yaml:1: rdt.classes.a.L3: should be a text or a mapping, not a list"),
        ("rdt: {classes: {a: {MB: x}}}", "c.yaml:1: rdt.classes.a.MB: 'x' is not a bandwidth; write a number, \"50%\", \"2000MBps\" or \"2GBps\""),
        ("rdt: {classes: {a: {MB: {'0': 0}}}}", "c.yaml:1: rdt.classes.a.MB['0']: 0 should be at least 1"),
        ("scheduling: {classes: {a: {hugepages: {3: 1}}}}", "c.yaml:1: the key '3' is read as 3, not as text; quote it"),
        ("scheduling: {classes: {a: {hugepages: {three: 1G}}}}", "c.yaml:1: scheduling.classes.a.hugepages.three: 'three' is not a huge page size; write it as the kernel does: 2MB or 1GB"),
        ("scheduling: {classes: {a: {nice: 20}}}", "c.yaml:1: scheduling.classes.a.nice: 20 should be at most 19"),
        ("rdt: {classes: {a: {MB: [50, 0]}}}", "c.yaml:1: rdt.classes.a.MB[1]: 0 should be at least 1"),
        ("rdt: {classes: {gold: {L3: 0xff}}}", 'c.yaml:1: rdt.classes.gold.L3: 255 is a number in YAML, not a mask; put it into quotes, such as "ff0"'),
        ("rdt: {classes: {gold: {L3: '0'}}}", "c.yaml:1: rdt.classes.gold.L3: an empty mask allocates no cache; set a bit for each way of the cache"),
        ("rdt: {classes: {gold: {L4: ff}}}", "c.yaml:1: rdt.classes.gold.L4: unknown key; known here: L3, L3CODE, L3DATA, L2, L2CODE, L2DATA, MB, SMBA, exclusive, optional"),
        ("rdt: {defaults: {qos: {best: gold}}}", "c.yaml:1: rdt.defaults.qos.best: 'best' is not an allowed value; choose Guaranteed, Burstable or BestEffort"),
        ("rdt: {classes: {a/b: {MB: 10}}}", "c.yaml:1: rdt.classes['a/b']: 'a/b' is not a valid class name; write one part of a path, or / for the root class"),
        ("rdt: {classes: {a: {L3: '60%', exclusive: true}, b: {L3: '40%', exclusive: true}}}", "c.yaml:1: rdt.classes: exclusive classes have 100% of L3 together, which leaves none to the root class; reduce a share, or make a class not exclusive"),
        ("monitoring: {share: {intervals: 3}}", 'c.yaml:1: monitoring.share.intervals: unknown key; did you mean "interval"?'),
        ("blockio: {enabled: true, defaults: {qos: {BestEffort: b}}}", "c.yaml:1: blockio.defaults.qos.BestEffort: unknown class 'b'; the classes are none"),
        ("blockio: {enabled: true, classes: {a: [{weight: 5}]}, defaults: {qos: {BestEffort: b}}}", "c.yaml:1: blockio.defaults.qos.BestEffort: unknown class 'b'; the classes are a"),
        ("classes:\n- name: a\n  memtierdconfig: |\n    policy: {name: 2024-99-99}\n", "c.yaml:3: classes[0].memtierdconfig: it is not valid YAML after the replacement of variables: month must be in 1..12; see memtierd's sample"),
        ("monitoring: {capacity: {a: 5GB/s}}", "c.yaml:1: monitoring.capacity.a: 'a' is not a domain; write its id from schemata in quotes: \"0\""),
        ("monitoring: {events: [mbm_local_bytes, mbm_local_bytes]}", "c.yaml:1: monitoring.events[1]: duplicate event mbm_local_bytes; name each event once"),
        ("scheduling: {classes: {a: {policy: rr}}}", "c.yaml:1: scheduling.classes.a.policy: the policy rr needs a priority; add priority: 1 to 99"),
        ("scheduling: {classes: {a: {priority: 1}}}", "c.yaml:1: scheduling.classes.a.priority: only fifo and rr have a priority; use nice, or another policy"),
        ("scheduling: {classes: {a: {cpuIdle: true, cpuWeight: 1}}}", "c.yaml:1: scheduling.classes.a.cpuWeight: the kernel rejects cpu.weight with cpu.idle; remove one of them"),
        ("scheduling: {classes: {a: {ioPriority: 1}}}", "c.yaml:1: scheduling.classes.a.ioPriority: only realtime and best-effort have an ioPriority; add an ioClass"),
        ("blockio: {classes: {a: [{throttleReadBps: 1}]}}", "c.yaml:1: blockio.classes.a[0].devices: limits need devices; add devices"),
        ("blockio: {classes: {a: [{devices: [sda]}]}}", "c.yaml:1: blockio.classes.a[0].devices[0]: 'sda' is not a device pattern; write a path below /dev; use *, ? and brackets only in its last part"),
        ("blockio: {classes: {a: [{devices: ['/dev/sd[']}]}}", "c.yaml:1: blockio.classes.a[0].devices[0]: '/dev/sd[' has invalid brackets; write letters, digits and ranges of them in at most 2 brackets: sd[a-dx]"),
        ("scheduling: {classes: {a: {memoryLow: '010'}}}", "c.yaml:1: scheduling.classes.a.memoryLow: invalid memory '010'; write max, or an integer, optionally with K, M, G or T"),
        ("scheduling: {classes: {a: {cpuMax: '50%'}}}", "c.yaml:1: scheduling.classes.a.cpuMax: '50%' is not a cpu.max value; write max, or quota and period in microseconds: 50000 100000"),
        ("blockio: {classes: {a: [{devices: [/dev/sda], throttleReadBps: 1.5X}]}}", "c.yaml:1: blockio.classes.a[0].throttleReadBps: '1.5X' is not an amount; write a number of 1 or more, with k, M, G or T, or Ki, Mi, Gi or Ti"),
        ("memory: {allowLimits: {'*': [memory.max]}}", "c.yaml:1: memory.allowLimits['*'][0]: 'memory.max' matches no limit; the limits are memory.swap.max and memory.high"),
        ("deadlineSeconds: .inf", "c.yaml:1: deadlineSeconds: inf: input should be a finite number"),
        ("classes: [{allowswap: true}]", "c.yaml:1: classes[0].name: is required; add it"),
        ("classes:\n- {name: a}\n- {name: b}\n- name: a\n", "c.yaml:4: classes[2].name: duplicate name 'a' (first at [0]); use unique names"),
        ("classes: [{Name: a, name: b}]", "c.yaml:1: classes[0].name: duplicate key name; keys of a class are case-insensitive"),
        (TEMPLATE + "      path: $CGROUP2_ABS_PAHT\n", "c.yaml:6: classes[0].memtierdconfig: unknown variable $CGROUP2_ABS_PAHT; did you mean $CGROUP2_ABS_PATH?"),
        (TEMPLATE + "      run: $PATH\n", "c.yaml:6: classes[0].memtierdconfig: unknown variable $PATH; known variables: $CGROUP2_ABS_PATH and $MEMTIERD_SWAP_STATS_PATH"),
        (TEMPLATE + "      p: ${CGROUP2_ABS_PATH}\n", "c.yaml:6: classes[0].memtierdconfig: ${CGROUP2_ABS_PATH} is not replaced; write $CGROUP2_ABS_PATH, without braces"),
        (TEMPLATE + "     x: $CGROUP2_ABS_PATH\n", "c.yaml:6: classes[0].memtierdconfig: it is not valid YAML after the replacement of variables: expected <block end>, but found '<block mapping start>'; see memtierd's sample"),
        (TEMPLATE + "      config: '[$CGROUP2_ABS_PATH'\n", "c.yaml:3: classes[0].memtierdconfig: a nested configuration in it is not valid YAML after the replacement of variables: expected ',' or ']', but got '<stream end>'; see memtierd's sample"),
        (TEMPLATE + "      config: 'a: 2024-99-99'\n", "c.yaml:3: classes[0].memtierdconfig: a nested configuration in it is not valid YAML after the replacement of variables: month must be in 1..12; see memtierd's sample"),
        ("classes: [{name: a, memtierdconfig: text}]", "c.yaml:1: classes[0].memtierdconfig: memtierd's configuration should be a mapping; begin it with `policy:`"),
        ("rdt:\n  classes:\n    a: {MB: 50, MB_MIN: 5}\n", "c.yaml:3: rdt.classes.a.MB_MIN: resctrl-hooks does not manage this resource and leaves its values unchanged; remove it; the managed ones are L3, L3CODE, L3DATA, L2, L2CODE, L2DATA, MB, SMBA"),
        ("- a", "c.yaml:1: the configuration must be a mapping, not a list or a single value; begin with a key such as `namespaces:`"),
        ("log: {target: none, target: file}", "c.yaml:1: the key 'target' is a duplicate of line 1; keep one"),
        ("log: &x\n  file: *x", "c.yaml:1: an alias contains itself; write it out"),
        ("a: 1\n---\nb: 2\n", "c.yaml:2: a second document begins here; keep one configuration in one file"),
        ("\ta: 1", "c.yaml:1: not YAML: found character '\\t' that cannot start any token (while scanning for the next token); indent with spaces"),
        ("a: [1", "c.yaml:1: not YAML: expected ',' or ']', but got '<stream end>' (while parsing a flow sequence)"),
        ("log: !!python/object:os.system {}", "c.yaml:1: a value of the kind tag:yaml.org,2002:python/object:os.system is not allowed here; write a plain value"),
        ("a: !!binary aGVsbG8=", "c.yaml:1: a value of the kind tag:yaml.org,2002:binary is not allowed here; write a plain value"),
        ("\n\na: \x01", "c.yaml:3: a character that YAML forbids: #x0001; remove it"),
    ],
)  # fmt: skip
def test_each_problem_has_line_and_remedy(text: str, line: str) -> None:
    assert_refused(text, line)


# Valid but possibly unintended: a file, the key of the remark, and some of its words.
@pytest.mark.parametrize(
    "text, key, words",
    [
        ("classes: [{name: a}]", "classes", "are rejected, except in namespaces of memory.allowLimits"),
        ("classes: [{name: a}]\nmemory: {allowLimits: {}, allow: {x: [b, a]}}", "memory.allow.x[0]", "'b' matches no class; the classes are a"),
        ("memtierd: {allow: {x: [b]}}", "memtierd.allow", "deprecated; use `memory.allow`"),
        ("memtierd: {failurePolicy: ignore}", "memtierd.failurePolicy", "deprecated; use `memory.failurePolicy`"),
        ("monitoring: {priority: [{value: 1}, {value: 2}]}", "monitoring.priority[0]", "the rules after it never apply"),
        ("monitoring: {priority: [{qos: Guaranteed, value: 5}], reserve: {rmids: 1, above: 5}}", "monitoring.reserve.above", "no pod gets these RMIDs"),
        ("monitoring: {share: {interval: 60s}}", "monitoring.share.interval", "use 90s or more, or also run `resctrl-hook reconcile --watch 20`"),
        ("monitoring: {share: {interval: 2s}}", "monitoring.share.interval", "reconcile --watch 1`"),
        ("rdt: {classes: {a: {MB: 50}}}", "rdt", "`resctrl-hook rdt apply` creates the classes anyway"),
        ("rdt: {enabled: true, classes: {bronze: {MB: 50}}, defaults: {qos: {BestEffort: bronz}}}", "rdt.defaults.qos.BestEffort", "does not declare 'bronz'"),
        ("rdt: {enabled: true, classes: {bronze: {MB: 50}}, allow: {x: [bronz, /, 'b*']}}", "rdt.allow.x[0]", "does not declare 'bronz'"),
        ("blockio: {enabled: true, classes: {slow: [{weight: 10}]}, allow: {x: [slwo]}}", "blockio.allow.x[0]", "'slwo' matches no class"),
        ("scheduling: {enabled: true, classes: {a: {nice: 1}}, allow: {x: [b, '*']}}", "scheduling.allow.x[0]", "'b' matches no class"),
        ("scheduling: {enabled: true, classes: {a: {hugepages: {3MB: 1G, 2MB: 1G}}}}", "scheduling.classes.a.hugepages['3MB']", "powers of two"),
        ("stateDir: /home/x", "stateDir", "cannot access /home"),
        ("stateDir: /var/tmp/x", "stateDir", "cannot access /var/tmp"),
        ("telemetry: {prometheus: {port: 1}}", "telemetry", "ignored"),
        ("unifiedAnnotations: [memory.high, cpu.max]", "unifiedAnnotations[1]", "the supported files are memory.swap.max, memory.high"),
        ("log: {target: file}", "log.target", "nothing is logged"),
        ("classes: [{name: a}]\nmemory: {allowLimits: {}}\nmemtierd: {allow: {x: [b]}}", "memtierd.allow.x[0] memtierd.allow", "'b' matches no class"),
        (TEMPLATE + "      swapoutms: 1\n  allowswap: false\nmemory: {allowLimits: {}}", "classes[0].memtierdconfig classes[0].memtierdconfig", "so memtierd cannot find the container memtierd swaps out, but allowswap is false"),
    ],
)  # fmt: skip
def test_ineffective_values_have_a_remark(text: str, key: str, words: str) -> None:
    assert_remarked(text, key, words)


@pytest.mark.parametrize(
    "text",
    [
        "classes: [{name: a}]\nmemory: {allowLimits: {}}",
        "classes: [{name: a}]\nmemory: {failurePolicy: ignore}",
        "memory: {allow: {x: [b]}}",
        "monitoring: {share: {}}",
        "monitoring: {priority: [{namespaces: [a], value: 3}, {qos: Burstable, value: 2}, {labels: {a: b}, value: 1}, {value: 4}]}",
        "monitoring: {share: {interval: 90s}}",
        "memory: {allowLimits: {x: ['memory.*'], y: [memory.high]}}",
        "rdt: {enabled: true, allow: {x: [gold]}, defaults: {qos: {BestEffort: bronze}}}",
        "rdt: {failurePolicy: fail}",
        "stateDir: /homes/x",
    ],
)
def test_meaningful_values_have_no_remark(text: str) -> None:
    assert problems(text) == []


def test_file_that_is_not_utf8_is_refused() -> None:
    (problem,) = check_text(b"a: 1\nb: \xff\n", "c.yaml").problems
    assert str(problem) == "c.yaml:2: the file is not UTF-8; save it as UTF-8"


@pytest.mark.parametrize("text", ["[" * 3000, "{a: " * 100 + "1" + "}" * 100])
def test_deeply_nested_file_is_refused(text: str) -> None:
    (problem,) = check(text).errors
    assert "deeply" in problem.what


def test_expanding_aliases_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    (found,) = problems("\n".join(lines))
    assert "its aliases expand to too much data" in found


def test_merge_keys_are_applied() -> None:
    text = "log: &x {level: debug}\ntelemetry:\n  <<: *x\n"
    assert check(text).errors == []


def test_all_problems_are_reported_in_order_of_lines() -> None:
    text = "resctrlPath: x\nlog:\n  level: loud\nzzz: 1\nmonitoring: {enabled: 2}\n"
    assert [problem.line for problem in check(text).errors] == [1, 3, 4, 5]
    assert {problem.key: problem.line for problem in check(TEMPLATE).problems} == {
        "classes": 1, "classes[0].memtierdconfig": 3,
    }  # fmt: skip


def test_section_without_effect_has_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "FEATURES", ())
    (warning,) = check("monitoring: {enabled: true}").problems
    assert (warning.severity, warning.key) == ("warning", "monitoring")
    assert check("namespaces: [a]").problems == []


def test_schema_is_valid_and_agrees_with_models(tmp_path: Path) -> None:
    schema = json.loads(CliRunner().invoke(main, ["config", "schema"]).stdout)
    assert schema == json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for name in ("nri-resctrl-mon.yaml", "nri-memtierd.yaml"):
        assert refusal(yaml.safe_load((FIXTURES / name).read_text()), schema) == ""
    assert refusal(explicit_values_of(Configuration()), schema) == ""
    wrongs: list[dict[str, Any]] = [
        {"zzz": 1},
        {"monitoring": {"release": "x"}},
        {"classes": [{}]},
        {"resctrlPath": "x"},
        {"deadlineSeconds": 61},
    ]
    for wrong in wrongs:
        assert refusal(wrong, schema), wrong
    texts = [field for field in schema["properties"].values() if "description" not in field and "$ref" not in field]
    assert texts == []
    assert Shown.model_json_schema()["properties"]["settings"]["properties"].keys() == schema["properties"].keys()


_KEYS = st.sampled_from(
    [*DEFAULTS, *KEYS, *FEATURES, "enabled", "release", "name", "allowswap", "allow", "file", "zzz", ""]
)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["/x", "pod", "fail", "$X"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=5))
def test_any_mapping_is_valid_for_both_halves_or_reported_with_a_line(value: dict[str, Any]) -> None:
    checked = check(yaml.safe_dump(value))
    for problem in checked.errors:
        assert problem.line > 0
        assert problem.what
    if checked.config is not None:
        Settings(json.loads(json.dumps(checked.config.model_dump(mode="json", by_alias=True, exclude_unset=True))))


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_has_a_result(text: str) -> None:
    checked = check(text)
    assert (checked.config is None) == bool(checked.errors)


@pytest.mark.parametrize("more, refused", [(0, []), (1, ["the compiled configuration is larger than 1048576 bytes"])])
def test_compiled_configuration_has_a_largest_size(more: int, refused: list[str]) -> None:
    """Beside 200 bytes of metadata; é is six characters in it."""
    rest = len(json.dumps({"namespaces": ["\n"]}, separators=(",", ":")))
    text = f"namespaces: [é{'x' * (check_module.LARGEST - 200 - rest - 6 + more)}]"
    assert [problem.what.partition(",")[0] for problem in check(text).errors] == refused


def test_excessive_aliases_are_refused_before_expansion() -> None:
    some = ", ".join(["a"] * 2000)
    text = f"memory:\n  allow:\n    n0: &x [{some}]\n" + "".join(f"    n{number}: *x\n" for number in range(1, 2000))
    (found,) = problems(text)
    assert "its aliases expand to too much data" in found
    assert found.startswith("c.yaml:")


@pytest.mark.parametrize("value", ["!!bool maybe", '!!int ""', "!!int '-'", '!!float ""'])
def test_tag_that_does_not_match_its_value_is_reported(value: str) -> None:
    (found,) = problems(f"deadlineSeconds: {value}\n")
    assert "invalid value" in found
