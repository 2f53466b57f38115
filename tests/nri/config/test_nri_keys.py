"""Keys of the NRI plugin: accepted and refused values, with their messages."""

# ruff: noqa: E501  # a case and the line that the operator reads for it stand on one line

import pytest
from conftest import FIXTURES
from core.config.judged import assert_accepted_also_as_compiled, cases, check, compiled, problems
from golden import Golden

from resctrl_hooks.core.config.check import check_file

VALUES = [
    ('classes: [{name: a, env: {"%s": x}}]', "A | a.b | a-b", "A=B |  | A\\tB"),
    ('classes: [{name: a, env: {A: "%s"}}]', "x | ", "x\\0y"),
    ("classes: [{name: a, devices: [{path: %s}]}]", "/dev/null", "/tmp/x | /devx"),
    ("classes: [{name: a, mounts: [{source: /a, destination: /b, options: [%s]}]}]", "bind | rbind | rbind, rw", "ro | '' | x"),
    ("classes: [{name: a, policy: {%s: MPOL_BIND}}]", "mode", "mod: x, mode"),
    ("classes: [{name: a, policy: {mode: MPOL_BIND, nodes: '%s'}}]", "0-1 | all | allowed-mems | max-dist:20 | cpu-nodes", "some | max-dist: | max-dist:x"),
    ("classes: [{name: a, policy: {mode: MPOL_BIND, nodes: %s}}]", "4 | 0 | '4'", "-4 | true | 4.5 | [4]"),
]  # fmt: skip


@pytest.mark.parametrize("text", cases(VALUES, 1))
def test_value_is_accepted_also_as_compiled(text: str) -> None:
    assert_accepted_also_as_compiled(text)


def test_refused_value_is_named_with_line_and_remedy(golden: Golden) -> None:
    refused = cases(VALUES, 2)
    assert [text for text in refused if not check(text).errors or check(text).config] == []
    golden("\n".join("; ".join(problems(text)) for text in refused))


def test_environment_of_a_class_is_compiled() -> None:
    assert compiled("classes: [{name: a, env: {A: x}}]", ("classes", 0, "env")) == {"A": "x"}


def test_memory_policy_file_is_valid_and_says_who_sets_policies() -> None:
    found = check_file(str(FIXTURES / "nri-memory-policy.yaml"))
    assert found.errors == []
    notes = {note.key: note.what for note in found.remarks if note.severity == "note"}
    assert sorted(notes) == ["classes[0].policy", "injectMpolset"]
    assert "only the NRI plugin can set a memory policy, with a runtime that has NRI 0.12" in notes["classes[0].policy"]
