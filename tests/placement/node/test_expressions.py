"""Expressions about containers, and the pools that they select."""

import pytest

from resctrl_hooks.placement.node.expressions import holds

FACTS = {"name": "db", "namespace": "shop", "pod/name": "web-0", "pod/labels/app": "web", "pod/labels/empty": ""}


@pytest.mark.parametrize(
    "key, operator, values, result",
    [
        ("name", "Equals", ["db"], True),
        ("name", "Equals", ["*"], True),
        ("name", "Equals", ["d"], False),
        ("pod/labels/none", "Equals", ["*"], False),
        ("name", "NotEqual", ["db"], False),
        ("pod/labels/none", "NotEqual", ["x"], True),
        ("pod/labels/app", "In", ["api", "web"], True),
        ("/pod/labels/app", "In", ["api", "web"], True),
        ("pod/labels/app", "In", [], False),
        ("pod/labels/app", "NotIn", ["api"], True),
        ("pod/labels/none", "NotIn", ["api"], True),
        ("pod/labels/empty", "Exists", [], True),
        ("pod/labels/none", "Exists", [], False),
        ("pod/labels/none", "NotExist", [], True),
        ("", "AlwaysTrue", [], True),
        ("pod/name", "Matches", ["web-?"], True),
        ("pod/name", "MatchesNot", ["web-*"], False),
        ("pod/name", "MatchesAny", ["x", "w*"], True),
        ("pod/labels/none", "MatchesAny", ["*"], False),
        ("pod/name", "MatchesNone", ["x", "y*"], True),
        (":pod/name:name", "Equals", ["web-0:db"], True),
        (":,-pod/labels/none,name", "Equals", ["-db"], True),
        (":pod/labels/none:pod/labels/other", "Exists", [], False),
    ],
)
def test_operators_compare_as_in_the_plugins(key: str, operator: str, values: list[str], result: bool) -> None:
    assert holds({"key": key, "operator": operator, "values": values}, FACTS) is result
