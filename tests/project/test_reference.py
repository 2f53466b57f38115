"""docs/configuration-reference.md describes all settings."""

from pathlib import Path

import pytest
import yaml

from project.contributed import REFERENCE
from resctrl_hooks.core.config.check import check_text
from resctrl_hooks.core.config.root import Configuration
from resctrl_hooks.core.config.schema import json_schema
from resctrl_hooks.core.node.feature_table import FEATURES, KEYS
from resctrl_hooks.core.node.settings import DEFAULTS

HOUSES = ("observe", "placement", "nri", "openshift", "lab")
PAGE = Path(__file__).parents[2] / "docs" / "configuration-reference.md"
TEXT: str = REFERENCE.in_page(PAGE.read_text(encoding="utf-8"), REFERENCE.reference())


def test_every_setting_is_on_the_page() -> None:
    for name in (*DEFAULTS, *KEYS, *FEATURES):
        assert f"`{name}`" in TEXT
    assert '- `release` (`pod`/`last-container`, default `"pod"`): When' in TEXT
    assert "- `name` (text, required): " in TEXT


def test_every_key_of_every_section_is_on_the_page() -> None:
    keys = {key for section in json_schema()["$defs"].values() for key in section["properties"]}
    assert {"throttleReadBps", "floor", "cpuMax"} <= keys
    assert sorted(key for key in keys if f"`{key}`" not in TEXT) == []


def test_section_in_a_mapping_of_a_section_is_on_the_page() -> None:
    assert "### `classes` in `blockio`\n" in TEXT


def test_keys_of_an_earlier_section_are_named_once() -> None:
    section = TEXT.partition("### `blockio`\n")[2].partition("###")[0]
    assert section.endswith("- `failurePolicy`, `enabled`, `allow`, `defaults`: as in `rdt`.\n\n")
    assert TEXT.count("The class of containers that request none. `allow` does not apply to it.") == 1


def test_every_setting_has_a_description() -> None:
    items = [line for line in TEXT.replace("\n  ", " ").splitlines() if line.startswith("- `")]
    assert [item for item in items if item.endswith("):")] == []
    assert Configuration.__doc__


def test_example_on_page_is_valid() -> None:
    example = (PAGE.parent / "configuration.md").read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    checked = check_text(example.encode(), "example")
    assert checked.problems == []
    assert yaml.safe_load(example)["namespaces"] == ["shop", "team-*"]


def test_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no part between"):
        REFERENCE.in_page("# nothing", "")
