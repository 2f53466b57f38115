"""Configurations that `config check` refuses or remarks on, with its messages as golden texts."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from conftest import FIXTURES
from golden import Golden
from schema_checks import refusal

from core.config.judged import FOREIGN, assert_like, check, problems
from resctrl_hooks.core.cli import main
from resctrl_hooks.core.config import check as check_module
from resctrl_hooks.core.config.applied import explicit_values_of
from resctrl_hooks.core.config.check import check_file, trust_problems
from resctrl_hooks.core.config.document import parse_document
from resctrl_hooks.core.config.root import Configuration
from resctrl_hooks.core.config.schema import json_schema
from resctrl_hooks.core.config.show import Shown
from resctrl_hooks.core.node.feature_table import FEATURES, KEYS
from resctrl_hooks.core.node.settings import DEFAULTS

TEMPLATE = "classes:\n- name: a\n  memtierdconfig: |\n    policy:\n      name: age\n"
REFUSED = [
    "monitoring:\n  relase: pod\n", "failure-policy: fail", "takeOver: true", "log:\n  xyzzy: 1",
    "classes:\n- name: a\n  swap: 1", "failurePolicy: off", "log: {level: off}",
    "monitoring: {share: {interval: 30x}}", "monitoring: {share: {interval: 5s, atLeast: 1m}}",
    "monitoring: {priority: [{qos: best, value: 1}]}", "namespaces:\n- a\n- 1\n", "memory: {allow: {a: ['']}}",
    "labelSelector: {on: x}", "stateDir: /a/../b", "runtimeRoots: [/a, b]", 'stateDir: "/run/a\\nb"',
    "rdt: {classes: {a: {L3: {'0': zz}}}}", "rdt: {classes: {a: {L3: {b: ff}}}}",
    "rdt: {classes: {a: {MB: {'0': 0}}}}", "scheduling: {classes: {a: {hugepages: {3: 1}}}}",
    "rdt: {classes: {a: {MB: [50, 0]}}}", "rdt: {classes: {gold: {L3: 0xff}}}", "rdt: {classes: {gold: {L3: '0'}}}",
    "rdt: {classes: {gold: {L4: ff}}}", "rdt: {defaults: {qos: {best: gold}}}", "rdt: {classes: {a/b: {MB: 10}}}",
    "rdt: {classes: {a: {L3: '60%', exclusive: true}, b: {L3: '40%', exclusive: true}}}",
    "monitoring: {share: {intervals: 3}}", "blockio: {enabled: true, defaults: {qos: {BestEffort: b}}}",
    "blockio: {enabled: true, classes: {a: [{weight: 5}]}, defaults: {qos: {BestEffort: b}}}",
    "classes:\n- name: a\n  memtierdconfig: |\n    policy: {name: 2024-99-99}\n",
    "monitoring: {capacity: {a: 5GB/s}}", "scheduling: {classes: {a: {policy: rr}}}",
    "scheduling: {classes: {a: {priority: 1}}}", "scheduling: {classes: {a: {cpuIdle: true, cpuWeight: 1}}}",
    "scheduling: {classes: {a: {ioPriority: 1}}}", "blockio: {classes: {a: [{throttleReadBps: 1}]}}",
    "blockio: {classes: {a: [{devices: [sda]}]}}", "blockio: {classes: {a: [{devices: ['/dev/sd[']}]}}",
    "scheduling: {classes: {a: {memoryLow: '010'}}}", "scheduling: {classes: {a: {cpuMax: '50%'}}}",
    "blockio: {classes: {a: [{devices: [/dev/sda], throttleReadBps: 1.5X}]}}",
    "memory: {allowLimits: {'*': [memory.max]}}", "deadlineSeconds: .inf",
    "classes:\n- {name: a}\n- {name: b}\n- name: a\n", "classes: [{Name: a, name: b}]",
    TEMPLATE + "      path: $CGROUP2_ABS_PAHT\n", TEMPLATE + "      run: $PATH\n",
    TEMPLATE + "      p: ${CGROUP2_ABS_PATH}\n", TEMPLATE + "     x: $CGROUP2_ABS_PATH\n",
    TEMPLATE + "      config: '[$CGROUP2_ABS_PATH'\n", TEMPLATE + "      config: 'a: 2024-99-99'\n",
    "classes: [{name: a, memtierdconfig: text}]", "rdt:\n  classes:\n    a: {MB: 50, MB_MIN: 5}\n", "- a",
    "log: {target: none, target: file}", "log: &x\n  file: *x", "a: 1\n---\nb: 2\n", "\ta: 1", "a: [1",
    "log: !!python/object:os.system {}", "a: !!binary aGVsbG8=", "\n\na: \x01", "namespaces: [a]\nNamespaces: [b]\n",
    "namespaces: [shop, null]", "labelSelector: {app: }",
    "blockio: {classes: {slow: [{devices: [null], weight: 5}]}}", "namespaces: [a]\nclasses: {gold: []}\n",
    "rdt: {enabled: true}\nkind: x\n", "rdt: {}\nclasses: {gold: {}}\n", "image: x\n",
    "deadlineSeconds: !!bool maybe", 'deadlineSeconds: !!int ""', "deadlineSeconds: !!int '-'",
    'deadlineSeconds: !!float ""', f"groupPrefix: {'p' * 192}", "namespaces: '" + "x" * 58 + "'",
    "namespaces: '" + "x" * 59 + "'",
    *FOREIGN.values(),
]  # fmt: skip
"""Beside those of a wrong kind or beyond a bound, which `test_keys` has for each key."""
REMARKED = [
    "classes: [{name: a}]", "classes: [{name: a}]\nmemory: {allowLimits: {}, allow: {x: [b, a]}}",
    "memtierd: {allow: {x: [b]}}", "memtierd: {failurePolicy: ignore}",
    "monitoring: {priority: [{value: 1}, {value: 2}]}",
    "monitoring: {priority: [{qos: Guaranteed, value: 5}], reserve: {rmids: 1, above: 5}}",
    "monitoring: {share: {interval: 60s}}", "monitoring: {share: {interval: 2s}}", "rdt: {classes: {a: {MB: 50}}}",
    "rdt: {enabled: true, classes: {bronze: {MB: 50}}, defaults: {qos: {BestEffort: bronz}}}",
    "rdt: {enabled: true, classes: {bronze: {MB: 50}}, allow: {x: [bronz, /, 'b*']}}",
    "blockio: {enabled: true, classes: {slow: [{weight: 10}]}, allow: {x: [slwo]}}",
    "scheduling: {enabled: true, classes: {a: {nice: 1}}, allow: {x: [b, '*']}}",
    "scheduling: {enabled: true, classes: {a: {hugepages: {3MB: 1G, 2MB: 1G}}}}", "stateDir: /home/x",
    "stateDir: /var/tmp/x", "telemetry: {prometheus: {port: 1}}", "unifiedAnnotations: [memory.high, cpu.max]",
    "log: {target: file}", "classes: [{name: a}]\nmemory: {allowLimits: {}}\nmemtierd: {allow: {x: [b]}}",
    TEMPLATE + "      swapoutms: 1\n  allowswap: false\nmemory: {allowLimits: {}}",
]  # fmt: skip


@pytest.mark.parametrize("texts", [REFUSED, REMARKED], ids=["refused", "remarked"])
def test_each_problem_has_line_and_remedy(golden: Golden, texts: list[str]) -> None:
    for text in texts:
        found = check(text)
        assert found.problems
        assert (found.config is None) == bool(found.errors) == (texts is REFUSED)
        assert all(one.line for one in found.errors)
    golden("\n".join(f"{text.rstrip()}\n    => " + "\n    => ".join(problems(text)) for text in texts))
    (problem,) = check_module.check_text(b"a: 1\nb: \xff\n", "c.yaml").problems
    assert str(problem) == "c.yaml:2: the file is not UTF-8; save it as UTF-8"


def test_meaningful_values_have_no_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (
        *("", "# nothing\n", "{}", "classes:\nmonitoring:\nnamespaces:\n", "monitoring: {share: {}}"),
        *("classes: [{name: a}]\nmemory: {allowLimits: {}}", "classes: [{name: a}]\nmemory: {failurePolicy: ignore}"),
        *("memory: {allow: {x: [b]}}", "memory: {allowLimits: {x: ['memory.*']}}", "stateDir: /homes"),
        "monitoring: {priority: [{namespaces: [a], value: 3}, {qos: Burstable, value: 2}, {labels: {a: b}, value: 1}]}",
        *("monitoring: {share: {interval: 90s}}", "rdt: {failurePolicy: fail}"),
        "rdt: {enabled: true, allow: {x: [gold]}, defaults: {qos: {BestEffort: bronze}}}",
        "log: &x {level: debug}\nmonitoring:\n  share: {interval: 90s}\n",
    ):
        assert problems(text) == [], text
    monkeypatch.setattr(check_module, "FEATURES", ())
    assert check("namespaces: [a]").problems == []
    (warning,) = check("monitoring: {enabled: true}").problems
    assert (warning.severity, warning.key) == ("warning", "monitoring"), "a section without effect"


def test_other_spelling_means_the_same() -> None:
    for text, same in (
        *((f"runtimeRoots: {one}", "runtimeRoots: {all: [/run/runc]}") for one in ("/run/runc", "[/run/runc/]")),
        ("runtimeRoots: {runc: /run/runc}", "runtimeRoots: {runc: [/run/runc/]}"),
        ("log: &x {level: debug}\ntelemetry:\n  <<: *x\n", "log: {level: debug}"),
        ("classes: [{Name: a, allowSwap: true, MemtierdConfig: 'policy: {}'}]",
         "classes: [{name: a, allowswap: true, memtierdconfig: 'policy: {}'}]"),
        ("ResctrlPath: /r\nNamespaces: [shop]\nlabelselector: {app: web}\n",
         "resctrlPath: /r\nnamespaces: [shop]\nlabelSelector: {app: web}\n"),
        ("blockio: {classes: {nolimit: }}", "blockio: {classes: {nolimit: []}}"),
        ("blockio:\n  Classes:\n    nolimit:\n", "blockio: {classes: {nolimit: []}}"),
        ("blockio: {classes: {nolimit: [null, {weight: 50}]}}", "blockio: {classes: {nolimit: [{}, {weight: 50}]}}"),
        ("blockio: {allow: {shop: }}", "blockio: {allow: {shop: []}}"),
        ("rdt: {classes: {gold: }}", "rdt: {classes: {gold: {}}}"),
        ("rdt: {allow: {'*': ~}, defaults: {qos: }}", "rdt: {allow: {'*': []}, defaults: {}}"),
        ("scheduling: {classes: {background: }}", "scheduling: {classes: {background: {}}}"),
        ("memory: {allowLimits: {shop: }}", "memory: {allowLimits: {shop: []}}"),
        ("monitoring:\nlog:\n", "{}"),
    ):  # fmt: skip
        assert_like(text, same)


def test_defaults_equal_those_of_node_half() -> None:
    values = explicit_values_of(Configuration())
    assert set(values) == {*DEFAULTS, *KEYS, *FEATURES}
    nothing: tuple[Any, ...] = (None, "", [], {}, {"namespaces": {}, "qos": {}})
    for name, row in FEATURES.items():
        assert {key: values[name][key] for key in row.defaults} == json.loads(json.dumps(row.defaults)), name
        without = set(values[name]) - set(row.defaults) - {"failurePolicy"}
        assert [key for key in without if values[name][key] not in nothing] == [], name
    for name, default in (*DEFAULTS.items(), *KEYS.items()):
        assert isinstance(default, dict) or values[name] == default, name


@pytest.mark.parametrize("levels, deep", [(60, False), (61, True), (1500, True)])
def test_nesting_and_the_expansion_of_aliases_have_bounds(levels: int, *, deep: bool) -> None:
    found = check("\na: " + "[" * levels + "]" * levels).errors
    assert len([one for one in found if one.what == "nested too deeply"]) == deep
    assert levels > 61 or found[0].line == 2
    text = f"a: &a {'x' * 100_000}\nb: &b [*a, *a, *a]\n"
    assert parse_document(f"{text}c: [*b, *b]\n".encode(), "c.yaml").value["c"][1][2] == "x" * 100_000
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    for many, line in ((f"{text}c: [*b, *b, *b]\n", 2), ("\n".join(lines), 0)):
        (problem,) = check(many).errors
        assert (problem.what, problem.line) == ("its aliases expand to too much data", line or problem.line)


def test_schema_is_valid_and_agrees_with_models() -> None:
    schema = json.loads(CliRunner().invoke(main, ["config", "schema"]).stdout)
    assert schema == json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert refusal(explicit_values_of(Configuration()), schema) == ""
    wrongs: tuple[Any, ...] = ({"zzz": 1}, {"monitoring": {"release": "x"}}, {"classes": [{}]}, {"resctrlPath": "x"})
    assert [wrong for wrong in wrongs if not refusal(wrong, schema)] == []
    texts = [field for field in schema["properties"].values() if "description" not in field and "$ref" not in field]
    assert texts == []
    assert Shown.model_json_schema()["properties"]["settings"]["properties"].keys() == schema["properties"].keys()


@pytest.mark.parametrize("plugin", ["resctrl-mon", "memtierd", "memory-qos"])
def test_file_of_an_nri_plugin_is_valid(plugin: str) -> None:
    path = FIXTURES / f"nri-{plugin}.yaml"
    checked, read = check_file(str(path)), yaml.safe_load(path.read_text())
    assert checked.errors == []
    given = checked.valid().model_dump(by_alias=True, exclude_unset=True)
    assert {key.lower() for key in read} == {key.lower() for key in given}
    notes = [(note.key, note.what) for note in checked.remarks if note.severity == "note"]
    if plugin == "memory-qos":
        assert notes == [("unifiedannotations", "this is read as unifiedAnnotations")]
        assert [one.swaplimitratio for one in checked.valid().classes] == [0.5, 0.25]
    else:
        assert refusal(read, json_schema()) == ""


def test_compiled_configuration_has_a_largest_size() -> None:
    """Beside 200 bytes of metadata; é is six characters in it."""
    rest = len(json.dumps({"namespaces": ["\n"]}, separators=(",", ":")))
    largest = check_module.LARGEST - 200 - rest - 6
    for size, refused in ((largest, []), (largest + 1, ["the compiled configuration is larger than 1048576 bytes"])):
        found = check(f"namespaces: [é{'x' * size}]").errors
        assert [problem.what.partition(",")[0] for problem in found] == refused


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(
    "mode, of_folder, users, told",
    [
        (0o644, 0o755, (0, 0), []),
        (0o644, 0o1777, (0, 0), []),
        (0o664, 0o755, (0, 0), ["is writable by users other than its owner (mode 0664)"]),
        (0o646, 0o755, (0, 0), ["is writable by users other than its owner (mode 0646)"]),
        (0o644, 0o777, (0, 0), ["its directory is writable by users other than its owner (mode 0777)"]),
        (0o1666, 0o775, (0, 0), ["is writable by users other than its owner (mode 1666)",
                                 "its directory is writable by users other than its owner (mode 0775)"]),
        (None, 0o757, (0, 0), ["its directory is writable by users other than its owner (mode 0757)"]),
        (0o644, 0o755, (4321, 4321), []),
        (0o644, 0o755, (1234, 4321), ["belongs to user 1234"]),
        (0o644, 0o755, (0, 1234), ["its directory belongs to user 1234"]),
    ],
)  # fmt: skip
def test_file_that_another_user_than_root_and_the_caller_can_change_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int | None, of_folder: int, users: Any, told: list[str]
) -> None:
    path = tmp_path / "config.yaml"
    if mode is not None:
        path.touch()
        os.chown(path, users[0], users[0])
        path.chmod(mode)
    os.chown(tmp_path, users[1], users[1])
    tmp_path.chmod(of_folder)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    found = trust_problems(str(path))
    assert [problem.what.partition(",")[0] for problem in found] == told
    assert {(problem.file, problem.severity) for problem in found} <= {(str(path), "warning")}


def test_lines_of_values_count_from_1_and_problems_are_in_their_order() -> None:
    found = parse_document(b"a: 1\nb:\n- x\n- y: |\n    one\n    two\n", "c.yaml")
    lines = {(): 1, ("a",): 1, ("b",): 2, ("b", 0): 3, ("b", 1): 4, ("b", 1, "y"): 4, ("b", 2): 2, ("c",): 1}
    assert {path: found.line(path) for path in lines} == lines
    assert (found.line(("b", 1, "y"), 2), found.line(("b", 0), 2)) == (6, 3)
    assert parse_document(b"", "c.yaml").line(("a",)) == 0
    text = "resctrlPath: x\nlog:\n  level: loud\nzzz: 1\nmonitoring: {enabled: 2}\n"
    assert [problem.line for problem in check(text).errors] == [1, 3, 4, 5]
