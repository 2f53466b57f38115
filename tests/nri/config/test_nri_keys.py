"""Keys of the NRI plugin: accepted and refused values, with their messages."""

# ruff: noqa: E501  # a case and the line that the operator reads for it stand on one line

from typing import Any

import pytest
from conftest import FIXTURES
from core.config.judged import assert_accepted_also_as_compiled, assert_refused, cases, check, compiled

from resctrl_hooks.core.config.check import check_file

REFUSED = [
    ("classes: [{name: a, mounts: [{source: /a, destination: /b, options: [ro]}]}]", "c.yaml:1: classes[0].mounts[0].options: options without bind or rbind have no effect; begin them with rbind"),
    ("classes: [{name: a, policy: {mod: x, mode: MPOL_BIND}}]", 'c.yaml:1: classes[0].policy.mod: unknown key; did you mean "mode"?'),
]  # fmt: skip

COMPILED = [
    ("classes: [{name: a, env: {A: x}}]", ("classes", 0, "env"), {"A": "x"}),
]  # fmt: skip

VALUES = [
    ('classes: [{name: a, env: {"%s": x}}]', "A | a.b | a-b", "A=B |  | A\\tB"),
    ('classes: [{name: a, env: {A: "%s"}}]', "x | ", "x\\0y"),
    ("classes: [{name: a, devices: [{path: %s}]}]", "/dev/null", "/tmp/x | /devx"),
    ("classes: [{name: a, mounts: [{source: /a, destination: /b, options: [%s]}]}]", "bind | rbind | rbind, rw", "ro | '' | x"),
    ("classes: [{name: a, policy: {mode: MPOL_BIND, nodes: '%s'}}]", "0-1 | all | allowed-mems | max-dist:20 | cpu-nodes", "some | max-dist: | max-dist:x"),
    ("classes: [{name: a, policy: {mode: MPOL_BIND, nodes: %s}}]", "4 | 0 | '4'", "-4 | true | 4.5 | [4]"),
]  # fmt: skip


@pytest.mark.parametrize("text, line", REFUSED)
def test_each_problem_has_line_and_remedy(text: str, line: str) -> None:
    assert_refused(text, line)


@pytest.mark.parametrize("text", cases(VALUES, 1))
def test_value_is_accepted_also_as_compiled(text: str) -> None:
    assert_accepted_also_as_compiled(text)


@pytest.mark.parametrize("text", cases(VALUES, 2))
def test_value_is_refused(text: str) -> None:
    assert check(text).errors != []


@pytest.mark.parametrize("text, path, value", COMPILED)
def test_value_is_compiled(text: str, path: tuple[str | int, ...], value: Any) -> None:
    assert compiled(text, path) == value


def test_memory_policy_file_is_valid_and_says_who_sets_policies() -> None:
    found = check_file(str(FIXTURES / "nri-memory-policy.yaml"))
    assert found.errors == []
    notes = {note.key: note.what for note in found.remarks if note.severity == "note"}
    assert sorted(notes) == ["classes[0].policy", "injectMpolset"]
    assert "only the NRI plugin can set a memory policy, with a runtime that has NRI 0.12" in notes["classes[0].policy"]
