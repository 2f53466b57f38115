"""Label selectors: what each form chooses, and what is none."""

import pytest

from resctrl_hooks.inventory.selector import Selector

LABELS = {"app": "web", "app.kubernetes.io/tier": "front", "empty": ""}


@pytest.mark.parametrize(
    "text,chosen",
    [
        ("app=web", True),
        ("app == web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("other!=web", True),
        ("app in (db, web)", True),
        ("app in (db)", False),
        ("app notin (db,cache)", True),
        ("other notin (db)", True),
        ("app", True),
        ("other", False),
        ("!other", True),
        ("! app", False),
        ("app.kubernetes.io/tier=front,app in (web,db),!debug", True),
        ("app=web,debug", False),
        ("empty=", True),
    ],
)
def test_what_a_selector_chooses(text: str, chosen: bool) -> None:
    assert Selector(text).matches(LABELS) is chosen


@pytest.mark.parametrize("text", ["", "=web", "app in web", "app in (a", "a=b,,c=d", "app<3", "a b"])
def test_what_is_no_selector(text: str) -> None:
    with pytest.raises(ValueError, match="is no requirement"):
        Selector(text)
