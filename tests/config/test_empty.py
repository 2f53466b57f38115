"""Keys and items without a value: the empty section, class or list, in every section of the configuration."""

import pytest

from resctrl_hooks.config.check import check_text


@pytest.mark.parametrize(
    "text, same",
    [
        ("blockio: {classes: {nolimit: }}", "blockio: {classes: {nolimit: []}}"),
        ("blockio:\n  Classes:\n    nolimit:\n", "blockio: {classes: {nolimit: []}}"),
        ("blockio: {classes: {nolimit: [null, {weight: 50}]}}", "blockio: {classes: {nolimit: [{}, {weight: 50}]}}"),
        ("blockio: {allow: {shop: }}", "blockio: {allow: {shop: []}}"),
        ("rdt: {classes: {gold: }}", "rdt: {classes: {gold: {}}}"),
        (
            "rdt: {classes: {gold: }, guard: {protect: {gold: }}}",
            "rdt: {classes: {gold: {}}, guard: {protect: {gold: {}}}}",
        ),
        ("rdt: {allow: {'*': ~}, defaults: {qos: }}", "rdt: {allow: {'*': []}, defaults: {}}"),
        ("scheduling: {classes: {background: }}", "scheduling: {classes: {background: {}}}"),
        ("memory: {allowLimits: {shop: }}", "memory: {allowLimits: {shop: []}}"),
        ("placement: {allow: {shop: }, pools: }", "placement: {allow: {shop: []}}"),
        ("monitoring:\nslowdown:\nhistory:\nlog:\n", "{}"),
    ],
)
def test_null_is_the_empty_section_class_or_list(text: str, same: str) -> None:
    found, expected = (check_text(one.encode(), "config.yaml") for one in (text, same))
    assert expected.errors == []
    assert found.errors == []
    assert found.valid().given() == expected.valid().given()


@pytest.mark.parametrize(
    "text, at",
    [
        ("namespaces: [shop, null]", "namespaces[1]"),
        ("labelSelector: {app: }", "labelSelector.app"),
        ("rdt: {guard: {throttle: {bronze: }}}", "rdt.guard.throttle.bronze"),
        ("placement: {pools: [null]}", "placement.pools[0]"),
        ("blockio: {classes: {slow: [{devices: [null], weight: 5}]}}", "blockio.classes.slow[0].devices[0]"),
    ],
)
def test_null_without_an_empty_value_is_an_error_at_its_place(text: str, at: str) -> None:
    (error,) = check_text(text.encode(), "config.yaml").errors
    assert error.key == at
