"""Keys and items without a value: the empty section, class or list, in every section of the configuration."""

import pytest

from core.config.judged import assert_like
from resctrl_hooks.core.config.check import check_text


@pytest.mark.parametrize(
    "text, same",
    [
        ("blockio: {classes: {nolimit: }}", "blockio: {classes: {nolimit: []}}"),
        ("blockio:\n  Classes:\n    nolimit:\n", "blockio: {classes: {nolimit: []}}"),
        ("blockio: {classes: {nolimit: [null, {weight: 50}]}}", "blockio: {classes: {nolimit: [{}, {weight: 50}]}}"),
        ("blockio: {allow: {shop: }}", "blockio: {allow: {shop: []}}"),
        ("rdt: {classes: {gold: }}", "rdt: {classes: {gold: {}}}"),
        ("rdt: {allow: {'*': ~}, defaults: {qos: }}", "rdt: {allow: {'*': []}, defaults: {}}"),
        ("scheduling: {classes: {background: }}", "scheduling: {classes: {background: {}}}"),
        ("memory: {allowLimits: {shop: }}", "memory: {allowLimits: {shop: []}}"),
        ("monitoring:\nlog:\n", "{}"),
    ],
)
def test_null_is_the_empty_section_class_or_list(text: str, same: str) -> None:
    assert_like(text, same)


@pytest.mark.parametrize(
    "text, at",
    [
        ("namespaces: [shop, null]", "namespaces[1]"),
        ("labelSelector: {app: }", "labelSelector.app"),
        ("blockio: {classes: {slow: [{devices: [null], weight: 5}]}}", "blockio.classes.slow[0].devices[0]"),
    ],
)
def test_null_without_an_empty_value_is_an_error_at_its_place(text: str, at: str) -> None:
    (error,) = check_text(text.encode(), "config.yaml").errors
    assert error.key == at
