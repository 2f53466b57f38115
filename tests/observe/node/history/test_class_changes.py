"""Changes of the classes' schemata between two samples."""

import pytest

from resctrl_hooks.observe.node.history.class_changes import changes

FULL = "MB:0=100;1=100\nL3:0=fff;1=fff\nL2:4=ff"


@pytest.mark.parametrize(
    "before, now, found",
    [
        ({"": FULL}, {"": FULL}, []),
        ({"": FULL}, {"": FULL.replace("1=fff", "1=00f")}, [("", "mon_L3_01", "class /: L3 fff to 00f")]),
        (
            {"b": FULL},
            {"b": "MB:0=30;1=100\nL3:0=00f;1=fff\nL2:4=ff"},
            [("b", "mon_L3_00", "class b: L3 fff to 00f, MB 100 to 30")],
        ),
        ({}, {"b": "MB:0=30"}, [("b", "mon_L3_00", "class b: MB none to 30")]),
        ({"b": "MB:0=30"}, {}, [("b", "mon_L3_00", "class b: MB 30 to none")]),
        ({"b": "L2:4=ff"}, {"b": "L2:4=0f"}, []),
        (
            {"b": "MB_MIN:1=0\nGMB:0=8"},
            {"b": "MB_MIN:1=5\nGMB:0=4"},
            [("b", "mon_GMB_00", "class b: GMB 8 to 4"), ("b", "mon_MB_MIN_01", "class b: MB_MIN 0 to 5")],
        ),
    ],
    ids=["nothing", "root class", "two resources", "created", "removed", "not an L3 domain", "not managed"],
)
def test_changes_have_class_domain_and_both_values(
    before: dict[str, str], now: dict[str, str], found: list[tuple[str, str, str]]
) -> None:
    assert list(changes(before, now)) == found


def test_limit_of_a_memory_is_in_the_domain_that_counts() -> None:
    assert list(changes({"b": "MB:10=100"}, {"b": "MB:10=30"}, "MB")) == [("b", "mon_MB_10", "class b: MB 100 to 30")]
