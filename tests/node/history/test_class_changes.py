"""Changes of the classes' schemata between two samples."""

import pytest

from resctrl_hooks.node.history.class_changes import changes

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
    ],
    ids=["nothing", "root class", "two resources", "created", "removed", "not an L3 domain"],
)
def test_changes_have_class_domain_and_both_values(
    before: dict[str, str], now: dict[str, str], found: list[tuple[str, str, str]]
) -> None:
    assert list(changes(before, now)) == found
