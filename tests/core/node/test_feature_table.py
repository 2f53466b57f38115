"""Default features and permissions."""

from typing import Any, cast

import pytest

from resctrl_hooks.core.node.feature import SKIP, Feature, Step
from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.registry import feature_named


@pytest.mark.houses("placement")
def test_only_monitoring_is_on_by_default() -> None:
    on = {name: row.defaults["enabled"] for name, row in FEATURES.items() if "enabled" in row.defaults}
    assert on == {"rdt": False, "monitoring": True, "placement": False, "blockio": False, "scheduling": False}


def test_only_memory_classes_are_unrestricted_by_default() -> None:
    allowed = {name: row.defaults["allow"] for name, row in FEATURES.items() if "allow" in row.defaults}
    assert allowed == {"memory": {"*": ["*"]}, "memtierd": {"*": ["*"]}}


@pytest.mark.houses("placement")
def test_foreign_group_is_not_claimed_by_default() -> None:
    assert FEATURES["monitoring"].defaults["takeOver"] is False
    assert FEATURES["placement"].defaults["pinMemory"] is True
    assert FEATURES["placement"].defaults["preferIsolCpus"] is False


def test_features_that_leave_things_behind_are_the_ones_that_revert_steps() -> None:
    for name, row in FEATURES.items():
        feature = feature_named(name)
        assert feature is not None
        assert row.reverts == (type(feature).revert is not Feature.revert), name


def test_feature_without_more_has_nothing_to_adopt_repair_or_show() -> None:
    feature, nothing = Feature(), cast("Any", None)
    step = Step("x", SKIP, {}, "")
    assert feature.values(step) == []
    assert feature.properties(step, nothing, nothing) == {}
    assert feature.preview(step, nothing, nothing) is step
    assert feature.lost(step, nothing, nothing) == ""
    assert feature.adopt(nothing, [], dry_run=False) == ([], {})
    assert feature.orphans(nothing) == []
    assert feature.repair(nothing, set()) == 0
