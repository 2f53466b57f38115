"""The section of placement in the settings of a node."""

from resctrl_hooks.core.node.feature_table import FEATURES
from resctrl_hooks.core.node.settings import Settings


def test_empty_value_is_replaced_by_default() -> None:
    settings = Settings({"placement": {"policy": "", "kubeletPath": "", "pinMemory": False}})
    assert settings.sections["placement"] == {**FEATURES["placement"].defaults, "pinMemory": False}
