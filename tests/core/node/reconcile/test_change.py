"""The change that a running container needs, as a table."""

from types import SimpleNamespace
from typing import Any

import pytest

from resctrl_hooks.core.node.container.running import Running
from resctrl_hooks.core.node.container.runtimes import Found
from resctrl_hooks.core.node.feature import Step
from resctrl_hooks.core.node.reconcile.change import Change, planned_change

GROUP: Any = {"feature": "monitoring", "action": "join", "needs": {"class": ""}}
CLASS, MEMORY = ("rdt", "class"), ("memory", "set")
PLACEMENT: Any = {"feature": "placement", "action": "place", "needs": {}}


def planned(
    missing: tuple[tuple[str, str], ...] = (),
    stray: int = 0,
    *,
    steps: tuple[Any, ...] = (GROUP,),
    recorded: bool = True,
    can_join: bool = True,
    waits: bool = False,
) -> Change:
    container = Running("k", Found("c" * 64, 7, 1000, ""), {"steps": list(steps)}, recorded=recorded)
    found: Any = [(SimpleNamespace(name=name), Step(name, action, {}, "")) for name, action in missing]
    return planned_change(container, found, stray, can_join=can_join, waits=waits)


@pytest.mark.parametrize(
    "given, joins",
    [
        ({}, False),
        ({"stray": 1}, True),
        ({"waits": True}, True),
        ({"recorded": False}, True),
        ({"missing": (CLASS,)}, True),
        ({"missing": (MEMORY,)}, False),
        ({"stray": 1, "can_join": False}, False),
        ({"waits": True, "steps": ()}, False),
    ],
)
def test_container_joins_its_group_if_it_may_be_outside(given: Any, joins: bool) -> None:
    change = planned(**given)
    assert change.joins is joins
    assert change.is_empty is (not joins and "missing" not in given)


def test_class_comes_before_the_group_and_other_steps_after_it() -> None:
    change = planned((CLASS, MEMORY))
    assert ([one.name for one, _ in change.classes], [one.name for one, _ in change.others]) == (["rdt"], ["memory"])


@pytest.mark.parametrize(
    "recorded, steps, late", [(False, (GROUP,), True), (False, (), False), (True, (GROUP,), False)]
)
def test_only_a_container_with_steps_is_recorded(recorded: bool, steps: Any, late: bool) -> None:
    assert planned(recorded=recorded, steps=steps).late is late


@pytest.mark.houses("placement")
def test_new_record_with_a_step_of_the_node_counts_as_placed() -> None:
    assert planned(recorded=False, steps=(GROUP, PLACEMENT)).placed == ["c" * 64]
    assert planned(steps=(GROUP, PLACEMENT)).placed == []


def test_changed_record_and_unlogged_reason_are_work() -> None:
    change = planned()
    change.container.set("unplanned", ["memory"])
    assert not change.is_empty
    change = planned()
    change.container.unlogged.add("memory")
    assert not change.is_empty
