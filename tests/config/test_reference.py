"""docs/configuration-reference.md describes all settings."""

from pathlib import Path

import pytest
import yaml
from project.test_generated import GENERATOR

from resctrl_hooks.config.check import check_text
from resctrl_hooks.config.root import Configuration
from resctrl_hooks.node.feature_table import FEATURES
from resctrl_hooks.node.settings import DEFAULTS

PAGE = Path(__file__).parents[2] / "docs" / "configuration-reference.md"
TEXT: str = GENERATOR.in_page(PAGE.read_text(encoding="utf-8"))


def test_every_setting_is_on_the_page() -> None:
    for name in (*DEFAULTS, *FEATURES):
        assert f"`{name}`" in TEXT
    assert TEXT.count("| `enabled` |") >= 1
    assert '| `release` | `pod`, `last-container` | `"pod"` |' in TEXT
    assert "| `name` | text | required |" in TEXT


def test_every_setting_has_a_description() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.endswith("|  |")] == []
    assert Configuration.__doc__


def test_example_on_page_is_valid() -> None:
    example = (PAGE.parent / "configuration.md").read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    checked = check_text(example.encode(), "example")
    assert checked.problems == []
    assert yaml.safe_load(example)["namespaces"] == ["shop", "team-*"]


def test_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no part between"):
        GENERATOR.in_page("# nothing")
