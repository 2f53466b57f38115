"""The YAML of annotations, compared with PyYAML."""

import pytest
import yaml

from resctrl_hooks.core.node.container.annotation_yaml import parse_yaml

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


@pytest.mark.parametrize(
    "text",
    [FULL, "container3: [ container1 ]\n", "a: [b, [c, d], {e: f}]", '{"a": {"b": ["c"]}}', "- a\n- b: c\n  d: e", "x"],
)
def test_supported_yaml_is_read_as_by_pyyaml(text: str) -> None:
    assert parse_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x b",
        "a: *x",
        "a: |\n  text",
        "a: [b",
        "a: [b] c",
        "a: b\na: c",
        "a: {b}",
        "a: 'b",
        "a:\n    b: c\n  d: e",
        "a: b\n- c",
        "[" * 100,
        "- " * 100 + "a",
        "a" * 100_000,
    ],
)
def test_other_yaml_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_yaml(text)


@pytest.mark.parametrize("text", ["", "# nothing", "---"])
def test_empty_value_is_none(text: str) -> None:
    assert parse_yaml(text) is None
