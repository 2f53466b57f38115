"""Derived values of the report models."""

from typing import Any

import pytest

from resctrl_hooks.core.inventory.base import group_name
from resctrl_hooks.core.inventory.models import STATES, Container, Group, Pod, Rmids, State, meaning


def container(name: str = "", rdt_class: str | None = None, *, alive: bool = True, outside: int = 0) -> Container:
    return Container(id="c" * 64, name=name, alive=alive, rdt_class=rdt_class, outside=outside)


def group(rdt_class: str = "", tasks: int = 0) -> Group:
    return Group(rdt_class=rdt_class, name="g", path="/g", origin="created", tasks=tasks)


def pod(**values: Any) -> Pod:
    return Pod(**{"key": "3f0ac7f2-8a3b-4f0e-9a55-1d9d3b7e6c01", "state": "assigned", **values})


@pytest.mark.parametrize("state", STATES)
def test_meaning_promises_a_remedy_only_with_resctrl(state: State) -> None:
    text = STATES[state]
    assert meaning(state, resctrl=True) == text.meaning + (f"; {text.remedy}" if text.remedy else "")
    assert meaning(state, resctrl=False) == text.meaning + (f"; {text.without_resctrl}" if text.without_resctrl else "")
    assert bool(text.remedy) == bool(text.without_resctrl)


@pytest.mark.parametrize(
    "values, name",
    [
        ({"namespace": "shop", "pod": "web"}, "shop/web"),
        ({"pod": "web"}, "web"),
        ({"namespace": "shop"}, "3f0ac7f2-8a3"),
        ({"containers": [container("app"), container("other")]}, "app"),
        ({"containers": [container(), container("other")]}, "3f0ac7f2-8a3"),
    ],
)
def test_name_of_a_pod_is_its_own_or_its_containers_or_the_start_of_its_key(values: dict[str, Any], name: str) -> None:
    assert pod(**values).name == name


def test_pod_sums_its_groups_and_running_containers() -> None:
    containers = [container("a", "gold", outside=2), container("b", "", outside=1), container("c", alive=False)]
    one = pod(groups=[group("silver", 3), group("", 4)], containers=containers)
    assert (one.classes, one.tasks, one.outside) == (["", "gold", "silver"], 7, 3)
    assert one.living == containers[:2]
    assert one.model_dump(by_alias=True)["rdtClasses"] == one.classes


@pytest.mark.parametrize("since, text", [(0, None), (1_700_000_000, "2023-11-14T22:13:20Z")])
def test_moment_is_printed_as_rfc_3339(since: int, text: str | None) -> None:
    assert pod(since=since).model_dump(by_alias=True)["startTime"] == text


def test_free_rmids_are_those_of_all_classes_or_of_each() -> None:
    shared = Rmids(total=8, used=3)
    assert (shared.free, shared.free_in("gold"), shared.classes_text()) == (5, 5, "")
    assert shared.model_dump(by_alias=True) == {"total": 8, "used": 3, "free": 5}
    assert Rmids(total=2, used=3).free == 0
    own = Rmids(total=16, used=3, free_by_class={"": 2, "gold": 1})
    assert (own.free, own.free_in("gold"), own.classes_text()) == (3, 1, "root class 2, gold 1")
    assert own.model_dump(by_alias=True) == {"total": 16, "used": 3, "freeByClass": {"": 2, "gold": 1}, "free": 3}


def test_foreign_group_is_named_by_its_folder() -> None:
    assert (group_name("", "job"), group_name("gold", "job")) == ("mon_groups/job", "gold/mon_groups/job")
