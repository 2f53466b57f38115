"""The houses' parts are found, and their values by name."""

from resctrl_hooks.core.parts import HOUSES, load, parts


def test_every_house_has_its_part() -> None:
    assert [part.name for part in parts()] == [*HOUSES]


def test_value_is_loaded_by_its_name() -> None:
    assert load("resctrl_hooks.core.parts:HOUSES") is HOUSES
