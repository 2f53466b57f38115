"""The state on stdin and the bundle: what is read, and that everything else is refused."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ID, Host, state
from hosts.hostile_inputs import STRANGE
from hypothesis import given
from hypothesis import strategies as st

from resctrl_hooks.core.node.container.annotation_yaml import parse_yaml
from resctrl_hooks.core.node.container.oci import LARGEST, STATE_LIMIT, Bundle, parse_state, read_bundle
from resctrl_hooks.core.node.errors import InputError
from resctrl_hooks.core.node.names import valid_container_id

STAGES = {"creating": "createRuntime", "created": "createRuntime", "running": "createRuntime", "stopped": "poststop"}


def parsed(**changes: Any) -> Any:
    return parse_state(json.dumps(state(**changes)).encode())


def test_state_is_parsed() -> None:
    found = parsed(bundle="/b/", annotations={"a": "b"}, unknown=1)
    assert (found.id, found.status, found.pid, found.bundle) == (ID, "created", 100, "/b")
    assert found.annotations == {"a": "b"}
    assert {status: parsed(status=status).stage for status in STAGES} == STAGES
    assert [parsed(status="stopped", pid=pid).pid for pid in (None, 0)] == [0, 0]


@given(st.sampled_from(("id", "status", "pid", "bundle", "annotations", "one annotation")), st.sampled_from(STRANGE))
def test_any_state_is_refused_or_valid(field: str, value: Any) -> None:
    changes = {"annotations": {"a": value}} if field == "one annotation" else {field: value}
    try:
        found = parsed(**changes)
    except InputError:
        return
    assert valid_container_id(found.id)
    assert found.status in STAGES
    assert type(found.pid) is int
    assert 0 <= found.pid < 1 << 31
    assert found.bundle[:1] in ("", "/")
    assert "/../" not in f"{found.bundle}/"
    assert "\0" not in found.bundle
    assert all(isinstance(one, str) for pair in found.annotations.items() for one in pair)


@pytest.mark.parametrize("change, words", [
    ({"id": None}, "no valid id"), ({"id": 7}, "'id' should be str, not int"), ({"id": "a" * 201}, "no valid id"),
    ({"status": "paused"}, "an unexpected status: 'paused'"), ({"status": None}, "unexpected status"),
    ({"pid": -1}, "no valid pid: -1"), ({"pid": 1 << 31}, "no valid pid"), ({"pid": True}, "no valid pid"),
    ({"pid": 1.0}, "'pid' should be int, not float"), ({"bundle": "/a/.."}, "not an absolute path"),
    ({"bundle": ["/a"]}, "'bundle' should be str"), ({"annotations": []}, "annotations should be an object of strings"),
    ({"annotations": {"a": None}}, "annotations should be an object of strings"),
])  # fmt: skip
def test_invalid_state_is_refused_with_reason(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parsed(**change)


def test_other_input_than_state_is_refused() -> None:
    for data in (b"", b"null", b"[]", b'"x"', b"{", b"\xff\xfe", b"7"):
        with pytest.raises(InputError, match="the container state on stdin is not"):
            parse_state(data)


def test_bundle_is_parsed(host: Host) -> None:
    config = {
        "annotations": {"a": "b"},
        "linux": {"intelRdt": {"closID": "/gold"}, "cgroupsPath": "/x", "resources": {"cpu": {"shares": 2}}},
    }
    found = read_bundle(host.bundle(config))
    assert (found.class_name, found.cgroups_path, found.monitored) == ("gold", "/x", False)
    assert found.annotations == {"a": "b"}
    assert found.resources == {"cpu": {"shares": 2}}
    reads: list[Any] = [{"cpu": {}}]
    late = Bundle({"linux": {"resources": reads.pop}})
    assert late.resources == late.resources == {"cpu": {}}, "they are read once, when they are needed"


def test_bundle_without_linux_section_is_accepted_and_one_of_wrong_types_refused(host: Host) -> None:
    for config in ({}, {"linux": None}, {"linux": {"intelRdt": None}}, {"annotations": None}):
        found = Bundle(config)
        assert (found.class_name, found.cgroups_path, found.monitored, found.annotations) == ("", "", False, {})
    linux: list[Any] = [[], {"intelRdt": "gold"}, {"intelRdt": {"closID": 1}}, {"cgroupsPath": 1}, {"resources": []}]
    wrong: list[Any] = [[], 7, *({"linux": one} for one in linux), {"annotations": {"a": {}}}]
    for config in wrong:
        with pytest.raises(InputError):
            read_bundle(host.bundle(config))


def test_unreadable_bundle_is_refused(host: Host) -> None:
    path = host.root / "b"
    path.mkdir()
    file = path / "config.json"
    for make, words in (
        (lambda: None, r"cannot read .*: No such file.* \(ENOENT\)"),
        (lambda: file.symlink_to("/etc/hostname"), "ELOOP"),
        (lambda: os.mkfifo(file), "not a regular file"),
        (lambda: file.write_text("{"), "is not JSON"),
    ):
        make()
        with pytest.raises(InputError, match=words):
            read_bundle(str(path))
        file.unlink(missing_ok=True)
    with pytest.raises(InputError, match="has no bundle"):
        read_bundle("")


@pytest.mark.ci
def test_input_of_maximum_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}".ljust(LARGEST))
    assert read_bundle(str(tmp_path)).annotations == {}
    (tmp_path / "config.json").write_text("{}".ljust(LARGEST + 1))
    with pytest.raises(InputError, match="larger than"):
        read_bundle(str(tmp_path))
    pod, variables = 3 << 19, 6 << 20
    assert 16 * pod + 6 * variables < LARGEST == STATE_LIMIT, "with `<` for each character, as Go's JSON escapes it"


@pytest.mark.parametrize("process, found", [
    ({}, {}), ({"scheduler": {}, "ioPriority": {}}, {}),
    ({"scheduler": {"policy": "SCHED_BATCH", "nice": 5}}, {"policy": "batch", "nice": 5}),
    ({"scheduler": {"policy": "SCHED_NEW", "priority": "x"}}, {"policy": "SCHED_NEW"}),
    ({"ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 6}}, {"ioClass": "best-effort", "ioPriority": 6}),
    ({"ioPriority": {"class": "IOPRIO_CLASS_IDLE"}}, {"ioClass": "idle", "ioPriority": 0}),
    ({"ioPriority": {"class": "NEW", "priority": None}}, {"ioClass": "NEW", "ioPriority": 0}),
])  # fmt: skip
def test_scheduler_of_the_specification_is_in_words_of_a_class(process: Any, found: Any) -> None:
    assert Bundle({"process": process}).scheduled == found


# Annotations in YAML

FULL = """
---
peter:   # a comment
- match:
    key: name
    operator: Equals
    values:
    - sheep
    - "a # b"
  weight: five
-
  scope: {key: "pod/labels/app", operator: In, values: [web, 'x, y']}
  match:
      key: :pod/qosclass:pod/name
      operator: AlwaysTrue
'wolf': []
empty: {}
list:
  - - a
    - b
  - c
"""
TEXTS = st.sampled_from(("a", "web", "x y", "a.b/c", "pod/labels/app", ":id:name", "a-b"))
VALUES = st.recursive(TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))


def block(value: Any, indent: int) -> str:
    """Return a value in YAML's block style; empty collections and texts are in flow style."""
    space = "\n" + " " * indent
    if isinstance(value, dict) and value:
        return "".join(f'{space}"{key}":{block(one, indent + 2)}' for key, one in value.items())
    if isinstance(value, list) and value:
        return "".join(f"{space}-{block(one, indent + 2)}" for one in value)
    return f" {json.dumps(value)}"


@given(VALUES)
def test_any_nested_value_is_read_in_either_style(value: Any) -> None:
    assert parse_yaml(json.dumps(value)) == parse_yaml(block(value, 0)) == value


def test_supported_yaml_is_read_as_by_pyyaml() -> None:
    for text in (FULL, "container3: [ container1 ]\n", "a: [b, [c, d], {e: f}]", "- a\n- b: c\n  d: e", "x"):
        assert parse_yaml(text) == yaml.safe_load(text)


@given(st.integers(1000, 1050), st.integers(14, 20))
def test_number_and_depth_of_values_are_bounded(number: int, depth: int) -> None:
    for text, accepted in (
        (f"[{'a,' * number}]", number < 1023),
        ("- a\n" * (number // 2), number < 1024),
        ("[" * depth + "]" * depth, depth <= 17),
        ("- " * depth + "a", depth <= 16),
    ):
        if accepted:
            assert parse_yaml(text)
        else:
            with pytest.raises(ValueError, match=r"more than 1024 values|nested too deeply"):
                parse_yaml(text)


def test_other_yaml_is_refused_and_an_empty_text_is_none() -> None:
    for text in ("a: &x b", "a: *x", "a: |\n  text", "a: [b", "a: [b] c", "a: b\na: c", "a: {b}", "a: 'b",
                 "a:\n    b: c\n  d: e", "a: b\n- c", "[" * 100, "- " * 100 + "a", "a" * 100_000):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            parse_yaml(text)
    assert [parse_yaml(text) for text in ("", "# nothing", "---")] == [None] * 3
